import assert from "node:assert/strict";
import type { MemoryAuditLog } from "@gateway/shared/testing";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { FailingControlStore } from "../testing/failing_control_store.ts";
import { gate } from "../testing/fake_signer.ts";
import { CONFIG, post, PUBLIC_KEY, startControlPlane, startGated } from "../testing/memory_control_plane.ts";

async function startParked(config = {}) {
  const plane = await startGated(config);
  return { plane, id: await plane.park({ sudo: true }) };
}

const last = (log: MemoryAuditLog) => log.entries.at(-1);

Deno.test("GET /v1/approvals returns an empty array if there are no approvals", async () => {
  const { status, text, headers } = await (await startControlPlane()).get("/v1/approvals", "approver-1");
  assert.deepEqual([status, text], [200, "[]\n"]);
  assert.equal(headers.get("x-content-type-options"), "nosniff");
});

Deno.test("GET /v1/approvals lists pending approvals first, without keys, tokens or requests", async () => {
  const plane = await startGated();
  const denied = await plane.park({ bearer_token: "secret-token" });
  await plane.decide(denied, { approve: false });
  const learned = await plane.park();
  await plane.decide(learned, { approve: true, learn: true, ttl_seconds: 7200 });
  await plane.clock.advance(1000);
  const pending = await plane.park();
  const { body, text } = await plane.get("/v1/approvals", "approver-1");
  const list = body as unknown as readonly Record<string, unknown>[];
  assert.equal(list[0]?.["id"], pending);
  assert.deepEqual(list.map(({ status }) => status).sort(), ["approved", "denied", "pending"]);
  assert.ok(text.includes('"learn_ttl":7200000000000'));
  assert.doesNotMatch(text, /secret-token|ssh-ed25519|public_key|request/);
});

Deno.test("POST /v1/approvals/{id} approves and returns the record", async () => {
  const { plane, id } = await startParked();
  const { status, body } = await plane.decide(id, { approve: true, unknown: 1 });
  assert.equal(status, 200);
  assert.deepEqual([body["id"], body.status, body["decided_by"]], [id, "approved", "approver-1"]);
  const entry = last(plane.log);
  assert.deepEqual(
    [entry?.outcome, entry?.approved_by, entry?.approval_id, entry?.caller, entry?.elevation],
    [
      "approval-decision-allow",
      "approver-1",
      id,
      "broker-1",
      "sudo:root",
    ],
  );
});

Deno.test.each<{ name: string; decision: object; status: string; outcome: string }>([
  { name: "false", decision: { approve: false }, status: "denied", outcome: "approval-denied" },
  { name: "absent", decision: {}, status: "denied", outcome: "approval-denied" },
  {
    name: "false with learn",
    decision: { approve: false, learn: true },
    status: "denied",
    outcome: "approval-denied",
  },
  {
    name: "true with learn",
    decision: { approve: true, learn: true, ttl_seconds: 60 },
    status: "approved",
    outcome: "approval-decision-allow-learn",
  },
])("POST /v1/approvals/{id} with approve $name has status $status", async ({ decision, status, outcome }) => {
  const { plane, id } = await startParked();
  const answer = await plane.decide(id, decision);
  assert.deepEqual([answer.status, answer.body.status], [200, status]);
  assert.equal(last(plane.log)?.outcome, outcome);
});

Deno.test.each<{ name: string; decision: unknown }>([
  { name: "without a time", decision: { approve: true, learn: true } },
  { name: "for 0 seconds", decision: { approve: true, learn: true, ttl_seconds: 0 } },
  { name: "for a negative time", decision: { approve: true, learn: true, ttl_seconds: -1 } },
])("POST /v1/approvals/{id} returns 400 to learn $name", async ({ decision }) => {
  const { plane, id } = await startParked();
  const { status, body } = await plane.decide(id, decision);
  assert.deepEqual([status, body.detail], [400, "learn requires ttl_seconds > 0"]);
  assert.equal(plane.registry.pendingCount(), 1);
});

Deno.test("identical requests have one notification and a record and certificate each", async () => {
  const plane = await startGated();
  const other = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIoI43F0CfGV/VLbTCz6XXLKZwm/HZQSG/N0iAG0D28c";
  const [first, second] = [await plane.park(), await plane.park({ public_key: other })];
  assert.notEqual(first, second);
  assert.deepEqual(plane.notified.map(({ id }) => id), [first]);
  const listed = (await plane.get("/v1/approvals", "approver-1")).body as unknown as ApprovalRecord[];
  assert.deepEqual(listed.map(({ id, joined }) => [id, joined]), [[first, [second]]]);
  const { status, body } = await plane.decide(second, { approve: true, shown_ids: [first, second] });
  assert.deepEqual([status, body["id"], body["joined"]], [200, second, [first]]);
  for (const id of [first, second]) {
    assert.equal((await plane.poll(id)).status, 200);
    assert.equal((await plane.poll(id)).status, 410);
  }
  assert.deepEqual(plane.signer.signed.slice(-2).map((request) => request.public_key), [PUBLIC_KEY, other]);
  assert.deepEqual(
    plane.log.entries.map(({ outcome, approval_id, warning }) => [outcome, approval_id, warning]),
    [
      ["approval-required", first, ""],
      ["approval-required", second, `decided with ${first}`],
      ["approval-decision-allow", second, undefined],
      ["approval-decision-allow", first, undefined],
      ["approval-granted", first, ""],
      ["approval-granted", second, ""],
    ],
  );
});

