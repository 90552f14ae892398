import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { FakeBaselineStore } from "../testing/baseline_store.ts";
import { type Baseline, RateWindow, WINDOW_MS } from "./tracker.ts";
import { BaselineWriter } from "./guardrails.ts";
import fc from "fast-check";

const baselineOf = (subject: string, fields: Partial<Baseline> = {}): Baseline => {
  return { subject, lastSeen: 0, hosts: ["web01"], commands: ["uptime"], ...fields };
};

function start(rows: readonly Baseline[] = []) {
  const store = new FakeBaselineStore(rows);
  const clock = new FakeClock();
  const live = new Map(rows.map((row) => [row.subject, row]));
  const counts = { errors: 0, warnings: 0 };
  const writer = new BaselineWriter({
    store,
    clock,
    logger: { info() {}, warn: () => counts.warnings++, error() {} },
    onStoreError: () => counts.errors++,
    read: (subject) => live.get(subject),
    refreshMs: 1000,
  });
  writer.loaded(rows);
  return {
    store,
    clock,
    writer,
    live,
    counts,
    change(subject: string, fields: Partial<Baseline> = {}) {
      live.set(subject, baselineOf(subject, fields));
      writer.changed(subject);
    },
    forget(subject: string) {
      live.delete(subject);
      writer.forgotten(subject);
    },
  };
}

const failure = new Error("database is locked");

Deno.test("several changes of a subject within a second become one write of the latest state", async () => {
  const { store, clock, change } = start();
  change("a");
  change("b");
  change("a", { hosts: ["web01", "db01"] });
  await clock.advance(999);
  assert.deepEqual(store.calls, []);
  await clock.advance(1);
  assert.deepEqual(store.calls, ["put a", "put b"]);
  assert.deepEqual(store.rows.get("a")?.hosts, ["web01", "db01"]);
});

Deno.test("BaselineWriter stops its timer if nothing is waiting and starts it on a change", async () => {
  const { store, clock, change } = start();
  change("a");
  await clock.advance(1000);
  assert.equal(clock.sleeping, 0);
  change("b");
  await clock.advance(1000);
  assert.deepEqual(store.calls, ["put a", "put b"]);
});

Deno.test("BaselineWriter writes at most 64 baselines per interval", async () => {
  const { store, clock, change } = start();
  for (let i = 0; i < 100; i++) change(String(i));
  await clock.advance(1000);
  assert.equal(store.rows.size, 64);
  await clock.advance(1000);
  assert.equal(store.rows.size, 100);
});

Deno.test("a subject that is forgotten before its first write is never stored", async () => {
  const { store, clock, writer, change, forget } = start();
  change("a");
  forget("a");
  assert.equal(writer.waiting, 0);
  await clock.advance(5000);
  assert.deepEqual(store.calls, []);
});

Deno.test("a subject that is forgotten after its write is deleted from the store", async () => {
  const { store, clock, change, forget } = start([baselineOf("old")]);
  change("a");
  await clock.advance(1000);
  forget("a");
  forget("old");
  await clock.advance(1000);
  assert.deepEqual(store.calls, ["put a", "delete a old"]);
  assert.equal(store.rows.size, 0);
});

Deno.test("a subject that is forgotten during its write is deleted afterwards", async () => {
  const { store, clock, change, forget } = start();
  const gate = Promise.withResolvers<void>();
  store.gate = gate.promise;
  change("a");
  await clock.advance(1000);
  forget("a");
  gate.resolve();
  await clock.advance(1000);
  assert.deepEqual(store.calls, ["put a", "delete a"]);
  assert.equal(store.rows.size, 0);
});

Deno.test("a subject that returns before its deletion stays in the store", async () => {
  const { store, clock, change, forget } = start([baselineOf("a")]);
  forget("a");
  change("a", { hosts: ["db01"] });
  await clock.advance(1000);
  assert.deepEqual(store.calls, ["put a"]);
  assert.deepEqual(store.rows.get("a")?.hosts, ["db01"]);
});

