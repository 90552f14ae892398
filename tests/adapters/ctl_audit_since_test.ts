import assert from "node:assert/strict";
import { nthLog } from "@gateway/shared/audit";
import { LogFolder, SEED } from "./audit_fixture.ts";
import { run, start } from "./ctl_fixture.ts";
import { poll } from "../stage/poll.ts";

/** A log of three records, verified once with a file that remembers its head. */
class Remembered extends LogFolder {
  static async create(...flags: readonly string[]): Promise<Remembered> {
    const log = new Remembered();
    await Deno.writeFile(`${log.folder}/seed`, SEED);
    await log.write("one", "two", "three");
    const { out, exit } = await log.verify(...flags);
    assert.match(out, /"[^"]*\/head" created/);
    assert.equal(exit, 0);
    return log;
  }

  verify(...flags: readonly string[]) {
    return run(
      this.folder,
      "audit",
      "verify",
      "--log",
      "audit.log",
      "--key",
      "seed",
      "--since",
      "head",
      ...flags,
    );
  }

  head(): string {
    return Deno.readTextFileSync(`${this.folder}/head`);
  }

  change(edit: (text: string) => string): void {
    Deno.writeTextFileSync(this.path, edit(Deno.readTextFileSync(this.path)));
  }

  rotate(): void {
    Deno.renameSync(this.path, `${this.path}.20260102T030405Z`);
  }
}

Deno.test.each<{ name: string; change: (log: Remembered) => Promise<void> | void; after: number }>([
  { name: "is as it was", change: () => {}, after: 0 },
  { name: "has grown", change: (log) => log.write("four", "five"), after: 2 },
  {
    name: "has new records in a new file",
    async change(log) {
      log.rotate();
      await log.write("four");
    },
    after: 1,
  },
  { name: "was rotated and has no record since", change: (log) => log.rotate(), after: 0 },
])("audit verify --since passes a log that $name and stores its new head", async ({ change, after }) => {
  await using log = await Remembered.create();
  await change(log);
  const { out, exit } = await log.verify();
  assert.equal(exit, 0, out);
  assert.match(out, new RegExp(`^since .*\\(head seq 3, .*; ${after} new entries$`, "m"));
  assert.match(out, /^not proved: records that were added after the remembered head and removed/m);
  const [, head] = /^head: .*SHA-256 (\w+)$/m.exec(out) ?? [];
  assert.equal(JSON.parse(log.head()).heads[0].hash, head);
  assert.deepEqual(log.names().filter((name) => name.startsWith(".")), [], "nothing is left of writing it");
});

Deno.test.each<{ name: string; change: (log: Remembered) => Promise<void> | void }>([
  { name: "was emptied", change: (log) => log.change(() => "") },
  { name: "was cut", change: (log) => log.change((text) => text.replace(/.*"three".*\n/, "")) },
  {
    name: "was begun anew and signed with the service's key",
    async change(log) {
      Deno.removeSync(log.path);
      await log.write("one", "two", "three", "four");
    },
  },
  {
    name: "was truncated and continued with the service's key",
    async change(log) {
      log.change((text) => text.replace(/.*"three".*\n/, ""));
      await log.write("other", "four");
    },
  },
  {
    name: "has lost the rotated file with the stored head",
    async change(log) {
      log.rotate();
      await log.write("four");
      Deno.removeSync(`${log.path}.20260102T030405Z`);
    },
  },
])("audit verify --since rejects a log that $name and keeps the stored head", async ({ name, change }) => {
  await using log = await Remembered.create();
  const before = log.head();
  // Creates a different log with the same records.
  if (name.includes("anew")) log.now += 1000;
  await change(log);
  const { out, exit } = await log.verify();
  assert.match(out, /^ERROR: audit\.log no longer contains its head of .* \(seq 3, SHA-256 \w+\)/m);
  assert.match(out, /^FAIL: .* 1 error\(s\) found\n"[^"]*\/head" was not changed$/m);
  assert.deepEqual([exit, log.head()], [1, before]);
  const json = JSON.parse((await log.verify("--json")).out);
  assert.deepEqual([json.ok, json.since.contained], [false, false]);
});