Deno.test("POST /v1/approvals/{id} decides only shown requests and announces later ones", async () => {
  const plane = await startGated({ approval: { ...CONFIG.approval, max_pending_per_caller: 9 } });
  const first = await plane.park();
  const seen = (await plane.get("/v1/approvals", "approver-1")).body as unknown as ApprovalRecord[];
  const late = [];
  for (let n = 0; n < 7; n++) late.push(await plane.park());
  const shown_ids = seen.flatMap(({ id, joined = [] }) => [id, ...joined]);
  assert.equal((await plane.decide(first, { approve: true, shown_ids })).status, 200);
  const statuses = [];
  for (const id of [first, ...late]) statuses.push((await plane.poll(id)).status);
  assert.deepEqual(statuses, [200, 202, 202, 202, 202, 202, 202, 202]);
  assert.deepEqual(plane.notified.map(({ id, joined }) => [id, joined]), [
    [first, undefined],
    [late[0], late.slice(1)],
  ]);
  // An older client sends no list of shown requests. Its decision covers only the request in the URL.
  assert.equal((await plane.decide(late[0] ?? "", { approve: true })).status, 200);
  assert.equal((await plane.poll(late[1] ?? "")).status, 202);
  const other = await plane.park({ command: "rm y" });
  const { status, body } = await plane.decide(other, { approve: true, shown_ids: [other, late[1]] });
  const detail = `request "${late[1]}" in shown_ids is not identical to "${other}"`;
  assert.deepEqual([status, body.detail], [409, detail]);
  assert.equal((await plane.poll(other)).status, 202);
});

Deno.test("the reason and the comment appear in the log and in the list", async () => {
  const plane = await startGated();
  const id = await plane.park({ reason: 'ticket "42"' });
  assert.equal(last(plane.log)?.reason, 'ticket "42"');
  assert.equal((await plane.decide(id, { approve: false, reason: "not on a Friday" })).status, 200);
  assert.equal(last(plane.log)?.warning, 'comment="not on a Friday"');
  const [listed] = (await plane.get("/v1/approvals", "approver-1")).body as unknown as ApprovalRecord[];
  assert.deepEqual([listed?.reason, listed?.comment], ['ticket "42"', "not on a Friday"]);
  const other = await plane.park();
  assert.equal((await plane.decide(other, { approve: true, comment: "x".repeat(501) })).status, 400);
  assert.equal((await plane.decide(other, { approve: true, comment: "a\0\ud800" })).status, 200);
  assert.equal((await plane.sign({ command: "rm y", reason: "x".repeat(501) })).status, 400);
});

Deno.test("POST /v1/approvals/{id} learns a file transfer only with a known content hash", async () => {
  const plane = await startGated();
  const learn = { approve: true, learn: true, ttl_seconds: 60 };
  const { status, body } = await plane.decide(await plane.park({ file_transfer: true }), learn);
  assert.deepEqual([status, body.detail], [
    400,
    "nothing to learn: it transfers a file of unknown content; approve it without learn",
  ]);
  const said = { file_transfer: true, content_sha256: "aa".repeat(32) };
  const early = await plane.decide(await plane.park(said), learn);
  assert.match(early.body.detail ?? "", /the signer would learn only its path/, "of an earlier version");
  plane.signer.reply = (request) => {
    const { body } = gate(request);
    return { body: { ...body as object, target: { user: "deploy", addr: "10.0.0.1:22" } } };
  };
  const known = await plane.park(said);
  assert.equal((await plane.decide(known, learn)).status, 200);
  assert.equal((await plane.poll(known)).status, 200);
  assert.equal(plane.signer.signed.at(-1)?.content_sha256, "aa".repeat(32));
});

