import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { FailingControlStore, openMemoryStore } from "../testing/failing_control_store.ts";
import { allow, type FakeReply, gate, refusal, SERIAL } from "../testing/fake_signer.ts";
import { PUBLIC_KEY, startControlPlane, startGated } from "../testing/memory_control_plane.ts";

const OTHER_KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMDAwMD";

/** A control plane with one pending request. */
async function startParked(changes: Record<string, unknown> = {}, config = {}) {
  const plane = await startGated(config);
  return { plane, id: await plane.park(changes) };
}

async function startApproved(changes: Record<string, unknown> = {}, decision: object = {}, config = {}) {
  const { plane, id } = await startParked(changes, config);
  assert.equal((await plane.decide(id, { approve: true, ...decision })).status, 200);
  return { plane, id };
}

const query = (key: string) => `?pubkey=${encodeURIComponent(key)}`;

Deno.test("GET /v1/sign/result/{id} returns 202 before a decision", async () => {
  const { plane, id } = await startParked();
  const { status, body } = await plane.poll(id);
  assert.deepEqual([status, body], [202, { status: "pending" }]);
});

Deno.test("GET /v1/sign/result/{id} signs the approved request and returns the result once", async () => {
  const { plane, id } = await startApproved({
    sudo: true,
    end_user: "alice",
    end_user_groups: [],
    bearer_token: "t",
  });
  const [asked] = plane.signer.signed;
  const { status, body } = await plane.poll(id);
  assert.deepEqual([status, body["serial"]], [200, SERIAL]);
  assert.deepEqual(
    plane.signer.signed[1],
    { ...asked, approved: true },
    "the original request, with its token",
  );
  assert.deepEqual(plane.log.entries.at(-1), {
    caller: "broker-1",
    host: "web01",
    host_name: "web01",
    addr: "",
    end_user: "alice",
    session_id: "",
    command: "rm x",
    elevation: "sudo:root",
    policy_rule: "require_approval:^rm",
    anomaly: "",
    approval_id: id,
    approved_by: "approver-1",
    outcome: "approval-granted",
    serial: SERIAL,
    warning: "",
  });
  const again = await plane.poll(id);
  assert.deepEqual([again.status, again.body.detail], [410, "approval already used"]);
  assert.equal(plane.signer.signed.length, 2);
});

Deno.test("GET /v1/sign/result/{id} returns only the decision of an approved preflight", async () => {
  const plane = await startControlPlane({ behavior: { mode: "enforce" } });
  await plane.sign({ command: "uptime" });
  plane.signer.reply = (request) => ({ body: { ...allow(request).body as object, envelope: "e30=" } });
  const { status, body } = await plane.sign({ command: "df", dry_run: true, preflight: true });
  assert.equal(status, 202);
  const id = String(body["approval_id"]);
  await plane.decide(id, { approve: true });
  const collected = await plane.poll(id);
  assert.deepEqual([collected.status, Object.keys(collected.body)], [200, ["decision"]]);
  assert.equal(plane.log.entries.at(-1)?.outcome, "approval-granted");
  assert.equal((await plane.poll(id)).status, 410);
});

Deno.test.each([
  { name: "no key", key: "", expected: 400 },
  { name: "no Ed25519 key", key: "ssh-rsa AAAA", expected: 400 },
  { name: "another key than the requested one", key: OTHER_KEY, expected: 400 },
  { name: "the requested key", key: PUBLIC_KEY, expected: 200 },
  { name: "that key with a comment", key: `${PUBLIC_KEY} me\n`, expected: 200 },
])("GET /v1/sign/result/{id}?pubkey= with $name returns $expected", async ({ key, expected }) => {
  const { plane, id } = await startApproved();
  const { status, body } = await plane.poll(id, "broker-1", query(key));
  assert.equal(status, expected);
  if (expected === 400) assert.equal(body.detail, "invalid pubkey");
});

Deno.test("GET /v1/sign/result/{id} returns the result only to the owner", async () => {
  const { plane, id } = await startParked();
  for (const decision of [undefined, { approve: true }]) {
    if (decision !== undefined) await plane.decide(id, decision);
    const { status, body } = await plane.poll(id, "broker-2");
    assert.deepEqual([status, body.code, body.detail], [403, "forbidden", "not authorised"]);
  }
  await plane.poll(id);
  assert.equal((await plane.poll(id, "broker-2")).status, 403, "also after it was used");
});

