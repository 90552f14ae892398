import assert from "node:assert/strict";
import fc from "fast-check";
import { FakeClock } from "../testing/fake_clock.ts";
import { TokenBuckets } from "./token_bucket.ts";

function takeMany(buckets: TokenBuckets, count: number, perMinute: number): number {
  return Array.from({ length: count }, () => buckets.take("a", perMinute)).filter(({ ok }) => ok).length;
}

Deno.test("take() allows a burst of the limit and refills evenly", async () => {
  const clock = new FakeClock();
  const buckets = new TokenBuckets({ clock });
  assert.equal(takeMany(buckets, 100, 6), 6);
  await clock.advance(9_999);
  assert.equal(takeMany(buckets, 100, 6), 0);
  await clock.advance(1);
  assert.equal(takeMany(buckets, 100, 6), 1);
  await clock.advance(3_600_000);
  assert.equal(takeMany(buckets, 100, 6), 6);
});

Deno.test.each([
  { perMinute: 1, seconds: 60 },
  { perMinute: 7, seconds: 9 },
  { perMinute: 60, seconds: 1 },
  { perMinute: 1000, seconds: 1 },
])("take() at $perMinute a minute says to retry after $seconds s", ({ perMinute, seconds }) => {
  const buckets = new TokenBuckets({ clock: new FakeClock() });
  takeMany(buckets, perMinute, perMinute);
  assert.deepEqual(buckets.take("a", perMinute), { ok: false, retryAfterSeconds: seconds });
});

Deno.test("take() knows no limit at 0 and below, and remembers nothing then", () => {
  const buckets = new TokenBuckets({ clock: new FakeClock() });
  assert.equal(takeMany(buckets, 1000, 0), 1000);
  assert.equal(takeMany(buckets, 1000, -1), 1000);
  assert.equal(buckets.size, 0);
});

Deno.test("take() keeps keys apart", () => {
  const buckets = new TokenBuckets({ clock: new FakeClock() });
  assert.equal(buckets.take("a", 1).ok, true);
  assert.equal(buckets.take("a", 1).ok, false);
  assert.equal(buckets.take("b", 1).ok, true);
});

Deno.test("take() acts on a changed limit at once and never adds tokens for it", () => {
  const buckets = new TokenBuckets({ clock: new FakeClock() });
  assert.equal(takeMany(buckets, 1, 10), 1);
  assert.equal(takeMany(buckets, 100, 1000), 9);
  const lowered = new TokenBuckets({ clock: new FakeClock() });
  assert.equal(takeMany(lowered, 1, 10), 1);
  assert.equal(takeMany(lowered, 100, 2), 2);
});

Deno.test("take() neither gives nor takes tokens when the clock is set back", async () => {
  const clock = new FakeClock();
  const buckets = new TokenBuckets({ clock });
  assert.equal(takeMany(buckets, 4, 6), 4);
  await clock.advance(-86_400_000);
  assert.equal(takeMany(buckets, 100, 6), 2);
  await clock.advance(10_000);
  assert.equal(takeMany(buckets, 100, 6), 1, "refills from the new time on");
});

Deno.test("take() forgets idle keys first, and all of them at once", async () => {
  const clock = new FakeClock();
  const buckets = new TokenBuckets({ clock, maxKeys: 4 });
  for (const key of ["a", "b", "c"]) buckets.take(key, 1);
  await clock.advance(60_001);
  buckets.take("d", 1);
  buckets.take("e", 1);
  assert.equal(buckets.size, 2);
  assert.equal(buckets.take("d", 1).ok, false);
});

Deno.test("take() forgets the least recently used key when none is idle", () => {
  const buckets = new TokenBuckets({ clock: new FakeClock(), maxKeys: 2 });
  buckets.take("a", 1);
  buckets.take("b", 1);
  buckets.take("a", 1);
  buckets.take("c", 1);
  assert.equal(buckets.size, 2);
  assert.equal(buckets.take("a", 1).ok, false, "a is remembered");
  assert.equal(buckets.take("b", 1).ok, true, "b was forgotten");
});

Deno.test("take() remembers at most 4096 keys by default (R4)", () => {
  const buckets = new TokenBuckets({ clock: new FakeClock() });
  for (let key = 0; key < 10_000; key++) buckets.take(String(key), 1);
  assert.equal(buckets.size, 4096);
});

Deno.test("take() never allows more than the burst and what was refilled, whatever the clock does", async () => {
  const steps = fc.array(fc.record({ waitMs: fc.integer({ min: -5000, max: 20_000 }), takes: fc.nat(5) }));
  await fc.assert(
    fc.asyncProperty(steps, fc.integer({ min: 1, max: 120 }), async (sequence, perMinute) => {
      const clock = new FakeClock();
      const buckets = new TokenBuckets({ clock });
      let forwardMs = 0;
      let allowed = 0;
      for (const { waitMs, takes } of sequence) {
        await clock.advance(waitMs);
        forwardMs += Math.max(0, waitMs);
        allowed += takeMany(buckets, takes, perMinute);
        assert.ok(allowed <= perMinute + forwardMs * perMinute / 60_000 + 1e-6);
      }
    }),
    { numRuns: 30 },
  );
});

Deno.test("giveBack() undoes a taking, and gives no more than the limit", () => {
  const buckets = new TokenBuckets({ clock: new FakeClock() });
  buckets.take("a", 2);
  buckets.giveBack("a");
  buckets.giveBack("a");
  buckets.giveBack("unknown");
  assert.equal(takeMany(buckets, 10, 2), 2);
  assert.equal(buckets.size, 1);
});

Deno.test("peek() says what take() would, takes nothing and remembers nothing", async () => {
  const clock = new FakeClock();
  const buckets = new TokenBuckets({ clock });
  for (let count = 0; count < 5; count++) assert.deepEqual(buckets.peek("a", 1), { ok: true });
  assert.equal(buckets.size, 0);
  buckets.take("a", 1);
  assert.deepEqual(buckets.peek("a", 1), { ok: false, retryAfterSeconds: 60 });
  assert.deepEqual(buckets.peek("a", 0), { ok: true }, "no limit");
  await clock.advance(60_000);
  assert.deepEqual(buckets.peek("a", 1), { ok: true });
});
