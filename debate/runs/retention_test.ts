import { FakeClock } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import { HEADER } from "../testing/header.ts";
import { MemoryFolder } from "../testing/memory_folder.ts";
import { recordOf } from "./fold.ts";
import { formatRecord } from "./record.ts";
import { retain } from "./retention.ts";
import { RunStore } from "./store.ts";

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 0, 31);

function record(digit: string, ageDays: number, fields: Readonly<Record<string, unknown>> = {}) {
  const time = new Date(NOW - ageDays * DAY_MS).toISOString();
  const header = { ...HEADER, run_id: digit.repeat(32), timestamp: time, ...fields };
  const { status = "completed" } = fields;
  return [
    `${header.run_id}.json`,
    formatRecord({ ...recordOf(header, { text: "", redactions: {}, notes: [] }, []), status }),
  ] as const;
}

async function keeping(days: number, records: readonly (readonly [string, string])[]) {
  const folder = new MemoryFolder({ ...Object.fromEntries(records), "audit.jsonl": "{}" });
  const store = await RunStore.open({ folder, warn: () => {} });
  const [clock, stop, told] = [new FakeClock(NOW), new AbortController(), [] as string[]];
  const done = retain({ store, days, clock, signal: stop.signal, tell: (message) => told.push(message) });
  await clock.advance(0);
  const kept = () => [...folder.files.keys()].map((name) => name[0]).sort().join("");
  return { clock, stop, told, done, kept, folder, store };
}

Deno.test("runs that are too old are deleted at the start and every hour; the log of tool calls stays", async () => {
  const { clock, stop, told, done, kept } = await keeping(30, [
    record("1", 31),
    record("2", 29.99),
    record("3", 40, { status: "error" }),
    record("4", 40, { finished_at: new Date(NOW - DAY_MS).toISOString() }),
  ]);
  assert.equal(kept(), "24a");
  assert.deepEqual(told, ["deleted 2 runs older than 30 days"]);
  await clock.advance(DAY_MS / 24);
  assert.equal(kept(), "4a");
  stop.abort();
  await done;
});

Deno.test("without a limit, and of runs that do not say when they were, nothing is deleted", async () => {
  const all = [record("1", 4000), record("2", 4000, { timestamp: "yesterday" })];
  const unlimited = await keeping(0, all);
  await unlimited.done;
  assert.equal(unlimited.kept(), "12a");
  const { kept, stop, done, told } = await keeping(1, all);
  assert.equal(kept(), "2a");
  assert.deepEqual(told, ["deleted 1 run older than 1 day"]);
  stop.abort();
  await done;
});

Deno.test("a run in progress is kept, however long it takes", async () => {
  const { clock, store, kept, stop, done } = await keeping(1, []);
  const [, text] = record("5", 10, { status: "running" });
  await store.begin(JSON.parse(text));
  await clock.advance(DAY_MS);
  assert.equal(kept(), "5a");
  stop.abort();
  await done;
});

Deno.test("a folder that refuses is told of, and does not end the server", async () => {
  const told: string[] = [];
  const stop = new AbortController();
  const clock = new FakeClock(NOW);
  const store = { list: () => Promise.reject(new Error("gone")), expire: () => Promise.resolve(false) };
  const done = retain({ store, days: 1, clock, signal: stop.signal, tell: (message) => told.push(message) });
  await clock.advance(DAY_MS / 24);
  assert.deepEqual(told, ["cannot delete old runs: Error", "cannot delete old runs: Error"]);
  stop.abort();
  await done;
});

Deno.test("a run that cannot be deleted keeps no other one, and is told of", async () => {
  const folder = new MemoryFolder(Object.fromEntries([record("1", 31), record("2", 32), record("3", 33)]));
  const store = await RunStore.open({ folder, warn: () => {} });
  const remove = folder.remove.bind(folder);
  folder.remove = (name) =>
    name.startsWith("2") ? Promise.reject(new Deno.errors.PermissionDenied()) : remove(name);
  const [stop, told, clock] = [new AbortController(), [] as string[], new FakeClock(NOW)];
  const done = retain({ store, days: 30, clock, signal: stop.signal, tell: (message) => told.push(message) });
  await clock.advance(0);
  assert.deepEqual([...folder.files.keys()].map((name) => name[0]), ["2"]);
  assert.deepEqual(told, ["cannot delete old runs: PermissionDenied", "deleted 2 runs older than 30 days"]);
  stop.abort();
  await done;
});

Deno.test("a run that somebody is resuming or renaming is kept until they are done", async () => {
  const { clock, store, kept, stop, done } = await keeping(30, [record("6", 29.99)]);
  const work = Promise.withResolvers<void>();
  const both = [
    store.hold("6".repeat(32), () => work.promise),
    store.hold("6".repeat(32), () => work.promise),
  ];
  await clock.advance(DAY_MS);
  assert.equal(kept(), "6a");
  work.resolve();
  await Promise.all(both);
  await clock.advance(DAY_MS / 24);
  assert.equal(kept(), "a");
  stop.abort();
  await done;
});

Deno.test("an imported run is as old as its import", async () => {
  const imported_at = new Date(NOW - DAY_MS).toISOString();
  const { clock, kept, stop, done } = await keeping(2, [
    record("7", 400, { imported: true, imported_at }),
    record("8", -9999, { imported: true, imported_at }),
  ]);
  assert.equal(kept(), "78a");
  await clock.advance(2 * DAY_MS);
  assert.equal(kept(), "a");
  stop.abort();
  await done;
});