Deno.test("GET /v1/sign/result/{id} returns 404 for an unknown ID", async () => {
  const plane = await startControlPlane();
  const { status, body } = await plane.poll("0".repeat(32));
  assert.deepEqual([status, body.detail], [
    404,
    `cannot find approval "${"0".repeat(32)}": unknown or purged`,
  ]);
});

Deno.test("GET /v1/sign/result/{id} returns 403 after a denial on every poll without a record", async () => {
  const { plane, id } = await startParked();
  await plane.decide(id, { approve: false });
  for (let count = 0; count < 3; count++) {
    const { status, body } = await plane.poll(id);
    assert.deepEqual([status, body.detail], [403, "approval denied"]);
  }
  assert.deepEqual(plane.outcomes(), ["approval-required", "approval-denied"]);
  assert.equal(plane.log.entries.at(-1)?.approved_by, "approver-1");
});

Deno.test("GET /v1/sign/result/{id} returns 408, later 404, for an undecided expired approval", async () => {
  const { plane, id } = await startParked();
  await plane.clock.advance(120_000);
  assert.equal((await plane.poll(id)).status, 202, "at exactly the timeout it is still valid");
  await plane.clock.advance(1);
  const { status, body } = await plane.poll(id);
  assert.deepEqual([status, body.detail], [408, "approval expired"]);
  const polls = await Promise.all(["", "?wait=8", ""].map((query) => plane.poll(id, "broker-1", query)));
  assert.deepEqual(polls.map(({ status }) => status), [408, 408, 408]);
  assert.deepEqual(plane.outcomes(), ["approval-required", "approval-timeout"], "recorded once");
  await plane.clock.advance(120_000);
  assert.equal((await plane.poll(id)).status, 404);
});

Deno.test("GET /v1/sign/result/{id} returns 408 for an uncollected expired approval (A5)", async () => {
  const { plane, id } = await startApproved();
  await plane.clock.advance(120_001);
  for (let count = 0; count < 3; count++) assert.equal((await plane.poll(id)).status, 408);
  assert.equal(plane.signer.signed.length, 1, "the signer is not asked");
  const timeouts = plane.log.entries.filter(({ outcome }) => outcome === "approval-timeout");
  assert.deepEqual(timeouts.map(({ approved_by }) => approved_by), ["approver-1"], "recorded once");
});

const FAILED = "signing after approval failed";

Deno.test.each<{ name: string; reply: FakeReply; err: string; isFinal?: boolean }>([
  {
    name: "refuses",
    reply: refusal(403, "denied", "host removed"),
    err: "host removed",
    isFinal: true,
  },
  { name: "has frozen it", reply: refusal(403, "frozen", "subject is frozen"), err: "frozen", isFinal: true },
  { name: "is too busy", reply: refusal(429, "rate_limited", "too many"), err: "too many" },
  { name: "fails", reply: refusal(500, "internal", "x"), err: "status 500" },
  { name: "has no audit log", reply: refusal(500, "audit_unavailable", "x"), err: "audit unavailable" },
  { name: "returns an empty body", reply: { body: {} }, err: FAILED },
  { name: "returns an empty certificate", reply: { body: { certificate: "", serial: 7 } }, err: FAILED },
  { name: "returns a blank certificate", reply: { body: { certificate: "\n", serial: 7 } }, err: FAILED },
  { name: "returns a certificate without serial", reply: { body: { certificate: "x" } }, err: FAILED },
  {
    name: "denies and sends a certificate",
    reply: { body: { certificate: "x", serial: 7, decision: { allowed: false, reason: "removed" } } },
    err: FAILED,
  },
  {
    name: "does not accept the control plane's approvals",
    reply: { body: { decision: { allowed: true, require_approval: true } } },
    err: "does not accept our approvals",
    isFinal: true,
  },
])(
  "GET /v1/sign/result/{id} returns 502 if the signer $name, and can be repeated (A6)",
  async ({ reply, err, isFinal = false }) => {
    const { plane, id } = await startApproved();
    plane.signer.reply = () => reply;
    const { status, body } = await plane.poll(id);
    assert.equal(status, 502);
    assert.equal(body["code"], isFinal ? "signing_refused" : "upstream_failure");
    assert.match(String(body.detail), /^signing after approval failed/);
    assert.equal(plane.log.entries.at(-1)?.outcome, "error");
    assert.ok(plane.log.entries.at(-1)?.err?.includes(err));
    plane.signer.reply = gate;
    assert.equal((await plane.poll(id)).status, 200);
  },
);

