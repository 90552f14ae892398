import assert from "node:assert/strict";
import { FakeClock } from "../testing/fake_clock.ts";
import { MemoryShared } from "../testing/memory_shared.ts";
import { SharedGroup } from "./group.ts";

const IGNORED = { info() {}, warn() {}, error() {} };

/** Instances over one shared memory, with a clock that the test controls. */
function createScene() {
  const shared = new MemoryShared();
  const clock = new FakeClock();
  shared.readClock = () => clock.now();
  let sessions = 0;
  const join = async (name: string, { elapsed = () => clock.now(), schema = 1 } = {}) => {
    const identity = { name, version: "1", newSession: () => `session-${++sessions}`, what: "signer" };
    const options = { ...identity, clock, elapsed, logger: IGNORED };
    return await SharedGroup.join({ ...options, shared: shared.of(name, schema) });
  };
  const start = async (name: string, more = {}) => {
    const group = await join(name, more);
    await group.start(() => Promise.resolve(shared.epochs));
    return group;
  };
  /** Whether a promise has resolved. */
  const isKept = async (promise: Promise<unknown>) => {
    let kept = false;
    promise.then(() => kept = true);
    await clock.advance(0);
    return kept;
  };
  /** Delays the requests of an instance until the returned function is called. */
  const hold = (name: string) => {
    const held = Promise.withResolvers<void>();
    shared.heldNames.set(name, held.promise);
    return () => {
      held.resolve();
      shared.heldNames.clear();
    };
  };
  return { shared, clock, join, start, isKept, hold };
}

const isStale = { code: "state_stale" };

Deno.test("SharedGroup allows decisions for 2 s after its last successful poll, and no longer", async () => {
  const { shared, clock, start } = createScene();
  const group = await start("a");
  group.requireFresh();
  assert.equal(group.problem, undefined);
  shared.isDown = true;
  await clock.advance(2_000);
  group.requireFresh();
  await clock.advance(1);
  assert.throws(() => group.requireFresh(), isStale);
  assert.match(group.problem ?? "", /too old: the state database is not available/);
  shared.isDown = false;
  await clock.advance(200);
  group.requireFresh();
  await group.leave();
});

Deno.test("SharedGroup measures the age of its state from the query and not from a slow answer", async () => {
  const { shared, clock, start } = createScene();
  const group = await start("a");
  const answer = Promise.withResolvers<void>();
  shared.hold = answer.promise;
  await clock.advance(2_600);
  assert.throws(() => group.requireFresh(), isStale);
  answer.resolve();
  shared.hold = undefined;
  await clock.advance(0);
  // The last heartbeat was sent 2,100 ms ago.
  assert.throws(() => group.requireFresh(), isStale);
  await clock.advance(500);
  group.requireFresh();
  await group.leave();
});

Deno.test("SharedGroup rejects decisions after 2 s of elapsed time if the clock stands still", async () => {
  const { clock, start } = createScene();
  let stands = clock.now();
  const group = await start("a", { elapsed: () => stands });
  group.requireFresh();
  await clock.advance(0);
  stands += 2_001;
  assert.throws(() => group.requireFresh(), isStale);
  stands -= 2_001;
  group.requireFresh();
  await group.leave();
});

Deno.test("SharedGroup waits until the other instances have seen a change", async () => {
  const { shared, clock, start, isKept, hold } = createScene();
  const [a, b] = [await start("a"), await start("b")];
  const release = hold("b");
  shared.change();
  const settled = a.settled();
  await clock.advance(1_000);
  assert.equal(await isKept(settled), false);
  release();
  await clock.advance(1_000);
  assert.equal(await isKept(settled), true);
  await a.leave();
  await b.leave();
});

