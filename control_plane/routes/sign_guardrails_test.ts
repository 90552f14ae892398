import assert from "node:assert/strict";
import { allow, type FakeReply, gate, refusal, SERIAL } from "../testing/fake_signer.ts";
import { openMemoryStore } from "../testing/failing_control_store.ts";
import { CONFIG, get, post, startControlPlane } from "../testing/memory_control_plane.ts";
import { approvalList, type SignRequest } from "@gateway/shared/wire";

const enforce = (rate_limit_per_min = 0) => ({ behavior: { mode: "enforce", rate_limit_per_min } });
const observe = (rate_limit_per_min = 0) => ({ behavior: { mode: "observe", rate_limit_per_min } });

Deno.test("observe: an unusual request is recorded once, forwarded and learned", async () => {
  const plane = await startControlPlane(observe());
  await plane.sign();
  for (let count = 0; count < 2; count++) {
    assert.equal((await plane.sign({ host: "web02", command: "df -h" })).status, 200);
  }
  const anomalies = plane.log.entries.filter(({ outcome }) => outcome === "anomaly");
  assert.deepEqual(anomalies.map(({ anomaly }) => anomaly), ["new-host:web02,new-command:df"]);
  assert.deepEqual(plane.outcomes(), ["forwarded", "anomaly", "forwarded", "forwarded"]);
});

Deno.test("observe: a request that the signer rejects is not learned", async () => {
  const plane = await startControlPlane(observe());
  await plane.sign();
  plane.signer.reply = () => refusal(403, "denied", "no");
  await plane.sign({ host: "web02" });
  plane.signer.reply = allow;
  await plane.sign({ host: "web02" });
  assert.equal(plane.outcomes().filter((outcome) => outcome === "anomaly").length, 2);
});

Deno.test("observe: a request above the rate limit is recorded and forwarded", async () => {
  const plane = await startControlPlane(observe(1));
  await plane.sign();
  assert.equal((await plane.sign()).status, 200);
  assert.equal(plane.log.entries[1]?.anomaly, "rate-exceeded");
});

Deno.test("observe: the approval of an unusual request contains its anomalies", async () => {
  const plane = await startControlPlane(observe());
  await plane.sign();
  plane.signer.reply = gate;
  await plane.park({ host: "web02" });
  assert.deepEqual(plane.notified[0]?.anomalies, ["new-host:web02", "new-command:rm"]);
  assert.equal(plane.notified[0]?.rule, "require_approval:^rm");
});

Deno.test("enforce: a request above the rate limit returns 429 without a signer request", async () => {
  const plane = await startControlPlane(enforce(2));
  await plane.sign();
  await plane.sign();
  const { status, body, headers } = await plane.sign();
  assert.deepEqual([status, body.detail], [429, "rate limit exceeded"]);
  const retryAfter = Number(headers.get("retry-after"));
  assert.ok(retryAfter >= 1 && retryAfter <= 60);
  assert.equal(plane.signer.signed.length, 2);
  assert.deepEqual(plane.outcomes(), ["forwarded", "forwarded", "rate-limited"]);
  assert.equal(plane.log.entries[2]?.anomaly, "rate-exceeded");
  await plane.clock.advance(60_001);
  assert.equal((await plane.sign()).status, 200);
});

Deno.test("enforce: an unusual request requires approval with rule behavior and its anomalies", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  const { status } = await plane.sign({ host: "web02", command: "df" });
  assert.equal(status, 202);
  const asked = plane.signer.signed.at(-1);
  assert.deepEqual([asked?.dry_run, asked?.approved, asked?.host], [true, false, "web02"]);
  const [record] = plane.notified;
  assert.deepEqual([record?.rule, record?.anomalies], ["behavior", ["new-host:web02", "new-command:df"]]);
  const entry = plane.log.entries.at(-1);
  assert.deepEqual([entry?.outcome, entry?.policy_rule, entry?.anomaly], [
    "approval-required",
    "behavior",
    "new-host:web02,new-command:df",
  ]);
});

Deno.test("enforce: the approval of an unusual request contains the policy rule", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  const decision = { allowed: true, require_approval: true, matched_rule: "require_approval:^rm" };
  plane.signer.reply = () => ({ body: { decision } });
  await plane.park({ host: "web02", command: "rm x" });
  const [record] = plane.notified;
  assert.deepEqual([record?.rule, record?.anomalies], [
    "require_approval:^rm",
    ["new-host:web02", "new-command:rm"],
  ]);
});