Deno.test("GET /v1/sign/result/{id} returns 502 for a preflight that the policy now denies", async () => {
  const plane = await startControlPlane({ behavior: { mode: "enforce" } });
  await plane.sign();
  const { body } = await plane.sign({ host: "web02", dry_run: true, preflight: true });
  const id = String(body["approval_id"]);
  await plane.decide(id, { approve: true });
  plane.signer.reply = () => ({ body: { decision: { allowed: false, reason: "removed" } } });
  assert.equal((await plane.poll(id)).status, 502);
  assert.ok(!plane.outcomes().includes("approval-granted"));
});

Deno.test("GET /v1/sign/result/{id} in fail mode closed withholds a result without a record", async () => {
  const { plane, id } = await startApproved();
  plane.log.failing = true;
  const { status, body } = await plane.poll(id);
  assert.deepEqual([status, body.detail], [500, "audit unavailable"]);
  assert.equal(body["certificate"], undefined);
  plane.log.failing = false;
  assert.equal((await plane.poll(id)).status, 200);
  assert.ok(plane.counts.blocked > 0);
});

Deno.test("GET /v1/sign/result/{id} withholds a result if its collection cannot be stored", async () => {
  const store = new FailingControlStore();
  const plane = await startGated({}, { store });
  const id = await plane.park();
  await plane.decide(id, { approve: true });
  store.failing.add("updateApproval");
  const { status, body } = await plane.poll(id);
  assert.deepEqual([status, body["certificate"]], [500, undefined]);
  const [granted, takenBack] = plane.log.entries.slice(-2);
  const err = "withheld, despite the earlier record: The state database could not be used";
  assert.deepEqual([granted?.outcome, takenBack?.outcome, takenBack?.err], [
    "approval-granted",
    "error",
    err,
  ]);
  assert.equal(takenBack?.approval_id, id);
  store.failing.clear();
  assert.equal((await plane.poll(id)).status, 200);
});

Deno.test("GET /v1/sign/result/{id} signs nothing while another control plane collects", async () => {
  const claims: string[] = [];
  let isFree = false;
  const store = Object.assign(openMemoryStore(), {
    claimCollection: (id: string) => Promise.resolve(claims.push(`claim ${id}`) > 0 && isFree),
    releaseCollection: (id: string) => Promise.resolve(void claims.push(`release ${id}`)),
  });
  const plane = await startGated({}, { store });
  const id = await plane.park();
  await plane.decide(id, { approve: true });
  const signed = plane.signer.signed.length;
  const { status, body } = await plane.poll(id);
  assert.deepEqual([status, body], [202, { status: "issuing" }]);
  const waiting = plane.poll(id, "broker-1", "?wait=8");
  await plane.clock.advance(8_000);
  assert.equal((await waiting).status, 202);
  assert.equal(plane.signer.signed.length, signed);
  isFree = true;
  claims.length = 0;
  plane.signer.reply = () => refusal(500, "internal", "x");
  assert.equal((await plane.poll(id)).status, 502);
  plane.signer.reply = gate;
  assert.equal((await plane.poll(id)).status, 200);
  assert.deepEqual(claims, [`claim ${id}`, `release ${id}`, `claim ${id}`]);
});

Deno.test("the signer receives only recorded decisions to learn (A12)", async () => {
  const { plane, id } = await startParked();
  const decision = { approve: true, learn: true, ttl_seconds: 60 };
  plane.log.failing = true;
  assert.equal((await plane.decide(id, decision)).status, 500);
  assert.equal((await plane.poll(id)).status, 202);
  plane.log.failing = false;
  await plane.decide(id, decision);
  assert.equal(plane.outcomes().at(-1), "approval-decision-allow-learn");
  plane.log.failing = true;
  assert.equal((await plane.poll(id)).status, 500, "the grant can't be recorded");
  plane.log.failing = false;
  assert.equal((await plane.poll(id)).status, 200);
  assert.deepEqual(
    plane.signer.signed.slice(1).map((sent) => [
      sent.approved,
      sent.learn_ttl_seconds,
      sent.learn_approver,
      sent.learn_approval_id,
    ]),
    [[true, 60, "approver-1", id], [true, 60, "approver-1", id]],
    "the second time the signer renews the same waiver",
  );
});

