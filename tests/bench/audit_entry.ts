import type { AuditEntry } from "@gateway/shared/audit/entry";

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
    command: "role=target purpose=oneshot user=bench".padEnd(commandBytes, " x"),
    serial: 0x8000_0000_0000_0000n + BigInt(n),
    outcome: "issued",
    policy_rule: "allow:^uptime$",
  };
}