Deno.test("audit verify --since stores an empty log's head, and later records begin the chain", async () => {
  await using log = await Remembered.create();
  await Deno.remove(`${log.folder}/head`);
  log.change(() => "");
  await log.verify();
  assert.equal(JSON.parse(log.head()).heads[0].hash, "");
  await log.write("one");
  assert.equal((await log.verify()).exit, 0);
  await Deno.remove(`${log.folder}/head`);
  log.change(() => "");
  await log.verify();
  await log.write("one", "two");
  log.change((text) => text.replace(/.*\n/, ""));
  assert.match((await log.verify()).out, /prev_hash mismatch: not the beginning of a log/);
});

Deno.test("audit verify --since stores no head of a log that is damaged", async () => {
  await using log = await Remembered.create();
  const before = log.head();
  await log.write("four");
  log.change((text) => text.replace('"two"', '"six"'));
  assert.equal((await log.verify()).exit, 1);
  assert.equal(log.head(), before);
  await Deno.remove(`${log.folder}/head`);
  const { out } = await log.verify();
  assert.match(out, /"[^"]*\/head" was not written$/m);
  assert.ok(!log.names().includes("head"));
});

Deno.test.each([
  { name: "another file", text: "{}" },
  { name: "text", text: "what is this" },
  { name: "no head at all", text: '{"heads":[]}' },
])("audit verify --since does not overwrite $name", async ({ text }) => {
  await using log = await Remembered.create();
  await Deno.writeTextFile(`${log.folder}/head`, text);
  const { err, exit } = await log.verify();
  assert.match(err, /Cannot read remembered heads ".*": expected a file of audit verify --since/);
  assert.deepEqual([exit, log.head()], [1, text]);
});

Deno.test("audit verify --since does not accept the head of one log for another", async () => {
  await using log = await Remembered.create();
  Deno.renameSync(log.path, `${log.folder}/other.log`);
  const result = await run(log.folder, "audit", "verify", "--log", "other.log", "--since", "head");
  assert.match(
    result.out,
    /ERROR: remembered log audit\.log was not checked: it is another log/,
  );
  assert.equal(result.exit, 1);
});

Deno.test("audit verify --set verifies all logs, with --since also each stored head", async () => {
  await using log = await Remembered.create("--set");
  for (const number of [2, 10]) {
    const other = await log.open({ path: nthLog(log.path, number) });
    await other.append({ outcome: "one" });
    await other.close();
  }
  const { out, exit } = await log.verify("--set");
  assert.deepEqual(out.match(/^\S+: OK: \d+ entries/gm), [
    "audit.log: OK: 3 entries",
    "audit-2.log: OK: 1 entries",
    "audit-10.log: OK: 1 entries",
  ]);
  assert.equal(exit, 0);
  assert.match(
    (await log.verify()).out,
    /remembered log audit-2\.log was not checked: .*--set is missing/,
  );
  Deno.removeSync(`${log.folder}/audit-2.log`);
  const gone = await log.verify("--set");
  assert.match(gone.out, /^ERROR: remembered log audit-2\.log was not checked: it is missing$/m);
  assert.equal(gone.exit, 1);
  const { logs, ...json } = JSON.parse((await log.verify("--set", "--json")).out);
  assert.deepEqual(json, { ok: false, gone: ["audit-2.log"] });
  assert.deepEqual(logs.map((each: { log: string; ok: boolean }) => [each.log, each.ok]), [
    ["audit.log", true],
    ["audit-10.log", true],
  ]);
});

const HEADING = /^TIME +SEQ +CALLER +HOST +OUTCOME +SERIAL +DETAIL$/;