Deno.test("enforce: an unusual request that the policy denies returns 403 without approval", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  plane.signer.reply = () => ({ body: { decision: { allowed: false, reason: "not in allowlist" } } });
  const { status, body } = await plane.sign({ command: "df" });
  assert.deepEqual([status, body.code, body.detail], [403, "denied", "command not allowed"]);
  const entry = plane.log.entries.at(-1);
  assert.deepEqual([entry?.outcome, entry?.anomaly, entry?.err], [
    "denied",
    "new-command:df",
    "not in allowlist",
  ]);
  assert.deepEqual(plane.notified, []);
});

Deno.test.each([
  { name: "rejects it", reply: refusal(403, "frozen", "subject is frozen"), status: 403, outcome: "denied" },
  { name: "finds it malformed", reply: refusal(400, "invalid_request", "x"), status: 400, outcome: "denied" },
  { name: "is too busy", reply: refusal(429, "rate_limited", "x"), status: 429, outcome: "rate-limited" },
  { name: "fails", reply: refusal(500, "internal", "x"), status: 502, outcome: "error" },
  { name: "returns an empty body", reply: { body: {} }, status: 502, outcome: "error" },
])("enforce: an unusual request returns $status if the signer $name", async ({ reply, status, outcome }) => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  plane.signer.reply = () => reply;
  assert.equal((await plane.sign({ command: "df" })).status, status);
  const entry = plane.log.entries.at(-1);
  assert.deepEqual([entry?.outcome, entry?.anomaly], [outcome, "new-command:df"]);
  assert.deepEqual(plane.notified, []);
});

Deno.test("enforce: an unusual request becomes usual only after its collection (A8)", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  const id = await plane.park({ command: "df -h" });
  await plane.park({ command: "df -h" });
  await plane.decide(id, { approve: true });
  const third = await plane.park({ command: "df -i" });
  await plane.decide(third, { approve: false });
  assert.equal((await plane.poll(id)).status, 200);
  assert.equal(plane.signer.signed.at(-1)?.approved, true);
  assert.equal((await plane.sign({ command: "df -i" })).status, 200);
});

Deno.test("enforce: an approved request that is not issued stays unusual", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  const id = await plane.park({ command: "df" });
  await plane.decide(id, { approve: true });
  plane.signer.reply = () => refusal(403, "denied", "no");
  assert.equal((await plane.poll(id)).status, 502);
  plane.signer.reply = allow;
  assert.equal((await plane.sign({ command: "df" })).status, 202);
});

Deno.test("a preflight is checked for anomalies like its command (A9, I21)", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  assert.equal((await plane.sign({ command: "df", dry_run: true, preflight: true })).status, 202);
  assert.equal((await plane.sign({ command: "df", dry_run: true })).status, 200, "a mere question is not");
});

Deno.test("a preflight that requires approval is not learned (A8)", async () => {
  const plane = await startControlPlane(enforce());
  plane.signer.reply = () => ({ body: { decision: { allowed: true, require_approval: true } } });
  await plane.sign({ dry_run: true, preflight: true });
  plane.signer.reply = allow;
  assert.equal((await plane.sign({ command: "df" })).status, 200, "still the first request of its subject");
});

Deno.test("enforce: an unusual preflight that a rule gates returns its decision without approval", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign();
  const decision = { allowed: true, require_approval: true, matched_rule: "require_approval:^rm" };
  plane.signer.reply = () => ({ body: { decision } });
  for (let count = 0; count < 2; count++) {
    const { status, body } = await plane.sign({ command: "rm x", dry_run: true, preflight: true });
    assert.deepEqual([status, body.decision], [200, decision]);
  }
  assert.deepEqual(plane.notified, []);
  const entry = plane.log.entries.at(-1);
  assert.deepEqual([entry?.outcome, entry?.dry_run, entry?.policy_rule, entry?.anomaly], [
    "forwarded",
    true,
    "require_approval:^rm",
    "new-command:rm",
  ]);
});

Deno.test("an untrusted broker cannot become another subject by naming an end user (I12)", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign({ end_user: "alice" });
  assert.equal((await plane.sign({ end_user: "bob", command: "df" })).status, 202);
});

Deno.test("each end user of a trusted broker is a separate subject", async () => {
  const plane = await startControlPlane(enforce());
  await plane.sign({ end_user: "alice" }, "broker-2");
  assert.equal((await plane.sign({ end_user: "bob", command: "df" }, "broker-2")).status, 200);
  assert.equal((await plane.sign({ end_user: "alice", command: "df" }, "broker-2")).status, 202);
});

