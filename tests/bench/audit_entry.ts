import type { AuditEntry } from "@gateway/shared/audit";

/**
 * The record of an issued certificate.
 *
 * @param commandBytes how long its command is to be made
 */
export function sampleEntry(n: number, commandBytes = 0): AuditEntry {
  return {
    caller: "broker-local",
    host: "10.0.0.1:22",
    user: "deploy",
    principal: "host:web01",
    command: "role=target purpose=oneshot user=bench",
    command_line: "uptime".padEnd(commandBytes, " x"),
    request_id: "0b9b35a2-3cd5-4b7e-9a2f-6f0a3c1d2e4f",
    host_name: "web01",
    addr: "10.0.0.1:22",
    serial: 0x8000_0000_0000_0000n + BigInt(n),
    outcome: "issued",
    policy_rule: "allow:^uptime$",
  };
}
