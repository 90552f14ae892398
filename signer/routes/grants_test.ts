import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import type { InstanceGroup } from "@gateway/shared/instances";
import { failingStore } from "../testing/failing_store.ts";
import { CONFIG, DISTINCT, get, NOW_MS, post, startSigner } from "../testing/memory_signer.ts";

type Signer = Awaited<ReturnType<typeof startSigner>>;

const HOUR = { allow: ["^id$"], ttl_seconds: 3600 };

const start = (changes = {}) => startSigner(changes, { randomBytes: DISTINCT });
const grant = (signer: Signer, body: unknown, host = "web01", cn = "operator") =>
  signer.send(post(`/v1/policy/hosts/${encodeURIComponent(host)}/grants`, body), cn);
const revoke = (signer: Signer, id: string, cn = "operator") =>
  signer.send(
    new Request(`https://signer/v1/policy/grants/${encodeURIComponent(id)}`, { method: "DELETE" }),
    cn,
  );
const list = (signer: Signer, cn = "operator") => signer.send(get("/v1/policy/grants"), cn);

Deno.test("a grant allows a command until it is revoked", async () => {
  const signer = await start();
  assert.equal((await signer.sign({ command: "id" })).status, 403);
  const { status, body } = await grant(signer, HOUR);
  assert.equal(status, 201);
  const id = String(body["id"]);
  assert.match(id, /^[0-9a-f]{24}$/);
  assert.deepEqual(body, { id, host: "web01", expires_at: "2023-11-14T23:13:20Z" });
  assert.equal((await signer.sign({ command: "id" })).status, 200);
  assert.deepEqual((await list(signer)).body, [{
    id,
    host: "web01",
    allow: ["^id$"],
    approver: "operator",
    granted_at: "2023-11-14T22:13:20Z",
    expires_at: "2023-11-14T23:13:20Z",
  }]);
  assert.deepEqual((await revoke(signer, id)).body, { status: "ok", id });
  assert.equal((await signer.sign({ command: "id" })).status, 403, "denied again at once");
  const records = signer.log.entries.map(({ outcome, command }) => `${outcome} ${command}`);
  const changes = records.filter((record) => record.startsWith("grant"));
  assert.deepEqual(changes, [`grant-created grant ${id}`, `grant-revoked grant ${id}`]);
});

Deno.test("a grant, waiver or revocation whose store write fails is recorded as failed with the same ID", async () => {
  const store = failingStore();
  const signer = await startSigner({}, { randomBytes: DISTINCT, store });
  const kept = String((await grant(signer, HOUR)).body["id"]);
  store.failing.add("insertGrant").add("deleteGrant");
  assert.equal((await grant(signer, { ...HOUR, allow: ["^w$"] })).status, 500);
  assert.equal((await revoke(signer, kept)).status, 500);
  const gated = { command: "systemctl restart nginx", on_behalf_of: "broker-1" };
  const learning = { ...gated, approved: true, learn_ttl_seconds: 60, learn_approver: "carol" };
  assert.equal((await signer.sign(learning, "control-plane")).status, 200, "the certificate stands");
  assert.deepEqual(signer.live.listGrants().map(({ id }) => id), [kept]);
  const records = signer.log.entries.slice(1).filter(({ outcome }) => outcome !== "issued");
  const why = "The state database could not be used";
  const [refused = "", learned = ""] = [records[0]?.command, records[4]?.command];
  assert.match(`${refused}, ${learned}`, /^grant [0-9a-f]{24}, approval-waiver [0-9a-f]{24}$/);
  assert.deepEqual(records.map(({ command, outcome, err = "" }) => [command, outcome, err]), [
    [refused, "grant-created", ""],
    [refused, "grant-failed", `not granted: ${why}`],
    [`grant ${kept}`, "grant-revoked", ""],
    [`grant ${kept}`, "grant-failed", `not revoked, still in force: ${why}`],
    [learned, "approval-waiver-created", ""],
    [learned, "approval-waiver-failed", why],
  ]);
  const hosts = new Set(records.map(({ host_name, addr }) => `${host_name} ${addr}`));
  assert.deepEqual([...hosts], ["web01 10.0.0.1:22"]);
});

/** Runs a function after the record of the decision is durable and before the response is sent. */
function beforeRelease(signer: Signer, act: () => Promise<{ status: number }>, outcome = "issued"): void {
  signer.log.onAppended = async (entry) => {
    if (entry.outcome !== outcome) return;
    signer.log.onAppended = undefined;
    assert.equal((await act()).status, 200);
  };
}

Deno.test("a certificate allowed by a grant is withheld once the grant's end is acknowledged", async () => {
  const signer = await start();
  const id = String((await grant(signer, HOUR)).body["id"]);
  beforeRelease(signer, () => revoke(signer, id));
  const { status, body } = await signer.sign({ command: "id" });
  assert.deepEqual([status, body.code, body.certificate], [403, "denied", undefined]);
  const [issued, , denied] = signer.log.entries.slice(-3);
  assert.deepEqual([issued?.outcome, denied?.outcome, denied?.serial], ["issued", "denied", issued?.serial]);
  assert.ok(signer.krl.listed.has({ serial: issued?.serial ?? 0n }));
});

