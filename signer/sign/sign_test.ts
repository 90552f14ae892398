import assert from "node:assert/strict";
import { parsePemCaKey } from "@gateway/shared/ca/pem";
import { encodeOpensshPrivateKey, parseCertificate, verifyCertificateSignature } from "@gateway/shared/ssh";
import { CONFIG, NOW_MS, ONE_SHOT, post, startSigner } from "../testing/memory_signer.ts";

Deno.test("POST /v1/sign issues a certificate locked to the command", async () => {
  const signer = await startSigner();
  const { status, body } = await signer.sign({ end_user: "alice", ttl_seconds: 9999 });
  assert.equal(status, 200);
  const certificate = parseCertificate(String(body.certificate));
  assert.ok(verifyCertificateSignature(certificate));
  assert.deepEqual(certificate.principals, ["host:web01"]);
  const options = { "force-command": "uptime", "source-address": "10.9.0.0/16" };
  assert.deepEqual({ ...certificate.criticalOptions }, options);
  assert.deepEqual(certificate.extensions, []);
  assert.equal(certificate.validAfter, NOW_MS / 1000 - 30);
  assert.equal(certificate.validBefore, NOW_MS / 1000 + 120, "the TTL is clamped to the host's cap");
  assert.equal(certificate.serial, body.serial);
  assert.equal(certificate.serial, 0xfefefefefefefefen, "serials keep all 64 bits");
  assert.equal(certificate.keyId, "agent=broker-1 host=web01 role=target t=1700000000 user=alice");
  assert.deepEqual(signer.log.entries, [{
    caller: "broker-1",
    host: "10.0.0.1:22",
    user: "deploy",
    principal: "host:web01",
    command: "role=target purpose=oneshot user=alice",
    command_line: "uptime",
    addr: "10.0.0.1:22",
    content_sha256: "",
    decision: '{"outcome":"allowed","groups":null}',
    host_name: "web01",
    reason: "",
    session_id: "",
    policy_version: undefined,
    policy_rule: "allow:^uptime$",
    warning: "",
    outcome: "issued",
    serial: 0xfefefefefefefefen,
  }]);
  assert.match(await signer.metrics.text(), /signer_sign_requests_total\{outcome="issued"\} 1/);
});

Deno.test("POST /v1/sign includes sudo in the force-command and the KeyId", async () => {
  const { body } = await (await startSigner()).sign({ sudo: true });
  const certificate = parseCertificate(String(body.certificate));
  assert.equal(certificate.criticalOptions["force-command"], "sudo -n -- uptime");
  assert.match(certificate.keyId, / elev=sudo -n$/);
  assert.equal("elevation_prefix" in body, false, "a one-shot needs no prefix");
});

Deno.test.each<[name: string, change: object | string, status: number, code: string]>([
  ["malformed JSON", "{", 400, "invalid_request"],
  ["a wrong type", { ttl_seconds: 1.5 }, 400, "invalid_request"],
  ["a body over 64 KiB", { x: "x".repeat(65536) }, 413, "payload_too_large"],
  ["no public key", { public_key: undefined }, 400, "invalid_request"],
  ["a public key that is not a key", { public_key: "ssh-ed25519 AAAA" }, 400, "invalid_request"],
  ["NUL in the command", { command: "uptime\0" }, 400, "invalid_request"],
  ["a command over 8 KiB", { command: "é".repeat(4097) }, 400, "invalid_request"],
  ["a target of an unknown type", { target_type: "vm" }, 400, "not_supported"],
])("POST /v1/sign rejects %s", async (_name, change, status, code) => {
  const signer = await startSigner();
  const body = typeof change === "string" ? change : { ...ONE_SHOT, ...change };
  const answer = await signer.send(post("/v1/sign", body));
  assert.deepEqual([answer.status, answer.body.code], [status, code], String(answer.body.detail));
  assert.deepEqual([answer.body.certificate, signer.log.entries], [undefined, []]);
});

