import { type AuditEntry, createAuditKey, encodeRecord, GENESIS, parseLine, seal, verifySignature } from "./record.ts";

const KEY = createAuditKey(new Uint8Array(32).fill(1));
const ENTRY: AuditEntry = {
  caller: "broker-1",
  host: "10.0.0.1:22",
  user: "deploy",
  principal: "host:web01",
  command: "role=target purpose=oneshot user=alice@example.com",
  serial: 18446744073709551615n,
  outcome: "issued",
  policy_rule: "allow:^systemctl status [a-z]+$",
  command_line: "systemctl status nginx",
  request_id: "0b9b35a2-3cd5-4b7e-9a2f-6f0a3c1d2e4f",
  host_name: "web01",
  addr: "10.0.0.1:22",
};
const TIME = "2026-01-02T03:04:05.678Z";
const BODY = encodeRecord(ENTRY, { time: TIME });
const LINE = new TextEncoder().encode(seal(BODY, GENESIS, KEY).line);

Deno.bench("encodeRecord(), a typical record", () => {
  encodeRecord(ENTRY, { time: TIME });
});

Deno.bench("encodeRecord(), a command of 64 KiB of control characters", () => {
  encodeRecord({ ...ENTRY, command: "\x01".repeat(65_536) }, { time: TIME });
});

Deno.bench("seal()", () => {
  seal(BODY, GENESIS, KEY);
});

Deno.bench("parseLine() and verifySignature()", () => {
  const record = parseLine(LINE);
  if (record !== undefined) verifySignature(record, KEY.publicKey);
});
