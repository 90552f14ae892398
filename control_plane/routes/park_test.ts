import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { ALONE } from "@gateway/shared/instances";
import { openMemoryStore } from "../testing/failing_control_store.ts";
import { gate } from "../testing/fake_signer.ts";
import { ONE_SHOT, PUBLIC_KEY, startControlPlane, startGated } from "../testing/memory_control_plane.ts";
import type { AuditEntry } from "@gateway/shared/audit";
import { inRequest } from "@gateway/shared/service";
import { FakeClock } from "@gateway/shared/testing";
import { BatchedRecords } from "../app.ts";

Deno.test("POST /v1/sign returns 202 and parks a request that requires approval", async () => {
  const plane = await startGated();
  const { status, body } = await plane.sign({
    command: "rm -r x",
    sudo: true,
    sudo_user: "db",
    end_user: "alice",
    bearer_token: "secret-token",
  });
  assert.equal(status, 202);
  const id = String(body.approval_id);
  assert.match(id, /^[0-9a-f]{32}$/);
  assert.deepEqual(body, { approval_id: id, status: "pending" });
  const record = {
    id,
    caller: "broker-1",
    host: "web01",
    command: "rm -r x",
    sudo: true,
    sudo_user: "db",
    rule: "require_approval:^rm",
    status: "pending",
    created_at: "2023-11-14T22:13:20.000Z",
    decided_at: "0001-01-01T00:00:00Z",
    expires_at: "2023-11-14T22:15:20.000Z",
  };
  assert.deepEqual(
    plane.notified,
    [record],
    "an end user that only an untrusted broker names is not shown (I11)",
  );
  assert.deepEqual(plane.log.entries, [{
    caller: "broker-1",
    host: "web01",
    host_name: "web01",
    addr: "",
    end_user: "alice",
    session_id: "",
    reason: "",
    command: "rm -r x",
    elevation: "sudo:db",
    policy_rule: "require_approval:^rm",
    anomaly: "",
    outcome: "approval-required",
    approval_id: id,
    warning: "",
  }]);
  assert.equal(plane.registry.find(id)?.request.end_user, "alice", "the request itself is stored as it came");
  assert.doesNotMatch(JSON.stringify(plane.registry.find(id)), /secret-token/, "the token is not (I13)");
});

Deno.test("POST /v1/sign returns 503 and parks nothing if the database state is stale", async () => {
  const stale = new AppError("state_stale", "does not know", { retryAfterSeconds: 1 });
  const store = openMemoryStore();
  store.insertApproval = () => new Promise(() => {});
  const requireFresh = () => {
    throw stale;
  };
  const plane = await startGated({}, { store, instances: { ...ALONE, isShared: true, requireFresh } });
  const { status, headers } = await plane.sign({ command: "rm -r x" });
  assert.deepEqual([status, headers.get("retry-after")], [503, "1"]);
  const err = "could not create approval request";
  assert.deepEqual(plane.log.entries.map(({ outcome, err }) => [outcome, err]), [["error", err]]);
  assert.deepEqual([plane.registry.list(), plane.notified], [[], []]);
});

Deno.test("POST /v1/sign notifies with the end user that a trusted broker names", async () => {
  const plane = await startGated();
  await plane.park({ end_user: "alice" }, "broker-2");
  assert.equal(plane.notified[0]?.end_user, "alice");
});

Deno.test("POST /v1/sign returns 429 above the pending limit of one caller", async () => {
  const plane = await startGated();
  const answers = await Promise.all(Array.from({ length: 5 }, (_, n) => plane.sign({ command: `rm ${n}` })));
  assert.deepEqual(answers.map(({ status }) => status).sort(), [202, 202, 202, 429, 429]);
  const refused = answers.find(({ status }) => status === 429);
  assert.equal(refused?.headers.get("retry-after"), "120");
  assert.equal(plane.notified.length, 3);
  assert.equal((await plane.sign({ command: "rm x" }, "broker-2")).status, 202, "others are not affected");
});

Deno.test("POST /v1/sign returns 429 above the pending limit of one end user", async () => {
  const plane = await startGated({ approval: { callers: ["approver-1"], max_pending_per_caller: 8 } });
  const ask = (end_user: string) => plane.sign({ command: "rm x", end_user }, "broker-2");
  const answers = await Promise.all(Array.from({ length: 10 }, () => ask("mallory")));
  assert.equal(answers.filter(({ status }) => status === 202).length, 2);
  const { status, body } = await ask("mallory");
  assert.deepEqual([status, body.detail], [429, "2 requests of this end user wait for approval"]);
  assert.equal(plane.log.entries.at(-1)?.outcome, "rate-limited");
  assert.equal((await ask("alice")).status, 202);
});

Deno.test("POST /v1/sign returns 500 without a notification if the store fails", async () => {
  const store = openMemoryStore();
  const plane = await startControlPlane({}, { store });
  await store.close();
  plane.signer.reply = gate;
  const { status, body } = await plane.sign({ command: "rm x" });
  assert.deepEqual([status, body.detail], [500, "could not create approval request"]);
  assert.deepEqual(plane.notified, []);
  assert.deepEqual(plane.outcomes(), ["error"]);
  assert.equal(plane.registry.pendingCount(), 0);
});