const SESSION = { purpose: "session", session_mode: "exec" };

Deno.test.each([
  ["a certificate", {}, "issued"],
  ["a preflight", { ...SESSION, dry_run: true, preflight: true }, "dry_run_allowed"],
  ["a dry run", { dry_run: true }, "dry_run_allowed"],
])(
  "%s allowed by a rule is withheld once the removal of the rule is acknowledged",
  async (_name, fields, outcome) => {
    const signer = await start();
    const removal = new Request("https://signer/v1/policy/hosts/web01/allow", {
      method: "DELETE",
      body: JSON.stringify({ pattern: "^uptime$" }),
    });
    beforeRelease(signer, () => signer.send(removal, "operator"), outcome);
    const { status, body } = await signer.sign(fields);
    assert.deepEqual([status, body.certificate, body.decision], [403, undefined, undefined]);
  },
);

Deno.test("an unrelated policy edit does not withhold a certificate or a dry run", async () => {
  const signer = await start();
  const edit = async () => ({ status: (await grant(signer, HOUR)).status - 1 });
  beforeRelease(signer, edit);
  assert.equal((await signer.sign({})).status, 200);
  beforeRelease(signer, edit, "dry_run_allowed");
  const { status, body } = await signer.sign({ command: "systemctl restart nginx", dry_run: true });
  assert.deepEqual([status, body.decision?.["require_approval"]], [200, true]);
});

Deno.test("a signer with shared state catches up before it looks for a grant, and returns 503 if stale", async () => {
  const steps: string[] = [];
  const stale = new AppError("state_stale", "stale", { retryAfterSeconds: 1 });
  const instances: InstanceGroup = {
    isShared: true,
    requireFresh() {
      throw stale;
    },
    settled: () => Promise.resolve(steps.push("settled")).then(() => []),
    caughtUp: () => Promise.resolve(void steps.push("caught up")),
    problem: "stale",
  };
  const signer = await startSigner({}, { instances });
  assert.equal((await revoke(signer, "x")).status, 404);
  assert.deepEqual(steps, ["caught up"]);
  const answers = [grant(signer, HOUR), list(signer), signer.send(get("/v1/hosts"))];
  assert.deepEqual((await Promise.all(answers)).map(({ status }) => status), [503, 503, 503]);
});

Deno.test("a grant expires after its TTL", async () => {
  const signer = await start();
  await grant(signer, { ...HOUR, ttl_seconds: 60 });
  await signer.clock.advance(59_999);
  assert.equal((await signer.sign({ command: "id" })).status, 200);
  await signer.clock.advance(1);
  assert.equal((await signer.sign({ command: "id" })).status, 403);
  assert.deepEqual((await list(signer)).body, []);
});

Deno.test("a grant applies only to its caller and end user", async () => {
  const signer = await start();
  await grant(signer, { ...HOUR, caller: "broker-1", end_user: "alice" });
  assert.equal((await signer.sign({ command: "id", end_user: "alice" })).status, 200);
  assert.equal((await signer.sign({ command: "id", end_user: "bob" })).status, 403);
  assert.equal((await signer.sign({ command: "id" })).status, 403);
  assert.equal((await signer.sign({ command: "id", end_user: "alice" }, "approver-broker")).status, 403);
});

Deno.test.each<[name: string, host: string, body: object, status: number, records: number]>([
  ["no pattern", "web01", { ...HOUR, allow: [] }, 400, 0],
  ["an empty pattern", "web01", { ...HOUR, allow: [""] }, 400, 0],
  ["no time", "web01", { ...HOUR, ttl_seconds: 0 }, 400, 0],
  ["a time above the cap", "web01", { ...HOUR, ttl_seconds: 7201 }, 400, 1],
  ["a bad pattern", "web01", { ...HOUR, allow: ["("] }, 400, 1],
  ["an unknown host, also with a bad pattern", "web02", { ...HOUR, allow: ["("] }, 404, 1],
  ["a host without an allowlist", "open01", HOUR, 409, 1],
])("POST …/grants rejects %s", async (_name, host, body, status, records) => {
  const signer = await start({ max_grant_ttl_seconds: 7200 });
  assert.equal((await grant(signer, body, host)).status, status);
  assert.deepEqual(signer.log.entries.map(({ outcome }) => outcome), Array(records).fill("grant-failed"));
  assert.deepEqual((await list(signer)).body, []);
});

Deno.test("POST …/grants rejects a frozen scope (K5)", async () => {
  const signer = await start();
  await signer.freeze("caller", "broker-1");
  const { status, body } = await grant(signer, { ...HOUR, caller: "broker-1" });
  assert.deepEqual([status, body.detail], [409, "subject is frozen: caller=broker-1"]);
  assert.equal(signer.log.entries.at(-1)?.outcome, "grant-denied");
});

Deno.test("the grant routes are restricted to admins", async () => {
  const signer = await start();
  assert.equal((await grant(signer, HOUR, "web01", "broker-1")).status, 403);
  assert.equal((await list(signer, "broker-1")).status, 403);
  assert.equal((await revoke(signer, "00", "broker-1")).status, 403);
});