Deno.test("a subject that is loaded again before its deletion stays in the store", async () => {
  const { store, clock, writer, live, forget } = start([baselineOf("a")]);
  forget("a");
  writer.loaded([baselineOf("a")]);
  live.set("a", baselineOf("a"));
  await clock.advance(60_000);
  assert.deepEqual([...store.rows.keys()], ["a"]);
});

Deno.test("a subject that returns during its deletion is written again", async () => {
  const { store, clock, change, forget } = start([baselineOf("a")]);
  const gate = Promise.withResolvers<void>();
  store.gate = gate.promise;
  forget("a");
  await clock.advance(1000);
  change("a");
  gate.resolve();
  await clock.advance(1000);
  assert.deepEqual(store.calls, ["delete a", "put a"]);
  assert.equal(store.rows.size, 1);
});

Deno.test("failed writes are retried with increasing pauses", async () => {
  const { store, clock, counts, change } = start();
  store.failure = failure;
  change("a");
  await clock.advance(1000 + 2000 + 4000);
  assert.equal(store.calls.length, 3);
  assert.deepEqual(counts, { errors: 3, warnings: 3 });
  await clock.advance(3_600_000);
  assert.ok(store.calls.length < 70, `${store.calls.length} tries in an hour`);
  store.failure = undefined;
  await clock.advance(60_000);
  assert.equal(store.rows.size, 1);
  assert.equal(clock.sleeping, 0);
});

Deno.test("a baseline that the store always rejects does not delay the others", async () => {
  const { store, clock, change, live } = start();
  const put = store.putBaseline.bind(store);
  store.putBaseline = (baseline) => baseline.subject === "bad" ? Promise.reject(failure) : put(baseline);
  change("bad");
  for (let i = 0; i < 100; i++) change(`good${i}`);
  await clock.advance(10_000);
  assert.equal(store.rows.size, 100);
  assert.equal(live.size, 101);
});

Deno.test("the queue for a hanging store is limited to the remembered subjects", async () => {
  const { store, clock, writer, change, forget } = start();
  const gate = Promise.withResolvers<void>();
  store.gate = gate.promise;
  for (let i = 0; i < 10_000; i++) {
    change(String(i));
    if (i >= 10) forget(String(i - 10));
    if (i === 5000) await clock.advance(1000);
    assert.ok(writer.waiting <= 11);
  }
  gate.resolve();
  await writer.close();
  assert.deepEqual([...store.rows.keys()].toSorted(), Array.from({ length: 10 }, (_, i) => String(9990 + i)));
});

Deno.test("seen() writes the baseline if the stored time is too old or in the future", async () => {
  const { store, clock, writer, live } = start([baselineOf("a"), baselineOf("b", { lastSeen: 9000 })]);
  live.set("a", baselineOf("a", { lastSeen: 1000 }));
  for (const now of [1, 500, 999]) writer.seen("a", now);
  writer.seen("nobody", 5000);
  assert.equal(writer.waiting, 0);
  writer.seen("a", 1000);
  writer.seen("b", 8000);
  await clock.advance(1000);
  assert.deepEqual(store.calls, ["put a", "put b"]);
  writer.seen("a", 1999);
  assert.equal(writer.waiting, 0);
});

Deno.test("close() writes all waiting baselines immediately", async () => {
  const { store, clock, writer, change } = start();
  for (let i = 0; i < 1000; i++) change(String(i));
  await writer.close();
  assert.equal(store.rows.size, 1000);
  assert.equal(clock.sleeping, 0);
  change("late");
  assert.equal(clock.sleeping, 0);
});

Deno.test("close() stops after one failed write and logs the failure", async () => {
  const { store, writer, counts, change } = start();
  store.failure = failure;
  for (let i = 0; i < 1000; i++) change(String(i));
  await writer.close();
  assert.equal(store.calls.length, 1);
  assert.deepEqual(counts, { errors: 1, warnings: 2 });
});