Deno.test.each<[name: string, change: Record<string, unknown>]>([
  ["a command of 8 KiB that no rule allows", { command: "é".repeat(4096) }],
  ["a newline in the command", { command: "uptime\nid" }],
  ["a carriage return in the command", { command: "uptime\rid" }],
  ["an empty command", { host: "open01", command: " " }],
  ["an unknown role", { role: "admin" }],
  ["an unknown purpose", { purpose: "forever" }],
  ["an unknown host", { host: "web02" }],
  ["a host outside the caller's groups", { host: "db01" }],
  ["that also in a dry run", { host: "db01", dry_run: true }],
  ["a command that no rule allows", { command: "id" }],
  ["a smuggled second command", { command: "uptime; id" }],
  ["pty where the host has none", { pty: true }],
  ["sudo where the host has none", { host: "open01", sudo: true }],
  ["an unlisted sudo user", { sudo: true, sudo_user: "postgres" }],
  ["file transfer where the host has none", { file_transfer: true }],
  ["the bastion role on a policy host", { role: "bastion" }],
  ["end-user groups that meet none of the host's", { end_user_groups: ["db"] }],
  ["an end user in no group", { end_user_groups: [] }],
  ["on_behalf_of from anyone", { on_behalf_of: "broker-2" }],
])("POST /v1/sign denies %s", async (_name, change) => {
  const signer = await startSigner();
  const { status, body } = await signer.sign(change);
  assert.deepEqual([status, body.code, body.certificate], [403, "denied", undefined], String(body.detail));
  assert.deepEqual(signer.log.entries.map(({ outcome }) => outcome), ["denied"]);
});

Deno.test.each(
  ["host", "end_user", "role", "purpose", "session_mode", "sudo_user"].flatMap((field) =>
    [..." \t\n\r\0\x7f\x9b\u2028\u00a0\u200b\u202e\ue000"].map((sign) => ({ field, value: `a${sign}b` }))
  ),
)("POST /v1/sign rejects unsafe characters in $field: $value", async ({ field, value }) => {
  const { status, body } = await (await startSigner()).sign({ [field]: value });
  assert.equal(status, 400);
  assert.equal(body.detail, `invalid ${field}: control or whitespace characters not allowed`);
});

Deno.test("POST /v1/sign accepts any content type, and null for optional fields", async () => {
  const body = { ...ONE_SHOT, sudo_user: null, learn_ttl_seconds: null };
  const request = post("/v1/sign", body, { "content-type": "text/plain" });
  assert.equal((await (await startSigner()).send(request)).status, 200);
});

Deno.test("POST /v1/sign applies allowed_callers to the effective caller", async () => {
  const signer = await startSigner();
  const forwarded = await signer.sign({ host: "open01", on_behalf_of: "broker-1" }, "control-plane");
  assert.equal(forwarded.status, 200);
  const refused = await signer.sign({ host: "open01" }, "approver-broker");
  assert.match(String(refused.body.detail), /caller "approver-broker" not authorised for "open01"/);
});

Deno.test("POST /v1/sign returns only the decision for a command that requires approval", async () => {
  const signer = await startSigner();
  const { status, body } = await signer.sign({ command: "systemctl restart nginx" });
  assert.equal(status, 200);
  assert.deepEqual(Object.keys(body), ["decision"]);
  assert.equal(body.decision?.["require_approval"], true);
  assert.equal(body.decision?.["matched_rule"], "require_approval:^systemctl restart");
  assert.equal(signer.log.entries[0]?.outcome, "approval-required");
});

Deno.test.each([
  { name: "from a trusted forwarder", cn: "control-plane", on_behalf_of: "broker-1", outcomes: ["issued"] },
  { name: "from a self-approving caller", cn: "approver-broker", outcomes: ["issued", "self_approved"] },
  { name: "but from no other caller", cn: "broker-1", outcomes: ["approval-required"] },
])("POST /v1/sign accepts approved $name", async ({ cn, outcomes, on_behalf_of = "" }) => {
  const signer = await startSigner();
  const approved = { command: "systemctl restart nginx", approved: true, on_behalf_of };
  const { body } = await signer.sign(approved, cn);
  assert.equal(body.certificate !== undefined, outcomes[0] === "issued");
  assert.deepEqual(signer.log.entries.map((entry) => entry.outcome), outcomes);
});