Deno.test("GET /v1/sign/result/{id} in fail mode open returns the result without a record", async () => {
  const { plane, id } = await startApproved({}, {}, { audit_fail_mode: "open" });
  plane.log.failing = true;
  assert.equal((await plane.poll(id)).status, 200);
  assert.equal((await plane.poll(id)).status, 410);
});

Deno.test("concurrent GET /v1/sign/result/{id} send one request to the signer", async () => {
  const { plane, id } = await startApproved();
  const release = Promise.withResolvers<void>();
  plane.signer.reply = async (request) => {
    await release.promise;
    return allow(request);
  };
  const polls = Array.from({ length: 20 }, () => plane.poll(id));
  assert.deepEqual((await plane.poll(id)).body, { status: "issuing" });
  release.resolve();
  const statuses = (await Promise.all(polls)).map(({ status }) => status);
  assert.deepEqual(statuses.sort(), [200, ...Array(19).fill(202)]);
  assert.equal(plane.signer.signed.length, 2, "one when it was asked, one when it was collected");
});

Deno.test("GET /v1/sign/result/{id} releases the claim if the client disconnects", async () => {
  const { plane, id } = await startApproved();
  const gone = new AbortController();
  plane.signer.reply = () => {
    gone.abort();
    throw new AppError("canceled", "Contacting the signer was canceled");
  };
  const request = new Request(`https://localhost/v1/sign/result/${id}`, { signal: gone.signal });
  assert.equal((await plane.send(request, "broker-1")).status, 503);
  assert.ok(plane.signer.requests.at(-1)?.signal?.aborted, "the signer's answer is not waited for");
  plane.signer.reply = gate;
  assert.equal((await plane.poll(id)).status, 200);
});

Deno.test.each(["-1", "x", "1.5", ""])("GET /v1/sign/result/{id}?wait=%s returns 400", async (wait) => {
  const { plane, id } = await startParked();
  assert.equal((await plane.poll(id, "broker-1", `?wait=${wait}`)).status, 400);
});

Deno.test("GET /v1/sign/result/{id}?wait=8 returns as soon as there is a decision", async () => {
  const { plane, id } = await startParked();
  const polling = plane.poll(id, "broker-1", "?wait=8");
  await plane.clock.advance(3000);
  await plane.decide(id, { approve: true });
  assert.equal((await polling).status, 200);
  assert.equal(plane.clock.sleeping, 0);
});

Deno.test.each([{ wait: 2, ms: 2000 }, { wait: 8, ms: 8000 }, { wait: 600, ms: 8000 }])(
  "GET /v1/sign/result/{id}?wait=$wait returns 202 after $ms ms",
  async ({ wait, ms }) => {
    const { plane, id } = await startParked();
    let isDone = false;
    const polling = plane.poll(id, "broker-1", `?wait=${wait}`).then((answer) => {
      isDone = true;
      return answer;
    });
    await plane.clock.advance(ms - 1);
    assert.equal(isDone, false);
    await plane.clock.advance(1);
    assert.deepEqual((await polling).body, { status: "pending" });
  },
);

Deno.test("GET /v1/sign/result/{id}?wait=8 collects the result if the poll before it fails", async () => {
  const { plane, id } = await startApproved();
  const failing = Promise.withResolvers<FakeReply>();
  plane.signer.reply = () => failing.promise;
  const first = plane.poll(id);
  const second = plane.poll(id, "broker-1", "?wait=8");
  await plane.clock.advance(1);
  plane.signer.reply = gate;
  failing.resolve(refusal(500, "internal", "x"));
  assert.deepEqual([(await first).status, (await second).status], [502, 200]);
});

Deno.test("GET /v1/sign/result/{id}?wait=8 returns immediately if the control plane stops", async () => {
  const { plane, id } = await startParked();
  const polling = plane.poll(id, "broker-1", "?wait=8");
  await plane.clock.advance(1);
  plane.stop();
  assert.equal((await polling).status, 202);
  assert.equal((await plane.poll(id, "broker-1", "?wait=8")).status, 202);
  assert.equal(plane.clock.sleeping, 0);
});
