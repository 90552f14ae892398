import assert from "node:assert/strict";
import { HEADER } from "../testing/header.ts";
import { MemoryDirectory } from "../testing/memory_directory.ts";
import { INTERRUPTED, retain, RunStore } from "./store.ts";
import { recordOf as recordOfRun } from "./fold.ts";
import { formatRecord } from "./record.ts";
import { FakeClock } from "@gateway/shared/testing";

const ID = "1".repeat(32);

function recordOf(fields: Readonly<Record<string, unknown>> = {}) {
  const header = { ...HEADER, run_id: ID, topic: "it hangs", ...fields };
  const begun = recordOfRun(header, { text: "context", redactions: {}, notes: [] }, []);
  return { ...begun, status: fields.status ?? "running" };
}

async function open(directory: MemoryDirectory) {
  const warnings: string[] = [];
  const store = await RunStore.open({ directory, warn: (message) => warnings.push(message) });
  return { store, warnings };
}

interface Listed {
  readonly id: string;
  readonly text: string;
  readonly state: string;
}

const EVENT = { type: "agent_completed", node: "skeptic_agent", content: "no" };
const TABLE = { type: "hypothesis_update", hypotheses: [{ id: "1", text: "the pool", state: "active" }] };

Deno.test("a run of a killed server becomes interrupted, with every event of its journal", async () => {
  const directory = new MemoryDirectory();
  const { store } = await open(directory);
  const journal = await store.begin(recordOf());
  for (const event of [EVENT, TABLE, { ...EVENT, content: "yes" }]) journal.add(JSON.stringify(event));
  await journal.settle();
  // The store is not closed, and the last line is incomplete.
  await directory.append(`${ID}.events.jsonl`, new TextEncoder().encode('{"type":"agent_comp'));
  await directory.write(`.${ID}.json.0123abcd`, new TextEncoder().encode("{"));
  const next = await open(directory);
  const record = JSON.parse(directory.text(`${ID}.json`));
  assert.equal(record.status, "interrupted");
  assert.equal(record.context, "context");
  assert.deepEqual(
    record.hypotheses.map(({ id, text, state }: Listed) => ({ id, text, state })),
    TABLE.hypotheses,
  );
  assert.deepEqual(record.events.slice(0, 3), [EVENT, TABLE, { ...EVENT, content: "yes" }]);
  assert.deepEqual(record.events.slice(3).map(({ type }: { type: string }) => type), [
    "error",
    "run_finished",
  ]);
  assert.equal(record.events[3].message, INTERRUPTED);
  assert.equal((await next.store.list())[0]?.status, "interrupted");
  assert.deepEqual([...directory.files.keys()], [`${ID}.json`]);
});

Deno.test("a final record stays unchanged, and its journal is removed", async () => {
  const directory = new MemoryDirectory({
    [`${ID}.json`]: formatRecord(recordOf({ status: "completed" })),
    [`${ID}.events.jsonl`]: JSON.stringify(EVENT),
  });
  const before = directory.text(`${ID}.json`);
  await open(directory);
  assert.equal(directory.text(`${ID}.json`), before);
  assert.deepEqual([...directory.files.keys()], [`${ID}.json`]);
});

Deno.test("the journal of a damaged record is kept", async () => {
  const directory = new MemoryDirectory({
    [`${ID}.json`]: '{"run_id',
    [`${ID}.events.jsonl`]: JSON.stringify(EVENT),
  });
  const { warnings } = await open(directory);
  assert.equal(directory.files.size, 2);
  assert.equal(warnings.length, 1);
});

Deno.test("a run that cannot be marked as interrupted does not stop the start", async () => {
  const directory = new MemoryDirectory({ [`${ID}.json`]: formatRecord(recordOf()) });
  directory.failing = "write";
  const { store, warnings } = await open(directory);
  assert.equal((await store.list()).length, 1);
  assert.match(warnings.join(), /cannot mark run 1+ as interrupted/);
});

Deno.test("list() reads the beginning of each file once", async () => {
  const files = Object.fromEntries(Array.from({ length: 50 }, (_each, number) => {
    const run_id = number.toString(16).padStart(32, "0");
    return [`${run_id}.json`, formatRecord(recordOf({ run_id, status: "completed" }))];
  }));
  const directory = new MemoryDirectory(files);
  const { store } = await open(directory);
  assert.equal((await store.list()).length, 50);
  assert.equal(directory.reads, 0);
  assert.equal(await store.list(), await store.list());
});

Deno.test("list() detects added and removed files", async () => {
  const directory = new MemoryDirectory();
  const { store } = await open(directory);
  assert.equal((await store.list()).length, 0);
  await directory.write(
    `${ID}.json`,
    new TextEncoder().encode(formatRecord(recordOf({ status: "completed" }))),
  );
  assert.equal((await store.list()).length, 1);
  await directory.remove(`${ID}.json`);
  assert.equal((await store.list()).length, 0);
});

