import assert from "node:assert/strict";
import { FakeClock } from "../testing/fake_clock.ts";
import { MemoryShared } from "../testing/memory_shared.ts";
import { SharedGroup } from "./group.ts";

/** Starts an instance whose machine's clock is ahead of the database by `ms`. */
async function startAhead(ms: number) {
  const shared = new MemoryShared();
  const clock = new FakeClock();
  shared.readClock = () => clock.now();
  const warned: string[] = [];
  let ahead = ms;
  const group = await SharedGroup.join({
    ...{ shared: shared.of("a", 1), what: "signer", name: "a", version: "1", newSession: () => "s" },
    clock: { now: () => clock.now() + ahead, sleep: (...wait) => clock.sleep(...wait) },
    elapsed: () => clock.now(),
    logger: { info() {}, warn: (text) => void warned.push(text), error() {} },
  });
  await group.start(() => Promise.resolve(shared.epochs));
  return { group, clock, shared, warned, set: (ms: number) => void (ahead = ms) };
}

Deno.test.each([
  { name: "half a minute ahead", ahead: 30_000 },
  { name: "half a minute behind", ahead: -30_000 },
])(
  "SharedGroup uses the database's time if its own clock is $name, and warns",
  async ({ ahead }) => {
    const { group, clock, warned } = await startAhead(ahead);
    group.requireFresh();
    assert.equal(group.clock.now(), clock.now());
    await clock.advance(5_000);
    assert.equal(group.clock.now(), clock.now());
    assert.deepEqual(warned, [
      `this machine's clock is 30 s ${ahead > 0 ? "ahead of" : "behind"} the state database's: set it by NTP`,
    ]);
    await group.leave();
  },
);

Deno.test("SharedGroup rejects decisions and reports the reason while its clock is 3600 s off", async () => {
  const { group, clock, set } = await startAhead(0);
  for (const ahead of [-3_600_000, 3_600_000]) {
    set(ahead);
    // The next check, half a second later, detects it. Until then, the time is still the database's.
    assert.equal(group.clock.now(), clock.now());
    await clock.advance(600);
    assert.throws(() => group.requireFresh(), {
      code: "state_stale",
      message: /clock is 3600 s (behind|ahead)/,
    });
    assert.match(group.problem ?? "", /set it by NTP/);
    set(0);
    await clock.advance(600);
    group.requireFresh();
  }
  await group.leave();
});

Deno.test("SharedClock prefers the time of a fast answer over that of a slow answer", async () => {
  const { group, clock, shared } = await startAhead(0);
  const answer = Promise.withResolvers<void>();
  shared.hold = answer.promise;
  await clock.advance(1_900);
  shared.hold = undefined;
  answer.resolve();
  await clock.advance(0);
  assert.equal(group.clock.now(), clock.now());
  assert.equal(group.clock.offset, 0);
  await group.leave();
});