Deno.test("close() resolves if there are no changes", async () => {
  await start().writer.close();
});

Deno.test("record() counts rejected requests towards the limit", () => {
  const window = new RateWindow(1);
  const found = Array.from({ length: 200 }, (_, second) => window.record(second * 1000).exceeded);
  assert.deepEqual(found.map((exceeded, second) => exceeded === second > 0), found.map(() => true));
});

/** Stores all requests and counts the requests of the last minute. */
class EveryRequest {
  readonly #limit: number;
  readonly #times: number[] = [];

  constructor(limit: number) {
    this.#limit = limit;
  }

  wouldExceed(now: number): boolean {
    return this.#times.filter((time) => time > now - WINDOW_MS).length + 1 > this.#limit;
  }

  record(now: number): boolean {
    const exceeded = this.wouldExceed(now);
    this.#times.push(now);
    return exceeded;
  }
}

const gaps = fc.array(fc.oneof(fc.nat(3), fc.nat(5000), fc.constantFrom(0, 30_000, 59_999, 60_000, 60_001)), {
  maxLength: 120,
  size: "max",
});

Deno.test("record() returns the same result as a list of every request (property)", () => {
  fc.assert(
    fc.property(
      gaps,
      fc.oneof(fc.integer({ min: 1, max: 12 }), fc.constantFrom(100, 600)),
      (steps, limit) => {
        const [window, every] = [new RateWindow(limit), new EveryRequest(limit)];
        let now = 1_767_323_045_000;
        for (const step of steps) {
          now += step;
          const { exceeded, retryAfterMs } = window.record(now);
          assert.equal(exceeded, every.record(now));
          assert.ok(window.size <= limit);
          if (!exceeded) assert.equal(retryAfterMs, 0);
          else {
            assert.equal(every.wouldExceed(now + retryAfterMs), false, "may come back then");
            assert.equal(every.wouldExceed(now + retryAfterMs - 1), true, "and not before");
          }
        }
      },
    ),
    { numRuns: 300 },
  );
});

Deno.test("record() with a large limit is at most 100 ms stricter and never laxer (property)", () => {
  fc.assert(
    fc.property(gaps, fc.integer({ min: 601, max: 640 }), (steps, limit) => {
      const [window, every] = [new RateWindow(limit), new EveryRequest(limit)];
      let now = 1_767_323_045_000;
      for (let i = 0; i < 590; i++) [window, every].forEach((each) => each.record(now));
      const early: number[] = Array.from({ length: 590 }, () => now);
      for (const step of steps) {
        now += step;
        const { exceeded } = window.record(now);
        if (every.record(now)) assert.equal(exceeded, true);
        early.push(now);
        const count = early.filter((time) => time > now - WINDOW_MS - 100).length;
        if (exceeded) assert.ok(count > limit);
      }
    }),
    { numRuns: 100 },
  );
});

Deno.test("record() with a large limit counts each request for a whole minute", () => {
  for (const offset of [0, 1, 50, 99]) {
    const window = new RateWindow(601);
    for (let i = 0; i < 601; i++) assert.equal(window.record(offset).exceeded, false);
    assert.equal(window.record(offset + 59_999).exceeded, true);
  }
});

Deno.test.each([{ limit: 1 }, { limit: 60 }, { limit: 600 }, { limit: 601 }, { limit: 1_000_000 }])(
  "record() keeps at most 602 moments at a limit of $limit under any load",
  ({ limit }) => {
    const window = new RateWindow(limit);
    let most = 0;
    for (let i = 0; i < 100_000; i++) {
      window.record(i * 3);
      most = Math.max(most, window.size);
    }
    assert.ok(most <= Math.min(limit, 602), `${most} moments`);
  },
);