Deno.test("POST /v1/sign never uses self_approve of _default (I10)", async () => {
  const callers = { _default: { allowed_groups: ["web"], self_approve: true } };
  const signer = await startSigner({ callers });
  for (const cn of ["broker-9", "_default"]) {
    const { body } = await signer.sign({ command: "systemctl restart nginx", approved: true }, cn);
    assert.equal(body.certificate, undefined, cn);
  }
});

Deno.test("POST /v1/sign denies unlisted callers, including names of Object members (I9)", async () => {
  const signer = await startSigner();
  for (const cn of ["stranger", "constructor", "__proto__", "toString"]) {
    assert.equal((await signer.sign({}, cn)).status, 403, cn);
  }
});

Deno.test("POST /v1/sign reports a denied dry run as a decision", async () => {
  const signer = await startSigner();
  const { status, body } = await signer.sign({ command: "id", dry_run: true });
  assert.equal(status, 200);
  assert.equal(body.decision?.["allowed"], false);
  assert.equal(body.decision?.["matched_rule"], "allowlist:no-match");
  assert.match(String(body.decision?.["reason"]), /command not allowed on "web01"/);
  const [entry] = signer.log.entries;
  assert.deepEqual([entry?.outcome, entry?.policy_rule], ["dry_run_denied", "allowlist:no-match"]);
});

Deno.test("POST /v1/sign returns 400 for a caller CN with whitespace, forwarded or not, before the policy", async () => {
  const signer = await startSigner({ callers: {}, trusted_forwarders: ["control-plane"] });
  const forwarded = ["broker 1", "broker\u00a01", "broker\u200b1"].map((on_behalf_of) => ({ on_behalf_of }));
  for (const fields of [{}, ...forwarded]) {
    const { status, body } = await signer.sign(
      fields,
      "on_behalf_of" in fields ? "control-plane" : "broker 1",
    );
    assert.equal(status, 400);
    assert.equal(body.detail, "invalid caller identity: control or whitespace characters not allowed");
  }
  assert.deepEqual(signer.log.entries, []);
});

Deno.test("POST /v1/sign omits certificate and serial in an allowed dry run", async () => {
  const signer = await startSigner();
  const { body } = await signer.sign({ dry_run: true, ttl_seconds: 60 });
  const decision = {
    allowed: true,
    matched_rule: "allow:^uptime$",
    force_command: "uptime",
    ttl_seconds: 60,
  };
  assert.deepEqual(body, { decision: { ...decision, enforcement: "enforce" } });
  assert.equal(signer.log.entries[0]?.outcome, "dry_run_allowed");
});

Deno.test("POST /v1/sign limits the rate per peer before it reads the body", async () => {
  const signer = await startSigner({ sign_rate_limit_per_min: 2 });
  assert.equal((await signer.send(post("/v1/sign", "{"))).status, 400, "a malformed request takes a token");
  assert.equal((await signer.sign({})).status, 200);
  const limited = await signer.sign({});
  assert.deepEqual([limited.status, limited.headers.get("retry-after")], [429, "30"]);
  assert.equal((await signer.sign({}, "approver-broker")).status, 200, "others have their own bucket");
  assert.equal(signer.log.entries.filter((entry) => entry.outcome === "rate-limited").length, 0);
  assert.match(await signer.metrics.text(), /outcome="rate-limited"\} 1/);
  await signer.clock.advance(30_000);
  assert.equal((await signer.sign({})).status, 200);
});

Deno.test("POST /v1/sign behind a forwarder limits end users separately, and dry runs separately", async () => {
  const signer = await startSigner({ sign_rate_limit_per_min: 2 });
  const ask = async (end_user: string, changes: object = {}) =>
    (await signer.sign({ on_behalf_of: "broker-1", end_user, ...changes }, "control-plane")).status;
  for (const status of [200, 200, 429]) assert.equal(await ask("ann", { dry_run: true }), status);
  for (const status of [200, 200, 429]) assert.equal(await ask("ann"), status);
  assert.equal(await ask("bob"), 200, "another end user");
  for (const name of ["c", "d", "e", "f", "g"]) assert.equal(await ask(name), 200);
  assert.equal(await ask("h"), 429, "end users of one broker can't be made up without end");
  assert.equal(await ask("ann", { on_behalf_of: "approver-broker" }), 200, "another broker");
  await signer.reload({ sign_rate_limit_per_min: 0 });
  assert.equal(await ask("ann"), 200, "a reload changes the limit");
});