Deno.test("enforce: a subject's first request here is compared with the shared baseline", async () => {
  const other = { hosts: ["web09"], commands: ["uptime"], lastSeen: 1_700_000_000_000 };
  const store = Object.assign(openMemoryStore(), {
    findBaseline: (subject: string) => Promise.resolve({ subject, ...other }),
  });
  const plane = await startControlPlane(enforce(), { store });
  assert.equal((await plane.sign({ command: "uptime" })).status, 202);
  assert.deepEqual(plane.notified[0]?.anomalies, ["new-host:web01"]);
});

const MANIFEST =
  '{"apiVersion":"v1","kind":"Secret","metadata":{"name":"db"},"data":{"password":"aHVudGVyMg=="}}';
const DIFF = { kind: "changed", changes: [{ path: "data.password", before: "[masked]", after: "[masked]" }] };
const RULE = "require_approval:^apply secrets prod/.*$";

const APPLY = {
  host: "prod",
  role: "target",
  purpose: "oneshot",
  command: "apply secrets prod/db",
  target_type: "k8s",
  k8s_verb: "apply",
  k8s_resource: "secrets",
  k8s_namespace: "prod",
  k8s_name: "db",
  k8s_manifest: MANIFEST,
  end_user: "alice",
  end_user_groups: ["ops"],
};

const issue = (): FakeReply => ({
  body: {
    k8s_token: "token-1",
    k8s_token_expiry: "2026-01-02T03:04:05Z",
    serial: SERIAL,
    decision: { allowed: true, matched_rule: "allow:x", reveal: true },
  },
});

const listed = async (plane: Awaited<ReturnType<typeof startControlPlane>>) =>
  approvalList.parse((await plane.get("/v1/approvals", "approver-1")).body);

/** A signer that requires an approval for every action. */
function gated({ body }: { readonly body?: unknown }): FakeReply {
  if ((body as SignRequest | undefined)?.approved) return issue();
  const decision = { allowed: true, require_approval: true, matched_rule: RULE };
  return { body: { decision, k8s_diff: DIFF } };
}

Deno.test("POST /v1/sign for a cluster forwards the request without key and returns the token", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = issue;
  const request = { ...APPLY, public_key: "not looked at", approved: true, bearer_token: "secret" };
  const { status, body } = await plane.send(post("/v1/sign", request), "broker-1");
  assert.equal(status, 200);
  assert.deepEqual(body, issue().body);
  const [sent] = plane.signer.signed;
  assert.ok(sent);
  const { public_key, approved, on_behalf_of, bearer_token, k8s_manifest } = sent;
  assert.deepEqual([public_key, approved, on_behalf_of, bearer_token, k8s_manifest], [
    "",
    false,
    "broker-1",
    "secret",
    MANIFEST,
  ]);
  const [record] = plane.log.entries;
  assert.deepEqual([record?.outcome, record?.target_type, record?.serial], ["forwarded", "k8s", SERIAL]);
  assert.match(record?.body_sha256 ?? "", /^[0-9a-f]{64}$/);
});

Deno.test("POST /v1/sign accepts a quoted manifest of 64 KiB only for a cluster", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = issue;
  const k8s_manifest = `{"a":"${'\\"'.repeat(32_000)}"}`;
  assert.equal((await plane.send(post("/v1/sign", { ...APPLY, k8s_manifest }), "broker-1")).status, 200);
  const forHost = { ...APPLY, target_type: "ssh", k8s_manifest };
  assert.equal((await plane.send(post("/v1/sign", forHost), "broker-1")).status, 413);
});

Deno.test.each([
  { name: "no token", body: { serial: 7, decision: { allowed: true } } },
  { name: "a certificate in its place", body: { certificate: "ssh-ed25519-cert…", serial: 7 } },
  { name: "a denial with a token", body: { k8s_token: "t", serial: 7, decision: { allowed: false } } },
])("POST /v1/sign for a cluster returns 502 if the signer returns $name", async ({ body }) => {
  const plane = await startControlPlane();
  plane.signer.reply = () => ({ body });
  assert.equal((await plane.send(post("/v1/sign", APPLY), "broker-1")).status, 502);
});

