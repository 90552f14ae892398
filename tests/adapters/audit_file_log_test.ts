import assert from "node:assert/strict";
import { MAX_LOGS } from "@gateway/shared/audit";
import { openFreeAuditLog } from "../../shared/audit/log.ts";
import { assertRefused, LogFolder, NOW, SEED } from "./audit_fixture.ts";

Deno.test("openFileAuditLog() creates the log and its lock file with mode 0600", async () => {
  await using folder = new LogFolder();
  await folder.write("issued");
  assert.deepEqual(folder.names(), ["audit.log"]);
  assert.equal(Deno.statSync(folder.path).mode! & 0o777, 0o600);
  assert.equal(Deno.statSync(`${folder.path}.lock`).mode! & 0o777, 0o600);
  const [record] = folder.records();
  assert.equal(record?.["time"], "2026-01-02T03:04:05Z");
  assert.equal(record?.["seq"], 1);
  assert.equal(record?.["prev_hash"], "");
  assert.deepEqual(await folder.problems(), []);
});

Deno.test("openFileAuditLog() continues the chain after a restart (L1)", async () => {
  await using folder = new LogFolder();
  await folder.write("a", "b");
  await folder.write("c");
  assert.deepEqual(folder.records().map(({ seq }) => seq), [1, 2, 3]);
  assert.deepEqual(await folder.problems(), []);
});

Deno.test("openFileAuditLog() keeps the order of concurrent appends, and close() waits for them (L22)", async () => {
  await using folder = new LogFolder();
  const log = await folder.open();
  const serials = Array.from({ length: 500 }, (_, index) => BigInt(index));
  const appends = serials.map((serial) => log.append({ outcome: "issued", serial }));
  await log.close();
  await Promise.all(appends);
  assert.deepEqual(folder.records().map(({ serial }) => BigInt(serial as number)), serials);
  await assert.rejects(log.append({ outcome: "late" }), { code: "audit_unavailable" });
});

Deno.test("openFileAuditLog() redacts the command before it writes the record (L17)", async () => {
  await using folder = new LogFolder();
  const log = await folder.open({ redact: (text) => text.replace("hunter2", "MASK") });
  await log.append({ outcome: "executed", command: "mysql -phunter2", caller: "hunter2" });
  await log.close();
  assert.equal(folder.records()[0]?.["command"], "mysql -pMASK");
  assert.equal(folder.records()[0]?.["caller"], "hunter2");
});

Deno.test("openFileAuditLog() opens a log whose last record has the maximum size (L9)", async () => {
  await using folder = new LogFolder();
  const log = await folder.open({ redact: (text) => text.replaceAll("x", "[REDACTED:long-rule-name]") });
  const long = "x\x01<😀".repeat(100_000);
  await log.append({ outcome: "denied", command: long, err: long, host: long, caller: long });
  await log.close();
  await folder.write("next");
  assert.deepEqual(await folder.problems(), []);
});

Deno.test("openFileAuditLog() rejects one invalid entry and writes the next one", async () => {
  await using folder = new LogFolder();
  const log = await folder.open();
  const results = await Promise.allSettled([
    log.append({ outcome: "a" }),
    log.append({ outcome: "bad", exit_code: NaN }),
    log.append({ outcome: "b" }),
  ]);
  await log.close();
  assert.deepEqual(results.map(({ status }) => status), ["fulfilled", "rejected", "fulfilled"]);
  assert.deepEqual(folder.records().map(({ outcome }) => outcome), ["a", "b"]);
});

Deno.test("openFileAuditLog() rejects a log that another process has open, and accepts it after close()", async () => {
  await using folder = new LogFolder();
  const first = await folder.open({ maxFileBytes: 1 });
  await assertRefused(folder, /in use by another process; give each process its own audit_log$/);
  // A rotation keeps the lock.
  for (const outcome of ["a", "b"]) await first.append({ outcome });
  await assertRefused(folder, /in use by another process; give each process its own audit_log$/);
  await first.close();
  await folder.write("c");
  assert.deepEqual(await folder.problems(), []);
});

Deno.test("openFileAuditLog() releases the lock if it rejects the log", async () => {
  await using folder = new LogFolder();
  Deno.writeTextFileSync(folder.path, "not a record\n");
  await assertRefused(folder, /its last line is not a record/);
  Deno.removeSync(folder.path);
  await folder.write("a");
});

