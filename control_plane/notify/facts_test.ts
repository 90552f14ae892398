import assert from "node:assert/strict";
import { factsOf, MAX_COMMAND_LENGTH, MAX_VALUE_LENGTH } from "./facts.ts";
import { APPROVAL_ID, sampleApproval } from "./testing/sample_approval.ts";

const valueOf = (name: string, change: Parameters<typeof sampleApproval>[0]) =>
  factsOf(sampleApproval(change)).find((fact) => fact.name === name)?.value;

Deno.test("factsOf() gives all facts in their order", () => {
  assert.deepEqual(
    factsOf(sampleApproval({
      anomalies: ["new-host:web01", "new-command:systemctl"],
      access: ["session:pty", "pty"],
      account: "deploy",
      addr: "10.0.0.1:22",
      life_seconds: 300,
      session_max_seconds: 1800,
      reason: "deploy 4711",
      content_sha256: "ab".repeat(32),
      content_bytes: 3,
    })).map((
      { name, value },
    ) => [
      name,
      value,
    ]),
    [
      ["Approval ID", APPROVAL_ID],
      ["Status", "pending"],
      ["Created", "2026-01-02T03:04:05Z"],
      [
        "Asks",
        "for an interactive shell, as root, on web01; what is typed there is not shown to you; it may live 30 minutes",
      ],
      ["Host", "web01"],
      ["Address", "10.0.0.1:22"],
      ["Command", "systemctl restart nginx"],
      ["Caller (broker)", "broker-1"],
      ["End user", "ada@example.org"],
      ["Elevation", "sudo → root"],
      ["Access", "session:pty, pty"],
      ["Certificate", "lives 5 minutes"],
      ["Reason given", "deploy 4711"],
      ["Writes", `3 bytes, SHA-256 ${"ab".repeat(32)}`],
      ["Policy rule", "require_approval:^systemctl restart"],
      ["Anomalies", "new-host:web01, new-command:systemctl"],
    ],
  );
});

Deno.test("factsOf() leaves out what is absent or empty", () => {
  const record = sampleApproval({ end_user: undefined, sudo: false, rule: "", anomalies: [] });
  assert.deepEqual(factsOf(record).map(({ name }) => name), [
    "Approval ID",
    "Status",
    "Created",
    "Host",
    "Command",
    "Caller (broker)",
  ]);
});

Deno.test.each([
  { name: "root without a user", change: { sudo: true }, expected: "sudo → root" },
  { name: "root for an empty user", change: { sudo: true, sudo_user: "" }, expected: "sudo → root" },
  { name: "the user", change: { sudo: true, sudo_user: "postgres" }, expected: "sudo → postgres" },
  { name: "nothing without sudo", change: { sudo: undefined, sudo_user: "postgres" }, expected: undefined },
])("factsOf() shows as elevation $name", ({ change, expected }) => {
  assert.equal(valueOf("Elevation", change), expected);
});

Deno.test("factsOf() cuts a command of 60 KiB and says so", () => {
  const command = valueOf("Command", { command: `echo ${"x".repeat(60 * 1024)}` });
  assert.ok(command?.endsWith(`… [TRUNCATED: ${MAX_COMMAND_LENGTH} of 61445 characters]`));
  assert.ok(command?.startsWith("echo xxx"));
});

Deno.test("factsOf() cuts every other value too", () => {
  const long = "x".repeat(60 * 1024);
  const record = sampleApproval({ caller: long, end_user: long, host: long, sudo_user: long, rule: long });
  for (const { name, value } of factsOf({ ...record, anomalies: [long, long] })) {
    assert.ok(value.length < MAX_VALUE_LENGTH + 60, name);
  }
});