Deno.test.each<{ name: string; request: Record<string, unknown>; detail: RegExp }>([
  {
    name: "the preflight of a session's command",
    request: { purpose: "session", session_mode: "exec", dry_run: true, preflight: true, host: "web02" },
    detail: /^nothing to learn: it only asks whether the command is allowed; approve it without learn$/,
  },
  {
    name: "a request that was only unusual",
    request: { command: "df", host: "web02" },
    detail: /^nothing to learn: no policy rule requires approval; approve it without learn$/,
  },
])("POST /v1/approvals/{id} returns 400 to learn from $name", async ({ request, detail }) => {
  const plane = await startControlPlane({ behavior: { mode: "enforce" } });
  assert.equal((await plane.sign()).status, 200);
  const id = await plane.park(request);
  const { status, body } = await plane.decide(id, { approve: true, learn: true, ttl_seconds: 60 });
  assert.equal(status, 400);
  assert.match(String(body.detail), detail);
  assert.deepEqual([plane.registry.pendingCount(), last(plane.log)?.outcome], [1, "approval-required"]);
  const approved = await plane.decide(id, { approve: true });
  assert.deepEqual([approved.status, last(plane.log)?.outcome], [200, "approval-decision-allow"]);
  assert.equal((await plane.poll(id)).status, 200);
  assert.equal(plane.signer.signed.at(-1)?.learn_ttl_seconds, 0);
});

Deno.test.each<{ name: string; decision: unknown }>([
  { name: "no JSON", decision: "{" },
  { name: "a string for approve", decision: { approve: "true" } },
  { name: "a number for approve", decision: { approve: 1 } },
  { name: "part of a second", decision: { approve: true, learn: true, ttl_seconds: 0.5 } },
  { name: "an absurd time", decision: { approve: true, learn: true, ttl_seconds: 1e12 } },
])("POST /v1/approvals/{id} returns 400 for $name", async ({ decision }) => {
  const { plane, id } = await startParked();
  assert.equal((await plane.decide(id, decision)).status, 400);
  assert.equal(plane.registry.pendingCount(), 1);
});

Deno.test("POST /v1/approvals/{id} returns 413 for a body above 16 KiB", async () => {
  const { plane, id } = await startParked();
  assert.equal((await plane.decide(id, { approve: true, x: "x".repeat(16_384) })).status, 413);
});

Deno.test.each([
  "text/plain",
  "application/x-www-form-urlencoded",
  "multipart/form-data",
  "application/jsonp",
  "",
])(
  "POST /v1/approvals/{id} returns 415 for the content type %s (A19)",
  async (type) => {
    const { plane, id } = await startParked();
    const { status } = await plane.decide(id, { approve: true }, "approver-1", { "content-type": type });
    assert.equal(status, 415);
    assert.equal(plane.registry.pendingCount(), 1);
  },
);

Deno.test("POST /v1/approvals/{id} checks the type before the ID, and learn before the requester", async () => {
  const { plane } = await startParked();
  const wrongType = await plane.decide("x", {}, "approver-1", { "content-type": "text/plain" });
  assert.equal(wrongType.status, 415);
  const own = await plane.park({}, "both");
  assert.equal((await plane.decide(own, { approve: true, learn: true }, "both")).status, 400);
});

Deno.test.each<{ name: string; headers: Record<string, string>; status: number }>([
  { name: "of a program", headers: {}, status: 200 },
  {
    name: "of our page",
    headers: { "sec-fetch-site": "same-origin", origin: "https://cp:7443" },
    status: 200,
  },
  { name: "of another site", headers: { "sec-fetch-site": "cross-site" }, status: 403 },
])("POST /v1/approvals/{id} $name returns $status", async ({ headers, status }) => {
  const { plane, id } = await startParked();
  const answer = await plane.decide(id, { approve: true }, "approver-1", { host: "cp:7443", ...headers });
  assert.equal(answer.status, status);
  assert.equal(plane.registry.pendingCount(), status === 200 ? 0 : 1);
});

Deno.test.each([{ approve: true }, { approve: false }])(
  "POST /v1/approvals/{id} by the requester returns 403 and is recorded (A1): $approve",
  async (decision) => {
    const plane = await startGated();
    const id = await plane.park({}, "both");
    const { status, body } = await plane.decide(id, decision, "both");
    assert.equal(status, 403);
    assert.match(String(body.detail), /^self-approval not allowed/);
    assert.deepEqual([last(plane.log)?.outcome, last(plane.log)?.approved_by], [
      "self-approval-rejected",
      "both",
    ]);
    assert.equal(plane.registry.pendingCount(), 1);
    assert.equal((await plane.decide(id, decision)).status, 200, "another one may");
    assert.equal((await plane.decide(id, decision, "both")).status, 403, "also when it is decided");
  },
);

Deno.test("POST /v1/approvals/{id} by the requester is recorded before the learn check (A1)", async () => {
  const plane = await startControlPlane({ behavior: { mode: "enforce" } });
  assert.equal((await plane.sign({}, "both")).status, 200);
  const id = await plane.park({ command: "df", host: "web02" }, "both");
  const decision = { approve: true, learn: true, ttl_seconds: 60 };
  assert.equal((await plane.decide(id, decision, "both")).status, 403);
  assert.equal(last(plane.log)?.outcome, "self-approval-rejected");
  assert.equal((await plane.decide(id, { approve: false })).status, 200);
  assert.equal((await plane.decide(id, decision)).status, 409, "decided comes first too");
});