Deno.test("openFileAuditLog() rejects a log that another audit key signed", async () => {
  await using folder = new LogFolder();
  await folder.write("a");
  const opening = folder.open({ seed: new Uint8Array(32) });
  await assert.rejects(opening, /not signed by this audit key.*broker-ctl audit verify/);
});

Deno.test("openFileAuditLog() rejects a key that is too short", async () => {
  await using folder = new LogFolder();
  await assert.rejects(folder.open({ seed: SEED.subarray(1) }), { code: "invalid_config" });
});

Deno.test("openFileAuditLog() reports the path of a file that it cannot open", async () => {
  await using folder = new LogFolder();
  const path = `${folder.folder}/absent/audit.log`;
  const message = /^Cannot open audit log "[^"]*": its directory does not exist$/;
  await assert.rejects(folder.open({ path }), { name: "AppError", message });
  Deno.mkdirSync(folder.path);
  await assertRefused(folder, /^Cannot open audit log "[^"]*\/audit\.log": /);
});

Deno.test("openFileAuditLog() accepts a last record without a newline and adds the newline", async () => {
  await using folder = new LogFolder();
  await folder.write("a", "b");
  Deno.truncateSync(folder.path, Deno.statSync(folder.path).size - 1);
  await folder.write("c");
  assert.deepEqual(folder.records().map(({ outcome }) => outcome), ["a", "b", "c"]);
  assert.deepEqual(await folder.problems(), []);
  assert.deepEqual(folder.warnings, []);
});

Deno.test("openFileAuditLog() moves a torn record to a .corrupt file and keeps logging (L10)", async () => {
  await using folder = new LogFolder();
  await folder.write("kept");
  const kept = Deno.statSync(folder.path).size;
  await folder.write("torn");
  const whole = Deno.readFileSync(folder.path);
  for (const size of [kept + 1, kept + 60, whole.length - 3, whole.length - 2]) {
    Deno.writeFileSync(folder.path, whole.subarray(0, size));
    await folder.write("next");
    assert.deepEqual(folder.records().map(({ outcome }) => outcome), ["kept", "next"]);
    const corrupt = `${folder.path}.corrupt-20260102T030405Z`;
    assert.deepEqual(Deno.readFileSync(corrupt), whole.subarray(kept, size));
    assert.equal(Deno.statSync(corrupt).mode! & 0o777, 0o600);
    assert.equal(folder.warnings.length, 1);
    Deno.removeSync(corrupt);
    folder.warnings.length = 0;
  }
  assert.deepEqual(await folder.problems(), []);
});

Deno.test("openFileAuditLog() saves two torn tails of the same second in two files that verification ignores (L7)", async () => {
  await using folder = new LogFolder();
  await folder.write("a");
  for (const torn of ["{1", "{2"]) {
    Deno.writeTextFileSync(folder.path, torn, { append: true });
    await folder.write("b");
  }
  const corrupt = "audit.log.corrupt-20260102T030405Z";
  assert.deepEqual(folder.names(), ["audit.log", corrupt, `${corrupt}.1`]);
  assert.equal(Deno.readTextFileSync(`${folder.folder}/${corrupt}`), "{1");
  assert.deepEqual(await folder.problems(), []);
});

Deno.test.each([
  {
    name: "a malformed line that ends with a newline",
    damage: (text: string) => text + "{half\n",
    reason: /not a record/,
  },
  {
    name: "an altered last record",
    damage: (text: string) => text.replace('"b"', '"x"'),
    reason: /not signed/,
  },
  {
    name: "a log with a record missing before the last one",
    damage: (text: string) => text.split("\n").toSpliced(1, 1).join("\n"),
    reason: /not linked/,
  },
])("openFileAuditLog() rejects $name, prints the fix and changes nothing", async ({ damage, reason }) => {
  await using folder = new LogFolder();
  await folder.write("a", "m", "b");
  const damaged = damage(Deno.readTextFileSync(folder.path));
  Deno.writeTextFileSync(folder.path, damaged);
  await assertRefused(folder, reason);
  await assertRefused(folder, /broker-ctl audit verify --log "[^"]+" .*broker-ctl audit repair/);
  assert.equal(Deno.readTextFileSync(folder.path), damaged);
  assert.deepEqual(folder.names(), ["audit.log"]);
});

