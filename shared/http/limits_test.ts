import fc from "fast-check";
import assert from "node:assert/strict";
import { FakeClock } from "../testing/fake_clock.ts";
import { ConnectionLimiter, type ConnectionLimits, DEFAULT_LIMITS, TokenBuckets } from "./limits.ts";

const LIMITS: ConnectionLimits = {
  unauthenticated: 4,
  unauthenticatedPerSource: 2,
  authenticated: 2,
  reserved: 1,
};
const AUTHENTICATED = { kind: "authenticated" } as const;

function addAll(limiter: ConnectionLimiter<number>, addresses: readonly string[]) {
  return addresses.map((address, index) => limiter.add(index, address));
}

Deno.test.each<
  {
    readonly name: string;
    readonly addresses: readonly string[];
    readonly out: readonly (number | undefined)[];
  }
>([
  {
    name: "the oldest connection of a source is closed if the source exceeds its limit",
    addresses: ["192.0.2.1", "192.0.2.1", "192.0.2.1"],
    out: [undefined, undefined, 0],
  },
  {
    name: "sources do not displace each other below the limit",
    addresses: ["192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.2"],
    out: [undefined, undefined, undefined, undefined],
  },
  {
    name: "the largest source loses its oldest connection if all sources exceed the limit",
    addresses: ["192.0.2.9", "192.0.2.1", "192.0.2.1", "192.0.2.2", "192.0.2.3"],
    out: [undefined, undefined, undefined, undefined, 1],
  },
  {
    name: "an IPv6 /64 network counts as one source",
    addresses: ["2001:db8::1", "2001:db8::2", "2001:db8::3", "2001:db8:0:1::1"],
    out: [undefined, undefined, 0, undefined],
  },
  {
    name: "an IPv4-mapped IPv6 address counts as the IPv4 address",
    addresses: ["::ffff:192.0.2.1", "192.0.2.1", "::ffff:192.0.2.1", "::ffff:192.0.2.2"],
    out: [undefined, undefined, 0, undefined],
  },
  {
    name: "link-local addresses with one zone are one source",
    addresses: ["fe80::1%eth0", "fe80::2%eth0", "fe80::3%eth0"],
    out: [undefined, undefined, 0],
  },
])("ConnectionLimiter.add(): $name", ({ addresses, out }) => {
  assert.deepEqual(addAll(new ConnectionLimiter<number>(LIMITS), addresses), out);
});

Deno.test("ConnectionLimiter: unauthenticated connections never displace authenticated ones, and free their slots", () => {
  const limiter = new ConnectionLimiter<string>(LIMITS);
  assert.equal(limiter.add("broker", "192.0.2.1"), undefined);
  assert.equal(limiter.admit("broker", AUTHENTICATED), true);
  for (let index = 0; index < 100; index++) {
    assert.notEqual(limiter.add(`client ${index}`, `192.0.2.${index % 10}`), "broker");
  }
  assert.equal(limiter.isAuthenticated("broker"), true);
  assert.equal(limiter.isAuthenticated("client 99"), false);
});

Deno.test("ConnectionLimiter.admit() reserves connections for reserved peers", () => {
  const limiter = new ConnectionLimiter<string>({ ...LIMITS, unauthenticatedPerSource: 4 });
  for (const name of ["a", "b", "c", "operator"]) limiter.add(name, "192.0.2.1");
  assert.equal(limiter.admit("a", AUTHENTICATED), true);
  assert.equal(limiter.admit("b", AUTHENTICATED), true);
  assert.equal(limiter.admit("c", AUTHENTICATED), false);
  assert.equal(limiter.isAuthenticated("c"), false);
  assert.equal(limiter.admit("operator", { kind: "reserved" }), true);
  assert.equal(limiter.admit("c", { kind: "reserved" }), false);
  limiter.remove("operator");
  limiter.remove("b");
  assert.equal(limiter.admit("c", AUTHENTICATED), true);
});

Deno.test("ConnectionLimiter.admit() counts a connection once, and none that has left", () => {
  const limiter = new ConnectionLimiter<string>({ ...LIMITS, authenticated: 1, reserved: 0 });
  limiter.add("a", "192.0.2.1");
  assert.equal(limiter.admit("a", AUTHENTICATED), true);
  assert.equal(limiter.admit("a", AUTHENTICATED), true);
  limiter.remove("a");
  assert.equal(limiter.admit("a", AUTHENTICATED), false);
  limiter.add("b", "192.0.2.1");
  assert.equal(limiter.admit("b", AUTHENTICATED), true);
});

Deno.test("the default limits of a listener sum up to 1024 connections", () => {
  const { unauthenticated, authenticated, reserved } = DEFAULT_LIMITS;
  assert.equal(unauthenticated + authenticated + reserved, 1024);
});

