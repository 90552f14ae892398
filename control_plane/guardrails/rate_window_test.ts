import assert from "node:assert/strict";
import fc from "fast-check";
import { RateWindow, WINDOW_MS } from "./tracker.ts";

const recordAll = (window: RateWindow, times: readonly number[]) => times.map((time) => window.record(time));

Deno.test("record() exceeds with the first request beyond the limit within 60 s", () => {
  const found = recordAll(new RateWindow(2), [0, 1, 59_999]).map(({ exceeded }) => exceeded);
  assert.deepEqual(found, [false, false, true]);
});

Deno.test("record() no longer counts a request that is exactly 60 s old", () => {
  const found = recordAll(new RateWindow(2), [0, 1, 60_000]).map(({ exceeded }) => exceeded);
  assert.deepEqual(found, [false, false, false]);
});

Deno.test("record() counts refused requests: hammering does not help", () => {
  const window = new RateWindow(1);
  const found = Array.from({ length: 200 }, (_, second) => window.record(second * 1000).exceeded);
  assert.deepEqual(found.map((exceeded, second) => exceeded === second > 0), found.map(() => true));
});

Deno.test("record() says to the millisecond when a request can pass again", () => {
  const window = new RateWindow(2);
  assert.deepEqual(recordAll(window, [0, 10_000, 30_000]), [
    { exceeded: false, retryAfterMs: 0 },
    { exceeded: false, retryAfterMs: 0 },
    { exceeded: true, retryAfterMs: 40_000 },
  ]);
  assert.equal(window.record(70_000).exceeded, false);
});

/** Every request there was, and a count of those that are younger than a minute. */
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

Deno.test("record() answers as if it remembered every request", () => {
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

Deno.test("record() with a large limit is at most 100 ms stricter than that, and never laxer", () => {
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

Deno.test("record() with a large limit counts a request for a whole minute, wherever in a step it was", () => {
  for (const offset of [0, 1, 50, 99]) {
    const window = new RateWindow(601);
    for (let i = 0; i < 601; i++) assert.equal(window.record(offset).exceeded, false);
    assert.equal(window.record(offset + 59_999).exceeded, true);
  }
});

Deno.test.each([{ limit: 1 }, { limit: 60 }, { limit: 600 }, { limit: 601 }, { limit: 1_000_000 }])(
  "record() holds few moments at a limit of $limit under any flood",
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