Deno.test("SharedGroup receives confirmations immediately while it waits, and other instances do not poll", async () => {
  const { shared, start, isKept, hold } = createScene();
  const [a, b, c] = [await start("a"), await start("b"), await start("c")];
  const release = hold("b");
  shared.change();
  const settled = a.settled();
  assert.equal(await isKept(settled), false);
  const looks = shared.heartbeats.get("c");
  release();
  assert.equal(await isKept(settled), true);
  assert.equal(shared.heartbeats.get("c"), looks, "it waits for nobody");
  for (const group of [a, b, c]) await group.leave();
});

Deno.test("SharedGroup does not accept an answer from before a change as its confirmation", async () => {
  const { shared, clock, start, isKept, hold } = createScene();
  const [a, b] = [await start("a"), await start("b")];
  const release = hold("b");
  shared.change();
  const first = a.settled();
  await clock.advance(0);
  // Delay the answer to a until b has seen the first change and a second change is made.
  const heldA = Promise.withResolvers<void>();
  shared.holdGroupReads = heldA.promise;
  release();
  await clock.advance(0);
  hold("b");
  shared.change();
  const second = a.settled();
  heldA.resolve();
  assert.equal(await isKept(first), true);
  assert.equal(await isKept(second), false, "b has not seen it");
  shared.heldNames.clear();
  await clock.advance(5_000);
  await a.leave();
  void b;
});

Deno.test("SharedGroup loads a change that it is notified of before its next heartbeat", async () => {
  const { shared, clock, join } = createScene();
  const group = await join("a");
  const asked: (number | undefined)[] = [];
  await group.start(async (_link, confirm) => {
    asked.push(shared.heartbeats.get("a"));
    const { epochs } = shared;
    await confirm();
    return epochs;
  });
  const before = shared.heartbeats.get("a");
  shared.change();
  await clock.advance(0);
  assert.deepEqual(asked.slice(1), [before]);
  assert.equal(group.seen.state, shared.epochs.state);
  // Two more checks: the first finds the changes, the second confirms that they are in effect.
  assert.equal(shared.heartbeats.get("a"), (before ?? 0) + 2);
  await clock.advance(400);
  assert.equal(shared.heartbeats.get("a"), (before ?? 0) + 2, "it is done");
  await group.leave();
});

Deno.test("SharedGroup discards state that it read from tables of a newer version", async () => {
  const { shared, clock, join } = createScene();
  const group = await join("a");
  let kept = 0;
  await group.start(async (_link, confirm) => {
    const { epochs } = shared;
    await confirm();
    kept += 1;
    return epochs;
  });
  shared.schema = 2;
  shared.change();
  await clock.advance(3_000);
  assert.equal(kept, 1);
  assert.match(group.problem ?? "", /a newer version has migrated the state database/);
  await group.leave();
});

Deno.test("SharedGroup waits for a silent instance only as long as that instance may decide", async () => {
  const { shared, clock, start, isKept, hold } = createScene();
  const [a, b] = [await start("a"), await start("b")];
  hold("b");
  shared.change();
  const settled = a.settled();
  await clock.advance(2_000);
  assert.equal(await isKept(settled), false);
  await clock.advance(1_000);
  assert.throws(() => b.requireFresh(), isStale);
  assert.equal(await isKept(settled), true);
  assert.deepEqual(await settled, ["b"], "it did not confirm the change");
  // An instance that was removed from the list is not waited for again.
  assert.deepEqual(shared.names, ["a"]);
  shared.change();
  const second = a.settled();
  await clock.advance(50);
  assert.equal(await isKept(second), true);
  assert.deepEqual(await second, []);
  await a.leave();
});

Deno.test("SharedGroup rejoins with all missed changes after it was removed as silent", async () => {
  const { shared, clock, start, hold } = createScene();
  const [a, b] = [await start("a"), await start("b")];
  const release = hold("b");
  await clock.advance(6_000);
  assert.deepEqual(shared.names, ["a"]);
  release();
  await clock.advance(1_000);
  b.requireFresh();
  assert.deepEqual(shared.names, ["a", "b"]);
  await a.leave();
  await b.leave();
  assert.deepEqual(shared.names, []);
});

