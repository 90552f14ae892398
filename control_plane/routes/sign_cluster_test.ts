import assert from "node:assert/strict";
import { approvalList, type SignRequest } from "@gateway/shared/wire";
import { type FakeReply, SERIAL } from "../testing/fake_signer.ts";
import { CONFIG, get, post, startControlPlane } from "../testing/memory_control_plane.ts";

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

/** A signer that wants every action approved. */
function gated({ body }: { readonly body?: unknown }): FakeReply {
  if ((body as SignRequest | undefined)?.approved) return issue();
  const decision = { allowed: true, require_approval: true, matched_rule: RULE };
  return { body: { decision, k8s_diff: DIFF } };
}

Deno.test("POST /v1/sign for a cluster passes all of it on, without a key, and the token back", async () => {
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

Deno.test("POST /v1/sign for a cluster takes a manifest of 64 KiB in its quotes, and for a host no such body", async () => {
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
])("POST /v1/sign for a cluster is 502 when the signer answers with $name", async ({ body }) => {
  const plane = await startControlPlane();
  plane.signer.reply = () => ({ body });
  assert.equal((await plane.send(post("/v1/sign", APPLY), "broker-1")).status, 502);
});

Deno.test("an apply that a human has to approve is shown with what it changes, its values masked, and collected once", async () => {
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
  assert.match(html, /What it would change/);
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

Deno.test("another manifest, and another difference, is another approval", async () => {
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

Deno.test("a manifest that can't be read is withheld from approvers", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = gated;
  await plane.send(post("/v1/sign", { ...APPLY, k8s_manifest: "password: hunter2" }), "broker-1");
  const [record] = await listed(plane);
  assert.ok(record);
  assert.equal(record.k8s_manifest, "[masked: 17 bytes that can't be read as JSON]");
});

Deno.test("an apply whose manifest nobody has said is approved once only, and nothing is learned", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = gated;
  const request = { ...APPLY, k8s_manifest: "" };
  const { body: { approval_id: id } } = await plane.send(post("/v1/sign", request), "broker-1");
  const decision = { approve: true, learn: true, ttl_seconds: 60 };
  const answer = await plane.send(post(`/v1/approvals/${id}`, decision), "approver-1");
  assert.equal(answer.status, 400);
  assert.match(String(answer.body.detail), /nobody says how/);
});

Deno.test("an unusual apply that no rule gates is shown with what it changes too", async () => {
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
