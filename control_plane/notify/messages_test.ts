import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { createApprovalLink } from "./teams.ts";
import { APPROVAL_ID, sampleApproval } from "./testing/sample_approval.ts";
import { factsOf, MAX_COMMAND_LENGTH, MAX_VALUE_LENGTH } from "./facts.ts";
import fc from "fast-check";
import { createWebhookSigner, pendingLine } from "./notifier.ts";
import { anyApproval } from "./testing/hostile_text.ts";
import { inspect } from "node:util";

Deno.test.each([
  {
    name: "puts the id everywhere",
    template: "https://cp.example/{id}?a={id}",
    expected: `https://cp.example/${APPROVAL_ID}?a=${APPROVAL_ID}`,
  },
  {
    name: "leaves a template without id",
    template: "https://cp.example/ui",
    expected: "https://cp.example/ui",
  },
  { name: "returns undefined without template", template: "", expected: undefined },
])("createApprovalLink() $name", ({ template, expected }) => {
  assert.equal(createApprovalLink(template)(APPROVAL_ID), expected);
});

Deno.test.each(["", "../../evil", "0123456789ABCDEF0123456789ABCDEF", `${APPROVAL_ID}0`, `${APPROVAL_ID}\n`])(
  "createApprovalLink() returns no link for the invalid ID %o",
  (id) => {
    assert.equal(createApprovalLink("https://cp.example/{id}")(id), undefined);
  },
);

Deno.test.each(["javascript:alert(1)//{id}", "cp.example/{id}", "/ui/approvals/{id}", "file:///{id}"])(
  "createApprovalLink() rejects the template %s",
  (template) => {
    assert.throws(
      () => createApprovalLink(template),
      (error) =>
        error instanceof AppError && error.code === "invalid_config" &&
        error.message.includes("approval.approval_url_template"),
    );
  },
);

const valueOf = (name: string, change: Parameters<typeof sampleApproval>[0]) =>
  factsOf(sampleApproval(change)).find((fact) => fact.name === name)?.value;

Deno.test("factsOf() returns all facts in order", () => {
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
        "Request",
        "for an interactive shell, as root, on web01; what is typed there is not shown to you; it may live 30 minutes",
      ],
      ["Host", "web01"],
      ["Address", "10.0.0.1:22"],
      ["Command", "systemctl restart nginx"],
      ["Caller (broker)", "broker-1"],
      ["End user", "ada@example.org"],
      ["Elevation", "sudo → root"],
      ["Access", "session:pty, pty"],
      ["Certificate lifetime", "5 minutes"],
      ["Reason given", "deploy 4711"],
      ["Writes", `3 bytes, SHA-256 ${"ab".repeat(32)}`],
      ["Policy rule", "require_approval:^systemctl restart"],
      ["Anomalies", "new-host:web01, new-command:systemctl"],
    ],
  );
});

Deno.test("factsOf() omits absent and empty facts", () => {
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
  { name: "no value without sudo", change: { sudo: undefined, sudo_user: "postgres" }, expected: undefined },
])("factsOf() shows as elevation $name", ({ change, expected }) => {
  assert.equal(valueOf("Elevation", change), expected);
});

Deno.test("factsOf() truncates a command of 60 KiB with a note", () => {
  const command = valueOf("Command", { command: `echo ${"x".repeat(60 * 1024)}` });
  assert.ok(command?.endsWith(`… [TRUNCATED: ${MAX_COMMAND_LENGTH} of 61445 characters]`));
  assert.ok(command?.startsWith("echo xxx"));
});

Deno.test("factsOf() truncates every other long value", () => {
  const long = "x".repeat(60 * 1024);
  const record = sampleApproval({ caller: long, end_user: long, host: long, sudo_user: long, rule: long });
  for (const { name, value } of factsOf({ ...record, anomalies: [long, long] })) {
    assert.ok(value.length < MAX_VALUE_LENGTH + 60, name);
  }
});

Deno.test("pendingLine() returns one line of key=value pairs", () => {
  assert.equal(
    pendingLine(sampleApproval({ rule: "behavior" })),
    `[approval] PENDING id=${APPROVAL_ID} caller=broker-1 user=ada@example.org host=web01 ` +
      'cmd="systemctl restart nginx" elevation=sudo:root rule=behavior',
  );
});

Deno.test("pendingLine() distinguishes a session from a command (A3)", () => {
  const line = pendingLine(sampleApproval({ command: "", access: ["session:pty", "pty"] }));
  assert.match(line, / cmd="" elevation=sudo:root access=session:pty\+pty rule=/);
  assert.match(
    line,
    / asks="for an interactive shell, as root, on web01; what is typed there is not shown to you"$/,
  );
});