Deno.test("ConnectionLimiter.admit(): one peer leaves connections for all others", () => {
  const limiter = new ConnectionLimiter<string>({
    unauthenticated: 1000,
    unauthenticatedPerSource: 1000,
    authenticated: 100,
    reserved: 8,
  });
  const take = (name: string, wanted: number, kind: "authenticated" | "reserved" = "authenticated") => {
    let got = 0;
    for (let index = 0; index < wanted; index++) {
      const connection = `${name} ${crypto.randomUUID()}`;
      limiter.add(connection, "192.0.2.1");
      if (limiter.admit(connection, { kind, name })) got += 1;
    }
    return got;
  };
  assert.equal(take("greedy", 200), 50);
  assert.equal(take("second", 200), 25);
  for (let caller = 0; caller < 20; caller++) assert.equal(take(`modest ${caller}`, 1), 1);
  assert.equal(take("operator", 10, "reserved"), 10);
});

Deno.test("ConnectionLimiter: a closed connection restores the share of its peer", () => {
  const limiter = new ConnectionLimiter<number>({ ...LIMITS, unauthenticatedPerSource: 4 });
  for (const connection of [0, 1, 2]) limiter.add(connection, "192.0.2.1");
  assert.equal(limiter.admit(0, { kind: "authenticated", name: "broker" }), true);
  assert.equal(limiter.admit(1, { kind: "authenticated", name: "broker" }), false);
  limiter.remove(0);
  limiter.remove(0);
  assert.equal(limiter.admit(1, { kind: "authenticated", name: "broker" }), true);
  assert.equal(limiter.admit(2, { kind: "authenticated", name: "broker" }), false);
});

function takeMany(buckets: TokenBuckets, count: number, perMinute: number): number {
  return Array.from({ length: count }, () => buckets.take("a", perMinute)).filter(({ ok }) => ok).length;
}

Deno.test("take() allows a burst of the limit and then refills evenly", async () => {
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
])("take() at $perMinute a minute returns a retry time of $seconds s", ({ perMinute, seconds }) => {
  const buckets = new TokenBuckets({ clock: new FakeClock() });
  takeMany(buckets, perMinute, perMinute);
  assert.deepEqual(buckets.take("a", perMinute), { ok: false, retryAfterSeconds: seconds });
});

Deno.test("take() applies no limit at 0 and below, and stores no key", () => {
  const buckets = new TokenBuckets({ clock: new FakeClock() });
  assert.equal(takeMany(buckets, 1000, 0), 1000);
  assert.equal(takeMany(buckets, 1000, -1), 1000);
  assert.equal(buckets.size, 0);
});

Deno.test("take() limits each key separately", () => {
  const buckets = new TokenBuckets({ clock: new FakeClock() });
  assert.equal(buckets.take("a", 1).ok, true);
  assert.equal(buckets.take("a", 1).ok, false);
  assert.equal(buckets.take("b", 1).ok, true);
});

Deno.test("take() applies a changed limit immediately and never adds tokens for it", () => {
  const buckets = new TokenBuckets({ clock: new FakeClock() });
  assert.equal(takeMany(buckets, 1, 10), 1);
  assert.equal(takeMany(buckets, 100, 1000), 9);
  const lowered = new TokenBuckets({ clock: new FakeClock() });
  assert.equal(takeMany(lowered, 1, 10), 1);
  assert.equal(takeMany(lowered, 100, 2), 2);
});

Deno.test("take() neither adds nor removes tokens if the clock is set back", async () => {
  const clock = new FakeClock();
  const buckets = new TokenBuckets({ clock });
  assert.equal(takeMany(buckets, 4, 6), 4);
  await clock.advance(-86_400_000);
  assert.equal(takeMany(buckets, 100, 6), 2);
  await clock.advance(10_000);
  assert.equal(takeMany(buckets, 100, 6), 1, "refills from the new time on");
});

Deno.test("take() evicts all idle keys first", async () => {
  const clock = new FakeClock();
  const buckets = new TokenBuckets({ clock, maxKeys: 4 });
  for (const key of ["a", "b", "c"]) buckets.take(key, 1);
  await clock.advance(60_001);
  buckets.take("d", 1);
  buckets.take("e", 1);
  assert.equal(buckets.size, 2);
  assert.equal(buckets.take("d", 1).ok, false);
});

Deno.test("take() evicts the least recently used key if none is idle", () => {
  const buckets = new TokenBuckets({ clock: new FakeClock(), maxKeys: 2 });
  buckets.take("a", 1);
  buckets.take("b", 1);
  buckets.take("a", 1);
  buckets.take("c", 1);
  assert.equal(buckets.size, 2);
  assert.equal(buckets.take("a", 1).ok, false, "a is remembered");
  assert.equal(buckets.take("b", 1).ok, true, "b was forgotten");
});

Deno.test("take() stores at most 4096 keys by default (R4)", () => {
  const buckets = new TokenBuckets({ clock: new FakeClock() });
  for (let key = 0; key < 10_000; key++) buckets.take(String(key), 1);
  assert.equal(buckets.size, 4096);
});

Deno.test("take() never allows more than the burst and the refill, however the clock changes", async () => {
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

Deno.test("giveBack() returns a token up to the limit", () => {
  const buckets = new TokenBuckets({ clock: new FakeClock() });
  buckets.take("a", 2);
  buckets.giveBack("a");
  buckets.giveBack("a");
  buckets.giveBack("unknown");
  assert.equal(takeMany(buckets, 10, 2), 2);
  assert.equal(buckets.size, 1);
});

Deno.test("peek() returns the result of take() without taking a token or storing the key", async () => {
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