Deno.test("audit tail prints the last records and each new one, also after a rotation", async () => {
  await using log = new LogFolder();
  await log.write("one", "two", "three");
  const { result, stop } = start(log.folder, "audit", "tail", "--log", "audit.log", "-n", "2");
  await poll(() => result.out.includes("three"), { what: "the last records" });
  const writer = await log.open({ maxFileBytes: 1 });
  await writer.append({ outcome: "four", err: "x\x1b[2Jy" });
  await writer.append({ outcome: "five" });
  await writer.close();
  await poll(() => result.out.includes("five"), { what: "the new records" });
  assert.equal(await stop(), 0);
  const [heading = "", ...rows] = result.out.trimEnd().split("\n");
  assert.match(heading, HEADING);
  assert.deepEqual(rows.map((row) => row.split(/ +/)[4]), ["two", "three", "four", "five"]);
  assert.match(result.out, /\[err: x\\x1b\[2Jy\]/);
  assert.match(result.out, /^(?:\P{C}|\n)*$/u);
  assert.equal(result.err, "");
});

Deno.test("audit tail --json prints only records, and waits for a log that does not exist yet", async () => {
  await using log = new LogFolder();
  const { result, stop } = start(log.folder, "--json", "audit", "tail", "--log", "audit.log");
  await poll(() => result.err !== "", { what: "the note" });
  await Deno.writeTextFile(log.path, "\x1b[2J\n");
  await poll(() => result.err.includes("malformed"), { what: "the malformed line" });
  await Deno.remove(log.path);
  await log.write("one");
  await poll(() => result.out !== "", { what: "the record" });
  assert.equal(await stop(), 0);
  assert.equal(JSON.parse(result.out).outcome, "one");
  assert.equal(result.err, "waiting for audit.log\nmalformed line skipped; see broker-ctl audit verify\n");
});

Deno.test.each<{ name: string; flags: string[]; error: RegExp }>([
  { name: "an invalid count", flags: ["--log", "x", "-n", "many"], error: /number from 0/ },
  { name: "a count below 0", flags: ["--log", "x", "--lines=-1"], error: /number from 0/ },
  { name: "a limit", flags: ["--log", "x", "--limit", "1"], error: /Unknown option '--limit'/ },
])("audit tail rejects $name", async ({ flags, error }) => {
  const { out, err, exit } = await run("/", "audit", "tail", ...flags);
  assert.match(err, error);
  assert.deepEqual([out, exit], ["", 2]);
});

Deno.test("audit tail --set prints new records of all processes, also of later ones", async () => {
  await using log = new LogFolder();
  await log.write("one", "two");
  const second = await log.open({ path: nthLog(log.path, 2) });
  await second.append({ outcome: "three" });
  const { result, stop } = start(log.folder, "audit", "tail", "--set", "--log", "audit.log", "-n", "1");
  await poll(() => result.out.includes("three"), { what: "the last record of each" });
  const third = await log.open({ path: nthLog(log.path, 3) });
  await third.append({ outcome: "four" });
  await second.append({ outcome: "five" });
  await poll(() => ["four", "five"].every((word) => result.out.includes(word)), { what: "the new records" });
  await Promise.all([second.close(), third.close()]);
  assert.equal(await stop(), 0);
  assert.deepEqual(result.out.match(/\b(?:one|two|three|four|five)\b/g)?.toSorted(), [
    "five",
    "four",
    "three",
    "two",
  ]);
});

const PIPE = /Cannot open (?:audit log )?".*": it is a pipe, not a file; remove it/;

async function createPipe(log: LogFolder, name: string): Promise<void> {
  assert.equal((await new Deno.Command("mkfifo", { args: [`${log.folder}/${name}`] }).output()).code, 0);
}

// All accounts that can start a stdio broker write to one directory, and root reads it.
Deno.test.each([
  { name: "audit repair, of a lock", pipe: "audit.log.lock", flags: ["repair", "--log", "audit.log"] },
  { name: "audit repair, of a log", pipe: "audit-2.log", flags: ["repair", "--log", "audit-2.log"] },
  { name: "audit verify", pipe: "audit-2.log", flags: ["verify", "--log", "audit.log", "--set"] },
  { name: "audit show", pipe: "audit-2.log", flags: ["show", "--log", "audit.log", "--set"] },
  { name: "audit tail", pipe: "audit-2.log", flags: ["tail", "--log", "audit.log", "--set"] },
])("$name fails immediately on a named pipe", async ({ pipe, flags }) => {
  await using log = new LogFolder();
  await log.write("one");
  await Deno.remove(`${log.path}.lock`);
  await createPipe(log, pipe);
  const { err, exit } = await run(log.folder, "audit", ...flags);
  assert.match(err, PIPE);
  assert.notEqual(exit, 0);
});

Deno.test("opening a log fails if its lock file is a named pipe", async () => {
  await using log = new LogFolder();
  await createPipe(log, "audit.log.lock");
  await assert.rejects(log.open(), PIPE);
});