Deno.test("an apply that requires approval is listed with masked changes and collected once", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = gated;
  const { status, body: { approval_id: id } } = await plane.send(post("/v1/sign", APPLY), "broker-1");
  assert.equal(status, 202);
  const [record] = await listed(plane);
  assert.ok(record);
  assert.deepEqual([record.target_type, record.host, record.command], ["k8s", "prod", APPLY.command]);
  assert.deepEqual(record.k8s_diff, DIFF);
  assert.deepEqual(JSON.parse(record.k8s_manifest ?? "").data, { password: "[masked: 7 bytes]" });
  const digest = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(MANIFEST));
  assert.equal(record.k8s_manifest_sha256, new Uint8Array(digest).toHex());
  assert.doesNotMatch(JSON.stringify(record), /aHVudGVyMg/);
  const { text: html } = await plane.send(
    get(`/ui/approvals/${id}`, { accept: "text/html,application/xhtml+xml,*/*;q=0.8" }),
    "approver-1",
  );
  assert.match(html, /<h2 id="change"[^>]*>Changes/);
  assert.match(html, /data\.password/);
  assert.match(html, /\[masked: 7 bytes\]/);
  assert.doesNotMatch(html, /aHVudGVyMg/);
  await plane.send(post(`/v1/approvals/${id}`, { approve: true }), "approver-1");
  const result = await plane.get(`/v1/sign/result/${id}`, "broker-1");
  assert.deepEqual([result.status, result.body.k8s_token, result.body.serial], [200, "token-1", SERIAL]);
  assert.equal(plane.signer.signed.at(-1)?.k8s_manifest, MANIFEST);
  assert.equal((await plane.get(`/v1/sign/result/${id}`, "broker-1")).status, 410);
  const granted = plane.log.entries.find(({ outcome }) => outcome === "approval-granted");
  assert.deepEqual([granted?.target_type, granted?.body_sha256], ["k8s", record.k8s_manifest_sha256]);
});

Deno.test("another manifest or another diff creates another approval", async () => {
  const plane = await startControlPlane({ approval: { ...CONFIG.approval, max_pending_per_caller: 40 } });
  plane.signer.reply = gated;
  const ask = async (changes: object = {}) =>
    (await plane.send(post("/v1/sign", { ...APPLY, ...changes }), "broker-1")).body.approval_id;
  await ask();
  await ask();
  await ask({ k8s_manifest: MANIFEST.replace("aHVudGVyMg", "aHVudGVyMw") });
  plane.signer.reply = () => ({
    body: {
      decision: { allowed: true, require_approval: true, matched_rule: RULE },
      k8s_diff: { kind: "unchanged" },
    },
  });
  await ask();
  const joined = (await listed(plane)).map(({ joined = [] }) => joined.length).sort();
  assert.deepEqual(joined, [0, 0, 1]);
});

Deno.test("a manifest that is not JSON is withheld from approvers", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = gated;
  await plane.send(post("/v1/sign", { ...APPLY, k8s_manifest: "password: hunter2" }), "broker-1");
  const [record] = await listed(plane);
  assert.ok(record);
  assert.equal(record.k8s_manifest, "[masked: 17 bytes that can't be read as JSON]");
});

Deno.test("an apply without a manifest cannot be learned", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = gated;
  const request = { ...APPLY, k8s_manifest: "" };
  const { body: { approval_id: id } } = await plane.send(post("/v1/sign", request), "broker-1");
  const decision = { approve: true, learn: true, ttl_seconds: 60 };
  const answer = await plane.send(post(`/v1/approvals/${id}`, decision), "approver-1");
  assert.equal(answer.status, 400);
  assert.match(String(answer.body.detail), /without a manifest/);
});

Deno.test("an unusual apply without a policy rule is listed with its changes", async () => {
  const plane = await startControlPlane({ behavior: { mode: "enforce" } });
  plane.signer.reply = ({ body }) => {
    const { dry_run, preflight } = body as SignRequest;
    const decision = { allowed: true, matched_rule: "allow:x" };
    return dry_run ? { body: { decision, ...(preflight && { k8s_diff: DIFF }) } } : issue();
  };
  assert.equal((await plane.send(post("/v1/sign", APPLY), "broker-1")).status, 200);
  const elsewhere = { ...APPLY, host: "dev" };
  assert.equal((await plane.send(post("/v1/sign", elsewhere), "broker-1")).status, 202);
  const [record] = await listed(plane);
  assert.deepEqual([record?.rule, record?.anomalies, record?.k8s_diff], ["behavior", ["new-host:dev"], DIFF]);
});