Deno.test("SharedGroup.join() rejects the name of a live instance and takes over a silent one's", async () => {
  const { clock, start, join, shared, hold } = createScene();
  const living = await start("a");
  const [refused] = await Promise.allSettled([join("a"), clock.advance(5_000)]);
  assert.equal(refused.status, "rejected");
  assert.match(String(refused.reason), /a signer with the instance name "a" is running/);
  hold("a");
  await clock.advance(500);
  shared.heldNames.clear();
  const [taken] = await Promise.allSettled([join("a"), clock.advance(5_000)]);
  assert.equal(taken.status, "fulfilled");
  assert.throws(() => living.requireFresh(), isStale);
});

Deno.test("SharedGroup stays fresh although other instances change the state continuously", async () => {
  const { shared, clock, join } = createScene();
  const group = await join("a");
  const started = group.start(async (_link, confirm) => {
    const { epochs } = shared;
    await clock.sleep(20);
    shared.change();
    await confirm();
    return epochs;
  });
  await Promise.all([started, clock.advance(500)]);
  for (let round = 0; round < 20; round++) {
    await clock.advance(500);
    group.requireFresh();
  }
  await Promise.all([group.leave(), clock.advance(1_000)]);
});

Deno.test("SharedGroup discards state that it read from a server that no longer accepts commits", async () => {
  const { shared, clock, join } = createScene();
  const group = await join("a");
  let kept = 0;
  await group.start(async (_link, confirm) => {
    const { epochs } = shared;
    if (shared.epochs.state > 1n) shared.isDown = true;
    await confirm();
    kept += 1;
    return epochs;
  });
  assert.equal(kept, 1);
  shared.change();
  await clock.advance(3_000);
  assert.equal(kept, 1);
  assert.throws(() => group.requireFresh(), isStale);
  shared.isDown = false;
  await group.leave();
});

Deno.test("SharedGroup rejects decisions if a newer version has migrated the tables", async () => {
  const { shared, clock, start } = createScene();
  const group = await start("a");
  shared.schema = 2;
  await clock.advance(2_600);
  assert.throws(() => group.requireFresh(), isStale);
  assert.match(group.problem ?? "", /a newer version has migrated the state database/);
  await group.leave();
});

Deno.test("SharedGroup.join() reports state_db if the database is unavailable", async () => {
  const { shared, join } = createScene();
  shared.isDown = true;
  await assert.rejects(join("a"), { code: "invalid_config", message: /^Cannot use state_db: / });
  shared.isDown = false;
  await (await join("a")).leave();
});

Deno.test("SharedGroup polls for certificates at most twice a second, and immediately if a request waits", async () => {
  const { shared, clock, join } = createScene();
  const group = await join("a");
  let looks = 0;
  const issue = () => {
    shared.epochs = { ...shared.epochs, certificates: shared.epochs.certificates + 1n };
  };
  await group.start(async (_link, confirm) => {
    const { epochs } = shared;
    looks += 1;
    // Stop the loop even if the checks never end.
    if (looks < 100) issue();
    await confirm();
    return epochs;
  });
  looks = 0;
  await clock.advance(5_000);
  assert.ok(looks >= 9 && looks <= 10, `${looks} looks`);
  issue();
  const { certificates } = shared.epochs;
  const settled = group.settled();
  await clock.advance(0);
  await settled;
  assert.ok(group.seen.certificates >= certificates, "what was issued before is known");
  await group.leave();
});

Deno.test("SharedGroup reads all state again after a reconnect, even if the epochs are the same", async () => {
  const { shared, clock, join } = createScene();
  const group = await join("a");
  const known: bigint[] = [];
  await group.start(async (_link, confirm) => {
    known.push(group.seen.state);
    await confirm();
    return shared.epochs;
  });
  shared.isDown = true;
  await clock.advance(600);
  shared.isDown = false;
  await clock.advance(600);
  assert.deepEqual(known, [0n, 0n]);
  group.requireFresh();
  await group.leave();
});
