import assert from "node:assert/strict";
import { park, poll, RegistryScene, take, TIMEOUT_MS } from "../testing/registry_scene.ts";
import { EVER } from "../testing/sample_approval.ts";

const HOUR_MS = 3_600_000;

Deno.test("after a restart everything is where it was, but for tokens and claims (A18)", async () => {
  const scene = new RegistryScene();
  const first = await scene.open();
  const approvals = [];
  for (let n = 0; n < 5; n++) approvals.push(await park(first, { bearerToken: "secret", command: `${n}` }));
  const [pending, approved, claimed, consumed, denied] = approvals;
  for (const approval of [approved!, claimed!, consumed!]) {
    await scene.decide(first, approval, { learnTtlSeconds: 60 });
  }
  await scene.decide(first, denied!, { approve: false });
  take(first, claimed!);
  await take(first, consumed!).consume(scene.granted);
  await first.close();

  const second = await scene.open();
  assert.equal(poll(second, pending!), "pending");
  assert.equal(poll(second, denied!), "denied");
  assert.equal(poll(second, consumed!), "consumed");
  for (const approval of [approved!, claimed!]) {
    const claim = take(second, approval);
    assert.deepEqual(claim.request, { ...approval.request, bearer_token: "" });
    assert.equal(claim.approval.state.kind, "approved");
    await claim.consume(scene.granted);
    assert.equal(poll(second, approval), "consumed");
  }
  assert.deepEqual(second.list().map(({ command }) => command), ["0", "4", "3", "2", "1"]);
  assert.deepEqual(
    second.list().map((approval) => second.describe(approval).status),
    ["pending", "denied", "approved", "approved", "approved"],
  );
  assert.equal(second.pendingCount(), 1);
});

Deno.test("after a restart the times continue, to the millisecond", async () => {
  const scene = new RegistryScene();
  const pending = await park(await scene.open());
  await scene.clock.advance(TIMEOUT_MS - 1);
  const second = await scene.open();
  await scene.clock.advance(1);
  assert.equal(poll(second, pending), "pending");
  await scene.clock.advance(1);
  assert.equal(poll(second, pending), "expired");
  const third = await scene.open();
  assert.equal(poll(third, pending), "expired");
  assert.equal(third.pendingCount(), 0);
  await scene.clock.advance(TIMEOUT_MS - 1);
  assert.equal(poll(await scene.open(), pending), "expired");
  await scene.clock.advance(1);
  assert.equal(poll(await scene.open(), pending), "unknown");
});

Deno.test("a restart purges the store", async () => {
  const scene = new RegistryScene();
  const first = await scene.open();
  await park(first);
  await first.close();
  await scene.clock.advance(2 * TIMEOUT_MS + 1);
  await (await scene.open()).close();
  assert.deepEqual(await scene.store.loadApprovals(EVER), []);
});

Deno.test.each([
  { name: "pending", approve: false, kind: "pending" },
  { name: "approved", approve: true, kind: "claimed" },
])(
  "from the future, because the clock was set back meanwhile: $name, it lives no longer than from now",
  async ({
    approve,
    kind,
  }) => {
    const scene = new RegistryScene();
    const first = await scene.open();
    await scene.clock.advance(HOUR_MS);
    const approval = await park(first);
    if (approve) {
      await scene.clock.advance(1000);
      await scene.decide(first, approval);
    }
    await scene.clock.advance(-HOUR_MS);
    const second = await scene.open();
    await scene.clock.advance(TIMEOUT_MS);
    assert.equal(poll(second, approval), kind);
    await scene.clock.advance(1);
    assert.equal(poll(second, approval), "expired");
    await scene.clock.advance(TIMEOUT_MS);
    assert.deepEqual(second.list(), []);
  },
);

Deno.test("a decision on an approval from the future is in its own time", async () => {
  const scene = new RegistryScene();
  const first = await scene.open();
  await scene.clock.advance(HOUR_MS);
  const approval = await park(first);
  await scene.clock.advance(-HOUR_MS);
  const second = await scene.open();
  await scene.clock.advance(5000);
  const decided = await scene.decide(second, approval);
  assert.ok(decided.kind === "decided" && decided.approval.state.kind === "approved");
  assert.equal(decided.approval.state.at, approval.createdAt + 5000);
});