Deno.test("POST /v1/approvals/{id} by the end user of a trusted broker returns 403 (A2)", async () => {
  const plane = await startGated();
  const id = await plane.park({ end_user: "approver-1" }, "broker-2");
  assert.equal((await plane.decide(id, { approve: true }, "approver-1")).status, 403);
  assert.deepEqual([last(plane.log)?.outcome, last(plane.log)?.approved_by], [
    "self-approval-rejected",
    "approver-1",
  ]);
  assert.equal((await plane.decide(id, { approve: true }, "approver-2")).status, 200, "another one may");
});

Deno.test("POST /v1/approvals/{id} returns 409 for an unknown ID", async () => {
  const { status, body } = await (await startControlPlane()).decide("nothing", { approve: true });
  assert.deepEqual([status, body.detail], [409, 'cannot find approval "nothing": unknown or purged']);
});

Deno.test("POST /v1/approvals/{id} returns 409 for a second decision", async () => {
  const { plane, id } = await startParked();
  await plane.decide(id, { approve: false });
  const { status, body } = await plane.decide(id, { approve: true }, "approver-2");
  assert.deepEqual([status, body.detail], [409, `approval "${id}" is not pending: it is denied`]);
  assert.equal((await plane.poll(id)).status, 403);
});

Deno.test("POST /v1/approvals/{id} after the expiry returns 409 with the expiry in the detail", async () => {
  const { plane, id } = await startParked();
  await plane.clock.advance(120_001);
  const { status, body } = await plane.decide(id, { approve: true });
  assert.equal(status, 409);
  assert.match(String(body.detail), /expired/);
});

Deno.test.each([
  { name: "an approval", decision: { approve: true }, outcome: "approval-decision-allow" },
  { name: "a denial", decision: { approve: false }, outcome: "approval-denied" },
])("POST /v1/approvals/{id} corrects the log if the store rejects $name", async (row) => {
  const store = new FailingControlStore();
  const plane = await startGated({}, { store });
  const id = await plane.park();
  store.failing.add("updateApproval");
  assert.equal((await plane.decide(id, row.decision)).status, 500);
  assert.equal((await plane.poll(id)).status, 202, "it waits as before");
  const [decided, takenBack] = plane.log.entries.slice(-2);
  const err = "not decided, despite the earlier record: The state database could not be used";
  assert.equal(decided?.outcome, row.outcome);
  assert.deepEqual(takenBack, { ...decided, outcome: "error", err });
});

Deno.test("POST /v1/approvals/{id} corrects the audit log if the approval expires meanwhile", async () => {
  const { plane, id } = await startParked();
  const append = plane.log.append.bind(plane.log);
  plane.log.append = async (entry) => {
    if (entry.outcome === "approval-decision-allow") await plane.clock.advance(120_001);
    await append(entry);
  };
  assert.equal((await plane.decide(id, { approve: true })).status, 409);
  const err = "not decided, despite the earlier record: it is expired";
  assert.deepEqual(plane.outcomes().slice(-2), ["approval-decision-allow", "error"]);
  assert.equal(last(plane.log)?.err, err);
});

Deno.test("POST /v1/approvals/{id} returns 500 and approves nothing without a record (A11)", async () => {
  const { plane, id } = await startParked();
  plane.log.failing = true;
  const { status, body } = await plane.decide(id, { approve: true });
  assert.deepEqual([status, body.detail], [500, "audit unavailable"]);
  assert.equal(plane.registry.pendingCount(), 1);
  assert.equal((await plane.poll(id)).status, 202);
  plane.log.failing = false;
  assert.equal((await plane.decide(id, { approve: true })).status, 200, "and can be tried again");
});

Deno.test("POST /v1/approvals/{id} denies even if the audit log fails", async () => {
  const { plane, id } = await startParked();
  plane.log.failing = true;
  assert.equal((await plane.decide(id, { approve: false })).status, 200);
  assert.equal((await plane.poll(id)).status, 403);
});

Deno.test("POST /v1/approvals/{id} in fail mode open approves even if the audit log fails", async () => {
  const { plane, id } = await startParked({ audit_fail_mode: "open" });
  plane.log.failing = true;
  assert.equal((await plane.decide(id, { approve: true })).status, 200);
});

Deno.test("POST /v1/approvals/{id} returns only the start of a long ID", async () => {
  const plane = await startControlPlane();
  const request = post(`/v1/approvals/${"x".repeat(5000)}`, { approve: true });
  const { body } = await plane.send(request, "approver-1");
  assert.ok(String(body.detail).length < 200);
});