/** The fields that only the control plane may set. */
const OWN = {
  on_behalf_of: "broker-1",
  approved: false,
  learn_ttl_seconds: 0,
  learn_approver: "",
  learn_approval_id: "",
};

Deno.test("POST /v1/sign forwards a minimal request with defaults", async () => {
  const plane = await startControlPlane();
  await plane.sign();
  const [sent] = plane.signer.signed;
  assert.deepEqual({ ...sent, ...ONE_SHOT, ...OWN }, sent);
  assert.deepEqual([sent?.sudo, sent?.ttl_seconds, sent?.target_type, sent?.bearer_token], [
    false,
    0,
    "",
    "",
  ]);
});

Deno.test("POST /v1/sign forwards type and key of a public key but no comment", async () => {
  const plane = await startControlPlane();
  await plane.sign({ public_key: `${PUBLIC_KEY} root@laptop of alice\r\n` });
  await plane.sign({ public_key: `${PUBLIC_KEY}\n` });
  assert.deepEqual(plane.signer.signed.map(({ public_key }) => public_key), [PUBLIC_KEY, PUBLIC_KEY]);
});

const DECISION = {
  allowed: true,
  reason: "r",
  require_approval: false,
  matched_rule: "allow:^x",
  force_command: "sudo -n -- x",
  ttl_seconds: 60,
  elevation: "sudo -n",
  enforcement: "audit",
  warning: "w",
  would_deny: true,
  would_require_approval: true,
};

Deno.test("POST /v1/sign returns only decision and envelope for a dry run", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = () => ({
    body: { decision: DECISION, envelope: "e30=", certificate: "c", serial: 1 },
  });
  for (const preflight of [true, false]) {
    const { body } = await plane.sign({ dry_run: true, preflight });
    assert.deepEqual(body, { decision: DECISION, envelope: "e30=" });
  }
});

Deno.test("POST /v1/sign returns no envelope for a request that requires approval", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = () => ({
    body: { decision: { ...DECISION, require_approval: true }, envelope: "e30=" },
  });
  const { body } = await plane.sign({ dry_run: true, preflight: true });
  assert.deepEqual(Object.keys(body), ["decision"]);
});

/** Audit records over a disk that writes with a delay. */
function start(delayMs = 20) {
  const clock = new FakeClock();
  const stopping = new AbortController();
  const appended: string[] = [];
  const disk = Promise.withResolvers<void>();
  const append = ({ outcome }: AuditEntry) => {
    appended.push(outcome);
    return disk.promise;
  };
  const records = new BatchedRecords({ append, clock, delayMs, signal: stopping.signal });
  const add = (outcome: string) => records.add({ outcome });
  return { add, appended, clock, disk, records, stopping };
}

Deno.test("BatchedRecords appends records together and in order after a delay", async () => {
  const { add, appended, clock } = start();
  await add("a");
  await clock.advance(10);
  await add("b");
  assert.deepEqual(appended, []);
  await clock.advance(10);
  assert.deepEqual(appended, ["a", "b"]);
  await add("c");
  await clock.advance(20);
  assert.deepEqual(appended, ["a", "b", "c"]);
  assert.equal(clock.sleeping, 0);
});

Deno.test("BatchedRecords appends waiting records before the next record", async () => {
  const { add, appended, clock, records } = start();
  await add("a");
  records.flush();
  assert.deepEqual(appended, ["a"]);
  await clock.advance(20);
  assert.deepEqual(appended, ["a"], "and once");
});

Deno.test("BatchedRecords appends immediately after the process starts to stop", async () => {
  const { add, appended, clock, stopping } = start();
  await add("a");
  stopping.abort();
  await clock.advance(0);
  await add("b");
  await clock.advance(0);
  assert.deepEqual(appended, ["a", "b"]);
});

Deno.test("BatchedRecords delays add() while 1024 records wait for the disk", async () => {
  const { add, disk } = start(0);
  for (let count = 0; count < 1024; count++) await add("forwarded");
  let isWritten = false;
  const last = add("forwarded").then(() => isWritten = true);
  await new Promise((resolve) => setTimeout(resolve, 0));
  assert.equal(isWritten, false);
  disk.resolve();
  await last;
  await add("forwarded");
});

Deno.test("BatchedRecords keeps each record's own request ID if another request flushes them", async () => {
  const clock = new FakeClock();
  const appended: unknown[] = [];
  const append = ({ outcome, request_id }: AuditEntry) => {
    appended.push([outcome, request_id]);
    return Promise.resolve();
  };
  const records = new BatchedRecords({ append, clock, delayMs: 20, signal: new AbortController().signal });
  const within = (id: string, run: () => Promise<void>) => inRequest({ name: "POST", id }, run);
  await within("r-1", () => records.add({ outcome: "a" }));
  await records.add({ outcome: "b" });
  await within("r-2", async () => {
    await records.add({ outcome: "c" });
    records.flush();
  });
  assert.deepEqual(appended, [["a", "r-1"], ["b", ""], ["c", "r-2"]]);
});