Deno.test("POST /v1/sign uses the CA key of the first host group that has one", async () => {
  const web = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(2), "web"));
  const fallback = parsePemCaKey(encodeOpensshPrivateKey(new Uint8Array(32).fill(1), "ca"));
  const caKeys = { fallback, byGroup: new Map([["db", fallback], ["web", web]]) };
  const signer = await startSigner({}, { parts: { caKeys } });
  const certificate = parseCertificate(String((await signer.sign({})).body.certificate));
  assert.deepEqual(certificate.caPublicKey, web.publicKey);
  assert.ok(verifyCertificateSignature(certificate));
});

Deno.test.each([
  { name: "the default", request: { dry_run: true }, bytes: 8192 },
  { name: "a higher limit", config: { max_command_bytes: 65_536 } },
  { name: "a lower limit", config: { max_command_bytes: 5 }, request: { command: "uptime" }, bytes: 5 },
  { name: "the limit of file transfers", request: { file_transfer: true }, bytes: 16_384 },
  { name: "a transfer within its limit", request: { file_transfer: true, command: "x".repeat(16_384) } },
])("POST /v1/sign applies max_command_bytes: $name", async ({ config, request, bytes }) => {
  const hosts = { open01: { ...CONFIG.hosts.open01, allow_file_transfer: true } };
  const signer = await startSigner({ ...config, hosts });
  const command = "x".repeat(60_000);
  const { status: answered, body } = await signer.sign({ host: "open01", command, ...request });
  assert.equal(answered, bytes === undefined ? 200 : 400);
  if (bytes === undefined) return;
  assert.equal(body.detail, `invalid command: longer than ${bytes} bytes (max_command_bytes)`);
  assert.deepEqual(signer.log.entries, [], "such a request is not recorded: its text would fill the log");
});

Deno.test("POST /v1/sign withholds the certificate if the record cannot be written (closed)", async () => {
  const signer = await startSigner();
  signer.log.failing = true;
  const { status, body } = await signer.sign({});
  assert.deepEqual([status, body.detail, body.certificate], [500, "audit unavailable", undefined]);
  assert.deepEqual(signer.counts, { failures: 1, blocked: 1 });
  assert.doesNotMatch(await signer.metrics.text(), /outcome="issued"/, "a withheld one is not issued");
  signer.log.failing = false;
  assert.equal((await signer.sign({})).status, 200, "it recovers without a restart");
});

Deno.test("POST /v1/sign withholds denial texts and dry runs if the record cannot be written", async () => {
  const signer = await startSigner();
  signer.log.failing = true;
  for (const changes of [{ command: "id" }, { dry_run: true }, { host: "db01" }]) {
    assert.equal((await signer.sign(changes)).body.detail, "audit unavailable");
  }
});

Deno.test("POST /v1/sign proceeds without a record in fail mode open and counts the failure", async () => {
  const signer = await startSigner({ audit_fail_mode: "open" });
  signer.log.failing = true;
  assert.equal((await signer.sign({})).status, 200);
  assert.deepEqual(signer.counts, { failures: 1, blocked: 0 });
});

Deno.test.each([
  { name: "issued", request: {}, outcome: "issued" },
  { name: "denied by the policy", request: { command: "mysql -phunter2" }, outcome: "denied" },
  { name: "requested as a dry run", request: { dry_run: true }, outcome: "dry_run_allowed" },
  { name: "denied in a dry run", request: { command: "id", dry_run: true }, outcome: "dry_run_denied" },
  { name: "denied because the caller is no forwarder", request: { on_behalf_of: "x" }, outcome: "denied" },
])("POST /v1/sign records in command_line, which is masked, what was $name", async ({ request, outcome }) => {
  const signer = await startSigner();
  await signer.sign(request);
  const [entry] = signer.log.entries;
  assert.deepEqual([entry?.outcome, entry?.command_line], [outcome, request.command ?? "uptime"]);
  assert.doesNotMatch(entry?.command ?? "", /uptime|hunter2/, "the field is not masked as a command");
});