Deno.test("openFileAuditLog() rotates without overwriting files if the clock stands still (L2, L4)", async () => {
  await using folder = new LogFolder();
  const log = await folder.open({ maxFileBytes: 600 });
  for (let index = 0; index < 30; index++) await log.append({ outcome: `r${index}` });
  await log.close();
  const segments = folder.names().filter((name) => name !== "audit.log");
  assert.ok(segments.length >= 12, `${segments.length} files`);
  assert.ok(segments.includes("audit.log.20260102T030405Z"));
  assert.ok(segments.includes("audit.log.20260102T030405Z.10"));
  const all = folder.names().flatMap((name) => folder.records(name));
  assert.equal(all.length, 30);
  assert.equal(folder.records()[0]?.["seq"], 1);
  assert.deepEqual(await folder.problems(), []);
});

Deno.test.each([
  { name: "is absent", active: undefined },
  { name: "is empty", active: "" },
  { name: "holds a torn first record only", active: '{"time":"2026' },
])(
  "openFileAuditLog() continues the chain of the newest rotated file if the log $name (L6)",
  async ({ active }) => {
    await using folder = new LogFolder();
    const log = await folder.open({ maxFileBytes: 300 });
    for (const outcome of ["a", "b", "c"]) await log.append({ outcome });
    await log.close();
    folder.now = NOW + 1000;
    Deno.renameSync(folder.path, `${folder.path}.20260102T030406Z`);
    if (active !== undefined) Deno.writeTextFileSync(folder.path, active);
    await folder.write("d");
    assert.equal(folder.records()[0]?.["seq"], 1);
    assert.deepEqual(await folder.problems(), []);
  },
);

Deno.test("openFileAuditLog() recovers from a torn last record in a rotated file", async () => {
  await using folder = new LogFolder();
  await folder.write("a");
  const rotated = `${folder.path}.20260102T030405Z`;
  Deno.renameSync(folder.path, rotated);
  Deno.writeTextFileSync(rotated, '{"time":"2026', { append: true });
  await folder.write("b");
  assert.equal(folder.warnings.length, 1);
  assert.deepEqual(await folder.problems(), []);
});

Deno.test("openFreeAuditLog() opens the first log that no other process uses and continues its chain", async () => {
  await using folder = new LogFolder();
  const open = () => openFreeAuditLog({ ...folder.options(), path: folder.path });
  const opened = [await open(), await open(), await open()];
  const names = (all: typeof opened) => all.map(({ path }) => path.slice(folder.folder.length + 1));
  assert.deepEqual(names(opened), ["audit.log", "audit-2.log", "audit-3.log"]);
  for (const { log } of opened) await log.append({ outcome: "a" });
  await opened[1]?.log.close();
  const again = await open();
  assert.deepEqual(names([again]), ["audit-2.log"]);
  await again.log.append({ outcome: "b" });
  for (const { log } of [...opened, again]) await log.close();
  const records = folder.records("audit-2.log").map(({ outcome, seq }) => `${outcome} ${seq}`);
  assert.deepEqual(records, ["a 1", "b 2"]);
});

Deno.test("openFreeAuditLog() skips only logs that are in use and fails on a damaged log", async () => {
  await using folder = new LogFolder();
  const open = () => openFreeAuditLog({ ...folder.options(), path: folder.path });
  Deno.writeTextFileSync(folder.path, "not a record\n");
  await assert.rejects(open(), { code: "invalid_config", message: /audit\.log" .*audit repair/ });
  Deno.removeSync(folder.path);
  const { log } = await open();
  Deno.writeTextFileSync(`${folder.folder}/audit-2.log`, "not a record\n");
  await assert.rejects(open(), { code: "invalid_config", message: /audit-2\.log"/ });
  await log.close();
});

Deno.test("openFreeAuditLog() fails if all 64 logs of the set are in use", async () => {
  await using folder = new LogFolder();
  await using held = new AsyncDisposableStack();
  const open = () => openFreeAuditLog({ ...folder.options(), path: folder.path });
  for (let number = 1; number <= MAX_LOGS; number++) {
    const { log } = await open();
    held.defer(() => log.close());
  }
  await assert.rejects(open(), {
    code: "invalid_config",
    message: /audit\.log": it and 63 further ones are in use by other processes$/,
  });
});
