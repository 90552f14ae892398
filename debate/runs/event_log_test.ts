import { FakeClock } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import { EventLog } from "./event_log.ts";

const KEPT = "agent_completed";
const EPHEMERAL = "agent_delta";

function logOf(types: readonly string[], clock = new FakeClock()): EventLog {
  const log = new EventLog(clock);
  for (const [index, type] of types.entries()) log.append({ type, json: `{"n":${index}}` });
  return log;
}

function readAll(log: EventLog, from = 0): string {
  let text = "";
  for (let bytes = log.read(from); bytes !== undefined; bytes = log.read(from)) {
    from += bytes.length;
    text += new TextDecoder().decode(bytes);
  }
  return text;
}

function idsOf(text: string): readonly (string | undefined)[] {
  return [...text.matchAll(/^id: (.*)$/gm)].map(([, id]) => id);
}

Deno.test("an event is a frame with id, event and data", () => {
  assert.equal(readAll(logOf([KEPT])), 'id: 1\nevent: message\ndata: {"n":0}\n\n');
});

Deno.test("ids count what is kept; what is not has a number below", () => {
  const log = logOf([EPHEMERAL, KEPT, EPHEMERAL, EPHEMERAL, KEPT]);
  assert.deepEqual(idsOf(readAll(log)), ["0.1", "1", "1.1", "1.2", "2"]);
});

Deno.test.each([
  { name: "nothing", id: null, next: "0.1" },
  { name: "an ephemeral one before all", id: "0.1", next: "1" },
  { name: "a kept one", id: "1", next: "1.1" },
  { name: "an ephemeral one", id: "1.1", next: "1.2" },
  { name: "the last ephemeral one", id: "1.2", next: "2" },
  { name: "one that the record does not have", id: "1.9", next: "2" },
  { name: "the last", id: "2", next: undefined },
  { name: "one that never was", id: "77", next: "0.1" },
  { name: "no number", id: "abc", next: "0.1" },
  { name: "a negative one", id: "-1", next: "0.1" },
])("placeAfter() $name goes on with $next", ({ id, next }) => {
  const log = logOf([EPHEMERAL, KEPT, EPHEMERAL, EPHEMERAL, KEPT]);
  assert.equal(idsOf(readAll(log, log.placeAfter(id)))[0], next);
});

Deno.test("an id of a live run means the same in its record", () => {
  const record = logOf([KEPT, KEPT]);
  assert.equal(idsOf(readAll(record, record.placeAfter("1.2")))[0], "2");
});

Deno.test("what is read stays as it was while more is written, over pages and with long events", () => {
  const log = new EventLog(new FakeClock());
  const lengths = [10, 5000, 70_000, 3, 65_000, 200_000, 1];
  for (const length of lengths) log.append({ type: KEPT, json: JSON.stringify("x".repeat(length)) });
  const before = readAll(log);
  for (const length of lengths) log.append({ type: KEPT, json: JSON.stringify("y".repeat(length)) });
  const after = readAll(log);
  assert.ok(after.startsWith(before));
  assert.equal(new TextEncoder().encode(after).length, log.size);
  assert.equal(idsOf(after).length, 2 * lengths.length);
});

Deno.test("listeners are told once for what comes together, and at most every 25 ms", async () => {
  const clock = new FakeClock();
  const log = new EventLog(clock);
  let told = 0;
  log.listen(() => told += 1);
  for (let count = 0; count < 10; count++) log.append({ type: KEPT, json: "{}" });
  await clock.advance(0);
  assert.equal(told, 1);
  for (let count = 0; count < 10; count++) log.append({ type: KEPT, json: "{}" });
  await clock.advance(24);
  assert.equal(told, 1);
  await clock.advance(1);
  assert.equal(told, 2);
});

Deno.test("the end is told at once, and nothing follows it", () => {
  const log = new EventLog(new FakeClock());
  let told = 0;
  const stop = log.listen(() => told += 1);
  log.end();
  log.append({ type: KEPT, json: "{}" });
  assert.deepEqual([told, log.size, log.isEnded], [1, 0, true]);
  stop();
});