Deno.test("list() truncates long topics, and reads headers of any length", async () => {
  const topic = "x".repeat(20_000);
  const directory = new MemoryDirectory({
    [`${ID}.json`]: formatRecord(recordOf({ topic, status: "completed" })),
  });
  const { store } = await open(directory);
  assert.equal((await store.list())[0]?.topic, `${"x".repeat(500)}…`);
  assert.equal((await store.read(ID))?.record.topic, topic);
});

Deno.test("a topic that looks like the end of the header does not truncate the header", async () => {
  const topic = 'a",\n  "context": "b';
  const directory = new MemoryDirectory({
    [`${ID}.json`]: formatRecord(recordOf({ topic, status: "completed" })),
  });
  const { store } = await open(directory);
  assert.deepEqual((await store.list()).map((run) => [run.topic, run.status]), [[topic, "completed"]]);
});

Deno.test("a journal write failure is logged once, and later writes continue", async () => {
  const directory = new MemoryDirectory();
  const { store, warnings } = await open(directory);
  const journal = await store.begin(recordOf());
  directory.failing = "append";
  journal.add("1");
  await journal.settle();
  journal.add("2");
  await journal.settle();
  directory.failing = undefined;
  journal.add(JSON.stringify(EVENT));
  await journal.settle();
  assert.equal(warnings.length, 1);
  assert.equal(directory.text(`${ID}.events.jsonl`), `\n${JSON.stringify(EVENT)}\n`);
});

Deno.test("a record that is truncated after its header is not in the list", async () => {
  const text = formatRecord(recordOf({ status: "completed" }));
  const directory = new MemoryDirectory({ [`${ID}.json`]: text.slice(0, -20) });
  const { store, warnings } = await open(directory);
  assert.deepEqual(await store.list(), []);
  assert.match(warnings.join(), /is damaged/);
  await assert.rejects(store.read(ID), { code: "not_found" });
});

const DAY_MS = 86_400_000;
const NOW = Date.UTC(2026, 0, 31);

function record(digit: string, ageDays: number, fields: Readonly<Record<string, unknown>> = {}) {
  const time = new Date(NOW - ageDays * DAY_MS).toISOString();
  const header = { ...HEADER, run_id: digit.repeat(32), timestamp: time, ...fields };
  const { status = "completed" } = fields;
  return [
    `${header.run_id}.json`,
    formatRecord({ ...recordOfRun(header, { text: "", redactions: {}, notes: [] }, []), status }),
  ] as const;
}

async function keeping(days: number, records: readonly (readonly [string, string])[]) {
  const directory = new MemoryDirectory({ ...Object.fromEntries(records), "audit.jsonl": "{}" });
  const store = await RunStore.open({ directory, warn: () => {} });
  const [clock, stop, told] = [new FakeClock(NOW), new AbortController(), [] as string[]];
  const done = retain({ store, days, clock, signal: stop.signal, log: (message) => told.push(message) });
  await clock.advance(0);
  const kept = () => [...directory.files.keys()].map((name) => name[0]).sort().join("");
  return { clock, stop, told, done, kept, directory, store };
}

Deno.test("expired runs are deleted at the start and every hour, without the audit log", async () => {
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

Deno.test("runs without a time are kept, and all runs if there is no age limit", async () => {
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

Deno.test("a run in progress is never deleted", async () => {
  const { clock, store, kept, stop, done } = await keeping(1, []);
  const [, text] = record("5", 10, { status: "running" });
  await store.begin(JSON.parse(text));
  await clock.advance(DAY_MS);
  assert.equal(kept(), "5a");
  stop.abort();
  await done;
});

Deno.test("a failing directory is logged and does not stop the server", async () => {
  const told: string[] = [];
  const stop = new AbortController();
  const clock = new FakeClock(NOW);
  const store = { list: () => Promise.reject(new Error("gone")), expire: () => Promise.resolve(false) };
  const done = retain({ store, days: 1, clock, signal: stop.signal, log: (message) => told.push(message) });
  await clock.advance(DAY_MS / 24);
  assert.deepEqual(told, ["cannot delete old runs: Error", "cannot delete old runs: Error"]);
  stop.abort();
  await done;
});

Deno.test("a run that cannot be deleted is logged, and other runs are deleted", async () => {
  const directory = new MemoryDirectory(
    Object.fromEntries([record("1", 31), record("2", 32), record("3", 33)]),
  );
  const store = await RunStore.open({ directory, warn: () => {} });
  const remove = directory.remove.bind(directory);
  directory.remove = (name) =>
    name.startsWith("2") ? Promise.reject(new Deno.errors.PermissionDenied()) : remove(name);
  const [stop, told, clock] = [new AbortController(), [] as string[], new FakeClock(NOW)];
  const done = retain({ store, days: 30, clock, signal: stop.signal, log: (message) => told.push(message) });
  await clock.advance(0);
  assert.deepEqual([...directory.files.keys()].map((name) => name[0]), ["2"]);
  assert.deepEqual(told, ["cannot delete old runs: PermissionDenied", "deleted 2 runs older than 30 days"]);
  stop.abort();
  await done;
});

Deno.test("a run is kept while it is resumed or renamed", async () => {
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

Deno.test("the age of an imported run counts from its import", async () => {
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