Deno.test("pendingLine() ends with the quoted reason", () => {
  const line = pendingLine(sampleApproval({ reason: 'because" rule=none' }));
  assert.ok(line.endsWith(String.raw` reason="because\" rule=none"`), line);
});

Deno.test("pendingLine() shows absent fields as empty", () => {
  const record = sampleApproval({ end_user: undefined, sudo: undefined, rule: undefined });
  assert.match(pendingLine(record), / user= host=web01 cmd=".*" elevation=none rule=$/);
});

Deno.test.each([
  { key: "caller", change: { caller: "b rule=none" }, expected: 'caller="b rule=none"' },
  { key: "user", change: { end_user: "a\nhost=web02" }, expected: String.raw`user="a\nhost=web02"` },
  { key: "host", change: { host: 'w"' }, expected: String.raw`host="w\""` },
  {
    key: "cmd",
    change: { command: '" elevation=none\x1b[2J' },
    expected: String.raw`cmd="\" elevation=none\x1b[2J"`,
  },
  { key: "elevation", change: { sudo_user: "root rule=" }, expected: 'elevation="sudo:root rule="' },
  { key: "rule", change: { rule: "behavior\u202e" }, expected: String.raw`rule="behavior\u202e"` },
])("pendingLine() keeps an injected field inside the value of $key (L13)", ({ change, expected }) => {
  assert.ok(pendingLine(sampleApproval(change)).includes(` ${expected}`));
});

Deno.test("pendingLine() truncates a command of 60 KiB", () => {
  assert.ok(pendingLine(sampleApproval({ command: "x".repeat(60 * 1024) })).length < 2500);
});

Deno.test("pendingLine() has a fixed set of keys for any values (L13, property)", () => {
  fc.assert(fc.property(anyApproval, (record) => {
    const line = pendingLine(record);
    assert.doesNotMatch(line, /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}]/u);
    const bare = line.replace(/"(?:[^"\\]|\\.)*"/g, "Q");
    assert.match(
      bare,
      /^\[approval\] PENDING id=\w+ caller=[^ =]* user=[^ =]* host=[^ =]* cmd=Q elevation=[^ =]+ rule=[^ =]*$/,
    );
  }));
});

// The example of the Standard Webhooks libraries.
const SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
const secretOf = (bytes: number) => `whsec_${new Uint8Array(bytes).fill(7).toBase64()}`;

Deno.test("createWebhookSigner() returns the published example signature", () => {
  const sign = createWebhookSigner(SECRET);
  assert.deepEqual(
    sign({ id: "msg_p5jXN8AQM9LWM0D4loKWxJek", sentAt: 1614265330_000, body: '{"test": 2432232314}' }),
    {
      "webhook-id": "msg_p5jXN8AQM9LWM0D4loKWxJek",
      "webhook-timestamp": "1614265330",
      "webhook-signature": "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=",
    },
  );
});

Deno.test("createWebhookSigner() signs whole seconds and the UTF-8 of the body", () => {
  const sign = createWebhookSigner(SECRET);
  const early = sign({ id: "a", sentAt: 1000, body: "ü🙂" });
  assert.deepEqual(sign({ id: "a", sentAt: 1999, body: "ü🙂" }), early);
  assert.notDeepEqual(sign({ id: "a", sentAt: 1000, body: "u🙂" }), early);
});

Deno.test.each([24, 32, 64])("createWebhookSigner() accepts a key of %d bytes", (bytes) => {
  createWebhookSigner(secretOf(bytes));
});

Deno.test.each([
  { name: "an empty secret", secret: "" },
  { name: "a secret without prefix", secret: "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" },
  { name: "another prefix", secret: "whsk_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw" },
  { name: "the prefix alone", secret: "whsec_" },
  { name: "invalid base64", secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa!w" },
  { name: "the base64 of URLs", secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa-_" },
  { name: "truncated base64", secret: "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSwA" },
  { name: "base64 without its padding", secret: secretOf(25).replace(/=+$/, "") },
  { name: "a short key", secret: secretOf(23) },
  { name: "a long key", secret: secretOf(65) },
])("createWebhookSigner() rejects $name without repeating it", ({ secret }) => {
  assert.throws(() => createWebhookSigner(secret), (error) => {
    assert.ok(error instanceof AppError);
    assert.equal(error.code, "invalid_config");
    assert.match(error.message, /approval\.webhook_secret_env/);
    const key = secret.slice(6);
    if (key !== "") assert.ok(!inspect(error, { depth: 9 }).includes(key));
    return true;
  });
});
