import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { ALONE } from "@gateway/shared/instances";
import { openMemoryStore } from "../testing/failing_control_store.ts";
import { gate } from "../testing/fake_signer.ts";
import { startControlPlane } from "../testing/memory_control_plane.ts";

Deno.test("POST /v1/sign parks what the policy wants approved: 202", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = gate;
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

Deno.test("POST /v1/sign parks nothing where the database can't be seen, and does not wait for it: 503", async () => {
  const stale = new AppError("state_stale", "does not know", { retryAfterSeconds: 1 });
  const store = openMemoryStore();
  store.insertApproval = () => new Promise(() => {});
  const requireFresh = () => {
    throw stale;
  };
  const plane = await startControlPlane({}, { store, instances: { ...ALONE, isShared: true, requireFresh } });
  plane.signer.reply = gate;
  const { status, headers } = await plane.sign({ command: "rm -r x" });
  assert.deepEqual([status, headers.get("retry-after")], [503, "1"]);
  const err = "could not create approval request";
  assert.deepEqual(plane.log.entries.map(({ outcome, err }) => [outcome, err]), [["error", err]]);
  assert.deepEqual([plane.registry.list(), plane.notified], [[], []]);
});

Deno.test("POST /v1/sign shows the end user that a trusted broker names", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = gate;
  await plane.park({ end_user: "alice" }, "broker-2");
  assert.equal(plane.notified[0]?.end_user, "alice");
});

Deno.test("POST /v1/sign bounds what waits for one caller: 429", async () => {
  const plane = await startControlPlane();
  plane.signer.reply = gate;
  const answers = await Promise.all(Array.from({ length: 5 }, (_, n) => plane.sign({ command: `rm ${n}` })));
  assert.deepEqual(answers.map(({ status }) => status).sort(), [202, 202, 202, 429, 429]);
  const refused = answers.find(({ status }) => status === 429);
  assert.equal(refused?.headers.get("retry-after"), "120");
  assert.equal(plane.notified.length, 3);
  assert.equal((await plane.sign({ command: "rm x" }, "broker-2")).status, 202, "others are not affected");
});

Deno.test("POST /v1/sign bounds what waits for one end user: the others of the broker still get a place", async () => {
  const plane = await startControlPlane({ approval: { callers: ["approver-1"], max_pending_per_caller: 8 } });
  plane.signer.reply = gate;
  const ask = (end_user: string) => plane.sign({ command: "rm x", end_user }, "broker-2");
  const answers = await Promise.all(Array.from({ length: 10 }, () => ask("mallory")));
  assert.equal(answers.filter(({ status }) => status === 202).length, 2);
  const { status, body } = await ask("mallory");
  assert.deepEqual([status, body.detail], [429, "2 requests of this end user wait for approval"]);
  assert.equal(plane.log.entries.at(-1)?.outcome, "rate-limited");
  assert.equal((await ask("alice")).status, 202);
});

Deno.test("POST /v1/sign that cannot be stored is 500 and nobody is asked", async () => {
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
