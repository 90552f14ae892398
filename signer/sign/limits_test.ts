import assert from "node:assert/strict";
import type { Steps } from "@gateway/shared/clock";
import { FakeClock } from "@gateway/shared/testing";
import {
  type CountedRequest,
  DecisionTurns,
  FORWARDED_CALLER_SHARE,
  SignLimit,
  type SignSource,
} from "./limits.ts";

const LIMIT = 2;
const BROKER: SignSource = { peer: "broker-1", isForwarder: false, perMinute: LIMIT };
const FORWARDER: SignSource = { peer: "control-plane", isForwarder: true, perMinute: LIMIT };

const asked = (changes: Partial<CountedRequest> = {}): CountedRequest => ({
  on_behalf_of: "broker-1",
  end_user: "ann",
  dry_run: false,
  preflight: false,
  ...changes,
});
const DRY = { dry_run: true };
const start = () => new SignLimit({ clock: new FakeClock() });
/** How many of many requests are let through. */
const through = (limit: SignLimit, source: SignSource, request: (index: number) => CountedRequest) =>
  Array.from({ length: 40 }, (_, index) => limit.take(source, request(index)).ok).filter(Boolean).length;

Deno.test("take() behind a forwarder: one end user leaves the others theirs", () => {
  const limit = start();
  assert.equal(through(limit, FORWARDER, () => asked()), LIMIT);
  assert.equal(through(limit, FORWARDER, () => asked({ end_user: "bob" })), LIMIT);
  assert.equal(through(limit, FORWARDER, () => asked({ end_user: "" })), LIMIT, "no end user is one too");
  assert.equal(through(limit, FORWARDER, () => asked({ on_behalf_of: "broker-2" })), LIMIT);
});

Deno.test("take() behind a forwarder: invented end users are stopped at the share of their broker", () => {
  const limit = start();
  const invented = through(limit, FORWARDER, (index) => asked({ end_user: `user-${index}` }));
  assert.equal(invented, LIMIT * FORWARDED_CALLER_SHARE);
  assert.equal(through(limit, FORWARDER, () => asked({ on_behalf_of: "broker-2" })), LIMIT, "others are not");
});

Deno.test("take() of a broker that comes directly: names that it invents change nothing", () => {
  const limit = start();
  const invented = (index: number) => asked({ end_user: `user-${index}`, on_behalf_of: `broker-${index}` });
  assert.equal(through(limit, BROKER, invented), LIMIT);
});

Deno.test.each([{ name: "directly", source: BROKER }, { name: "behind a forwarder", source: FORWARDER }])(
  "take() $name: dry runs take nothing from those who act, and a preflight is not a dry run",
  ({ source }) => {
    const limit = start();
    assert.equal(through(limit, source, () => asked(DRY)), LIMIT);
    assert.equal(through(limit, source, () => asked({ ...DRY, preflight: true })), LIMIT);
    assert.equal(through(limit, source, () => asked()), 0);
  },
);

Deno.test("take() does what the limit of the moment says", () => {
  const limit = start();
  assert.equal(through(limit, FORWARDER, () => asked()), LIMIT);
  assert.equal(through(limit, { ...FORWARDER, perMinute: 0 }, () => asked()), 40, "none");
  assert.equal(through(limit, { ...FORWARDER, perMinute: 1 }, () => asked({ end_user: "bob" })), 1);
});

Deno.test("take() can't be told one name for two, and keeps no long ones", () => {
  const limit = start();
  assert.equal(through(limit, FORWARDER, () => asked({ on_behalf_of: 'b","c', end_user: "d" })), LIMIT);
  assert.equal(through(limit, FORWARDER, () => asked({ on_behalf_of: "b", end_user: 'c","d' })), LIMIT);
  const long = (index: number) => asked({ on_behalf_of: "b2", end_user: "a".repeat(300) + index });
  assert.equal(through(limit, FORWARDER, long), LIMIT);
});

Deno.test("check() refuses a body unread only when nothing in it could help", () => {
  const limit = start();
  through(limit, BROKER, () => asked());
  assert.equal(limit.check(BROKER).ok, true, "it may be a dry run");
  through(limit, BROKER, () => asked(DRY));
  assert.deepEqual(limit.check(BROKER), { ok: false, retryAfterSeconds: 30 });
  through(limit, FORWARDER, (index) => asked({ end_user: `user-${index}` }));
  assert.equal(limit.check(FORWARDER).ok, true, "it may be for another broker");
});

Deno.test("takeUnread() draws from the bucket of those who act", () => {
  for (const source of [BROKER, FORWARDER]) {
    const limit = start();
    assert.deepEqual([1, 2, 3].map(() => limit.takeUnread(source).ok), [true, true, false]);
    assert.equal(limit.take(source, asked({ ...DRY, on_behalf_of: "" })).ok, true);
  }
});

/** Turns on a clock that only steps and pauses move, and what happened on it. */
function startTurns() {
  let time = 0;
  const events: string[] = [];
  const sleep = async (ms: number) => {
    events.push("pause");
    await Promise.resolve();
    time += ms;
  };
  const turns = new DecisionTurns({ clock: { now: () => time, sleep } });
  function* take(name: string, steps: number): Steps<string> {
    for (let step = 0; step < steps; step++) {
      time += 1;
      yield;
    }
    return name;
  }
  const run = async (caller: string, name: string, steps: number) => {
    events.push(await turns.run(caller, take(name, steps)));
  };
  return { turns, events, run };
}

Deno.test("DecisionTurns.run() serves callers in turn, and each in the order of its requests", async () => {
  const { events, run } = startTurns();
  await Promise.all([run("a", "a1", 3), run("a", "a2", 3), run("a", "a3", 3), run("b", "b1", 1)]);
  assert.deepEqual(events.filter((event) => event !== "pause"), ["b1", "a1", "a2", "a3"]);
});

Deno.test("DecisionTurns.run() pauses after each millisecond of a decision", async () => {
  const { events, run } = startTurns();
  await run("a", "a1", 4);
  assert.deepEqual(events, ["pause", "pause", "pause", "pause", "a1"]);
});

Deno.test("DecisionTurns.run() decides short ones without a pause", async () => {
  const { events, run } = startTurns();
  await Promise.all([run("a", "a1", 0), run("b", "b1", 0)]);
  assert.deepEqual(events, ["a1", "b1"]);
});

Deno.test("DecisionTurns.run() rejects with the error of a decision, and serves the others", async () => {
  const { events, run, turns } = startTurns();
  // deno-lint-ignore require-yield
  function* fail(): Steps<never> {
    throw new RangeError("broken");
  }
  await Promise.all([assert.rejects(turns.run("a", fail()), RangeError), run("a", "a2", 1)]);
  assert.deepEqual(events, ["pause", "a2"]);
});