Deno.test("DELETE /v1/policy/grants/{id} returns 404 for an unknown ID and 400 for a malformed ID", async () => {
  const signer = await start();
  assert.equal((await revoke(signer, "0".repeat(24))).status, 404);
  assert.equal((await revoke(signer, "a b", "broker-1")).status, 400, "before it asks who");
});

Deno.test("an approved command with learn_ttl_seconds needs no approval again in exactly the same form", async () => {
  const signer = await start();
  const gated = { command: "systemctl restart nginx", end_user: "alice", on_behalf_of: "broker-1" };
  const learn = {
    approved: true,
    learn_ttl_seconds: 600,
    learn_approver: "carol",
    learn_approval_id: "req1",
  };
  assert.ok((await signer.sign({ ...gated, ...learn }, "control-plane")).body.certificate);
  const [waiver] = signer.live.listGrants();
  assert.deepEqual(waiver?.waiveApproval, ["^systemctl restart nginx$"]);
  assert.equal(waiver?.expiresAt, NOW_MS + 600_000);
  const again = await signer.sign({ command: gated.command, end_user: "alice" });
  assert.ok(again.body.certificate);
  assert.equal(again.body.decision?.["matched_rule"], "approval-waived:require_approval:^systemctl restart");
  for (const other of [{ end_user: "bob" }, { end_user: "" }, { end_user: "alice", sudo: true }]) {
    const { body } = await signer.sign({ command: gated.command, ...other });
    assert.equal(body.certificate, undefined, JSON.stringify(other));
  }
  const other = await signer.sign({ command: "systemctl restart sshd", end_user: "alice" });
  assert.equal(other.body.certificate, undefined);
  const created = signer.log.entries.find(({ outcome }) => outcome === "approval-waiver-created");
  assert.deepEqual([created?.approved_by, created?.approval_id], ["carol", "req1"]);
});

Deno.test("an approved transfer with learn_ttl_seconds needs no approval again only for the same content", async () => {
  const { hosts } = CONFIG;
  const command = "cat > '/etc/app.conf'";
  const rules = { allow: ["^cat "], require_approval: ["^cat "], shell_parse: false };
  const command_policy = { mode: "allowlist", ...rules };
  const web01 = { ...hosts.web01, allow_file_transfer: true, command_policy };
  const signer = await startSigner({ hosts: { ...hosts, web01 } });
  const put = { command, file_transfer: true, content_sha256: "aa".repeat(32) };
  const learn = { on_behalf_of: "broker-1", approved: true, learn_ttl_seconds: 600, learn_approver: "carol" };
  const isSpared = async (fields: Record<string, unknown>) =>
    (await signer.sign(fields)).body.certificate !== undefined;

  await signer.sign({ ...put, ...learn, content_sha256: "" }, "control-plane");
  const skipped = signer.log.entries.findLast(({ outcome }) => outcome === "approval-waiver-skipped");
  assert.equal(skipped?.err, "a file transfer or an apply without the digest of its content");
  assert.equal(await isSpared({ ...put, content_sha256: "" }), false);

  await signer.sign({ ...put, ...learn }, "control-plane");
  const created = signer.log.entries.findLast(({ outcome }) => outcome === "approval-waiver-created");
  assert.equal(created?.body_sha256, put.content_sha256);
  assert.deepEqual(signer.live.listGrants().map(({ contentSha256 }) => contentSha256), [put.content_sha256]);
  assert.equal(await isSpared(put), true);
  const others = [{ content_sha256: "bb".repeat(32) }, { content_sha256: "" }, { file_transfer: false }];
  for (const other of others) {
    assert.equal(await isSpared({ ...put, ...other }), false, JSON.stringify(other));
  }
});

Deno.test("only a control plane gets the target of a command that requires approval", async () => {
  const signer = await start();
  const gated = { command: "systemctl restart nginx" };
  const told = await signer.sign({ ...gated, on_behalf_of: "broker-1" }, "control-plane");
  assert.deepEqual(told.body["target"], { user: "deploy", addr: "10.0.0.1:22" });
  assert.equal((await signer.sign(gated)).body["target"], undefined);
});

Deno.test("the reason is recorded in its own field", async () => {
  const signer = await start();
  await signer.sign({ command: "uptime", reason: 'ticket 42" user=root\n' });
  const { command, reason } = signer.log.entries.at(-1) ?? {};
  assert.deepEqual([command, reason], ["role=target purpose=oneshot", 'ticket 42" user=root\n']);
  assert.equal((await signer.sign({ command: "uptime", reason: "é".repeat(500) })).status, 200);
  assert.equal((await signer.sign({ command: "uptime", reason: "é".repeat(501) })).status, 400);
});

Deno.test("learn_ttl_seconds creates a waiver only if a forwarder sends it", async () => {
  const signer = await start();
  const gated = { command: "systemctl restart nginx", approved: true, learn_ttl_seconds: 600 };
  assert.ok((await signer.sign(gated, "approver-broker")).body.certificate);
  assert.deepEqual(signer.live.listGrants(), []);
});
