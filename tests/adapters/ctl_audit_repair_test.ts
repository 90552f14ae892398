import assert from "node:assert/strict";
import { tryLockLog } from "../../shared/audit/files.ts";
import { repairLog } from "@gateway/shared/audit";
import { LogFolder, NOW, SEED } from "./audit_fixture.ts";
import { run, words } from "./ctl_fixture.ts";

const TORN = '{"time":"2026-01-02T03:04:08Z","caller":"bro\x1b[2J';

/** A log of three records followed by `tail`, and the seed of its key. */
async function createLog(tail: string | Uint8Array<ArrayBuffer>): Promise<LogFolder> {
  const log = new LogFolder();
  await log.write("one", "two", "three");
  await Deno.writeFile(`${log.folder}/seed`, SEED);
  await Deno.writeFile(`${log.folder}/other`, new Uint8Array(32).fill(1));
  const bytes = typeof tail === "string" ? new TextEncoder().encode(tail) : tail;
  await Deno.writeFile(log.path, bytes, { append: true });
  return log;
}

const repair = (log: LogFolder, ...flags: string[]) =>
  run(log.folder, "audit", "repair", "--log", "audit.log", ...flags);

const corruptNames = (log: LogFolder) => log.names().filter((name) => name.includes(".corrupt-"));

Deno.test("audit repair without --apply prints the plan and changes nothing", async () => {
  await using log = await createLog(TORN);
  const before = await Deno.readFile(log.path);
  const kept = before.length - TORN.length;
  assert.deepEqual(await repair(log, "--key", "seed"), {
    out: [
      "kept: 3 records, the last has seq 3",
      `damaged: ${TORN.length} bytes after byte ${kept}: ${TORN.replace("\x1b", "\\x1b")}`,
      "nothing was changed; with --apply these bytes move to audit.log.corrupt-<time>",
      "",
    ].join("\n"),
    err: "",
    exit: 0,
  });
  assert.deepEqual(await Deno.readFile(log.path), before);
  assert.deepEqual(corruptNames(log), []);
  assert.deepEqual(JSON.parse((await repair(log, "--json")).out), {
    status: "torn",
    kept_records: 3,
    last_seq: 3,
    kept_bytes: kept,
    tail_bytes: TORN.length,
    preview: TORN.replace("\x1b", "\\x1b"),
  });
});

Deno.test("audit repair --apply moves the damaged tail to another file, and the log continues", async () => {
  await using log = await createLog(`${TORN}\n\0\0\n`);
  const before = await Deno.readFile(log.path);
  const { out, err, exit } = await repair(log, "--key", "seed", "--apply");
  assert.deepEqual([err, exit], ["", 0]);
  const [name = ""] = corruptNames(log);
  assert.match(name, /^audit\.log\.corrupt-\d{8}T\d{6}Z$/);
  assert.equal(
    out,
    `kept: 3 records, the last has seq 3\nrepaired: ${
      TORN.length + 4
    } bytes moved to ${log.folder}/${name}\n`,
  );
  const [kept, moved] = [await Deno.readFile(log.path), await Deno.readFile(`${log.folder}/${name}`)];
  assert.deepEqual(new Uint8Array([...kept, ...moved]), before);
  assert.equal((Deno.statSync(`${log.folder}/${name}`).mode ?? 0) & 0o777, 0o600);
  await log.write("four");
  assert.deepEqual(log.records().map(({ seq }) => seq), [1, 2, 3, 4]);
  assert.deepEqual(await log.problems(), []);
  assert.equal((await repair(log, "--apply")).out, "OK: 4 records, nothing to repair\n");
});

Deno.test.each<{ name: string; tail: string | Uint8Array<ArrayBuffer> }>([
  { name: "a torn record", tail: TORN },
  { name: "a broken line with its newline", tail: "garbage\n" },
  { name: "several of them, including empty lines", tail: "garbage\n\n{}\n\nmore" },
  { name: "JSON that is not a record", tail: '{"seq":4}\n' },
  { name: "zeros", tail: new Uint8Array(5000) },
  { name: "bytes that are not UTF-8", tail: new Uint8Array([0xff, 0xfe, 0x0a]) },
  { name: "a line that is too long", tail: `${"x".repeat(300_000)}\n` },
  { name: "more than one chunk", tail: "garbage\n".repeat(50_000) },
])("audit repair --apply removes $name, and nothing before it", async ({ tail }) => {
  await using log = await createLog("");
  const good = await Deno.readFile(log.path);
  const bytes = typeof tail === "string" ? new TextEncoder().encode(tail) : tail;
  await Deno.writeFile(log.path, bytes, { append: true });
  const plan = JSON.parse((await repair(log, "--json")).out);
  assert.deepEqual([plan.status, plan.kept_bytes, plan.tail_bytes], ["torn", good.length, bytes.length]);
  const done = JSON.parse((await repair(log, "--json", "--apply", "--key", "seed")).out);
  assert.equal(done.status, "repaired");
  assert.deepEqual(await Deno.readFile(log.path), good);
  assert.deepEqual(await Deno.readFile(done.moved_to), bytes);
});

Deno.test("audit repair prints at most 120 bytes of the tail and escapes control characters", async () => {
  await using log = await createLog(`${"ab\x9b".repeat(100)}\n`);
  const { out } = await repair(log);
  assert.match(out, /after byte \d+: (?:ab\\x9b){30}…\n/);
  assert.match(out, /^(?:\P{C}|\n)*$/u);
});

Deno.test.each<{ name: string; edit: (text: string) => string }>([
  { name: "an untouched log", edit: (text) => text },
  { name: "an empty log", edit: () => "" },
  { name: "a last record without its newline", edit: (text) => text.trimEnd() },
  { name: "empty lines", edit: (text) => `${text}\n\n` },
])("audit repair reports nothing to repair for $name", async ({ edit }) => {
  await using log = await createLog("");
  await Deno.writeTextFile(log.path, edit(await Deno.readTextFile(log.path)));
  const before = await Deno.readFile(log.path);
  for (const flags of [["--key", "seed"], ["--key", "seed", "--apply"]]) {
    const { out, exit } = await repair(log, ...flags);
    assert.match(out, /^OK: \d records, nothing to repair\n$/);
    assert.equal(exit, 0);
  }
  assert.deepEqual(await Deno.readFile(log.path), before);
});

interface RefusalRow {
  readonly name: string;
  readonly edit: (text: string) => string;
  readonly flags?: string;
  readonly reason: RegExp;
}

Deno.test.each<RefusalRow>([
  {
    name: "a malformed line before a record",
    edit: (text) => text.replace(/\n/, "\ngarbage\n"),
    reason: /line 2 is not a record, but line 3 after it is/,
  },
  {
    name: "a record appended to a torn line",
    edit: (text) => {
      const [one = "", two = "", three = ""] = text.split("\n");
      return `${one}\n{"time":"20${two}\n${three}\n`;
    },
    reason: /line 2 is not a record, but line 3 after it is/,
  },
  {
    name: "records signed with another key",
    edit: (text) => text + TORN,
    flags: "--key other",
    reason: /do not verify with this key: line 1: signature invalid/,
  },
  {
    name: "a record changed before the tail",
    edit: (text) => text.replace('"two"', '"six"') + TORN,
    flags: "--key seed",
    reason: /do not verify with this key: line 2: signature invalid/,
  },
  {
    name: "a record removed before the tail",
    edit: (text) => text.replace(/.*"two".*\n/, "") + TORN,
    flags: "--key seed",
    reason: /line 2: gap or reorder/,
  },
  {
    name: "a file that is not an audit log",
    edit: () => '{ "listen": ":9443" }\n',
    reason: /it has no record: is this the audit log\?/,
  },
])(
  "audit repair rejects $name with exit code 1 and changes nothing",
  async ({ edit, flags = "", reason }) => {
    await using log = await createLog("");
    await Deno.writeTextFile(log.path, edit(await Deno.readTextFile(log.path)));
    const before = await Deno.readFile(log.path);
    for (const apply of [[], ["--apply"]]) {
      const { out, err, exit } = await repair(log, ...words(flags), ...apply);
      assert.match(out, /^FAIL: .*; nothing was changed\n$/);
      assert.match(out, reason);
      assert.deepEqual([err, exit], ["", 1]);
    }
    const json = await repair(log, ...words(flags), "--apply", "--json");
    assert.deepEqual([JSON.parse(json.out).status, json.exit], ["refused", 1]);
    assert.deepEqual(await Deno.readFile(log.path), before);
    assert.deepEqual(corruptNames(log), []);
  },
);

Deno.test("audit repair --apply of a log with only a torn record keeps no records", async () => {
  await using log = new LogFolder();
  await Deno.writeTextFile(log.path, `${TORN}\n`);
  const { out, exit } = await repair(log, "--apply");
  assert.match(out, /^kept: no records\nrepaired: \d+ bytes/);
  assert.equal(exit, 0);
  await log.write("one");
  assert.deepEqual(await log.problems(), []);
});

Deno.test("audit repair rejects a log that a service is writing", async () => {
  await using log = await createLog(`${TORN}\n`);
  const before = await Deno.readFile(log.path);
  const service = await tryLockLog(log.path);
  for (const apply of [[], ["--apply"]]) {
    const { out, err, exit } = await repair(log, ...apply);
    assert.match(
      err,
      /^error: Cannot repair audit log .*: a service is writing it\nfix: stop the service first/,
    );
    assert.deepEqual([out, exit], ["", 1]);
  }
  service?.[Symbol.dispose]();
  assert.deepEqual(await Deno.readFile(log.path), before);
  assert.equal((await repair(log, "--apply")).exit, 0);
});

Deno.test("audit repair creates no lock file, and with --apply one that the service can open", async () => {
  await using log = await createLog(`${TORN}\n`);
  await Deno.remove(`${log.path}.lock`);
  await repair(log);
  assert.throws(() => Deno.statSync(`${log.path}.lock`), Deno.errors.NotFound);
  await repair(log, "--apply");
  const [lock, file] = [Deno.statSync(`${log.path}.lock`), Deno.statSync(log.path)];
  assert.deepEqual([lock.uid, lock.gid], [file.uid, file.gid]);
  await log.write("four");
});

Deno.test("audit repair creates no file at the target of a symlink in place of the lock", async () => {
  await using log = await createLog(`${TORN}\n`);
  const before = await Deno.readFile(log.path);
  await Deno.remove(`${log.path}.lock`);
  // An attacker who compromises the service can create such a link and an incomplete end in its directory.
  await Deno.symlink(`${log.folder}/elsewhere`, `${log.path}.lock`);
  assert.equal((await repair(log, "--apply")).exit, 1);
  assert.throws(() => Deno.lstatSync(`${log.folder}/elsewhere`), Deno.errors.NotFound);
  assert.deepEqual(await Deno.readFile(log.path), before);
});

Deno.test("repairLog() appends a number if the name for the moved tail exists", async () => {
  await using log = await createLog("first\n");
  const movedTo: string[] = [];
  for (const tail of ["", "second\n", "third\n"]) {
    await Deno.writeTextFile(log.path, tail, { append: true });
    const outcome = await repairLog({ path: log.path }, NOW);
    assert(outcome.kind === "repaired");
    movedTo.push(outcome.movedTo);
  }
  const base = `${log.path}.corrupt-20260102T030405Z`;
  assert.deepEqual(movedTo, [base, `${base}.1`, `${base}.2`]);
  assert.deepEqual(movedTo.map((path) => Deno.readTextFileSync(path)), ["first\n", "second\n", "third\n"]);
});

Deno.test.each<{ name: string; flags: string; error: RegExp; exit: number }>([
  { name: "a log that is not there", flags: "--log nowhere", error: /no such file/, exit: 1 },
  { name: "a key that is not there", flags: "--log audit.log --key x", error: /no such file/, exit: 1 },
  { name: "no log", flags: "--apply", error: /--log/, exit: 2 },
  { name: "a flag of another command", flags: "--log audit.log --all", error: /Unknown option/, exit: 2 },
])("audit repair rejects $name", async ({ flags, error, exit }) => {
  await using log = await createLog(TORN);
  const result = await run(log.folder, `audit repair ${flags}`);
  assert.match(result.err, error);
  assert.deepEqual([result.out, result.exit], ["", exit]);
  assert.deepEqual(log.names().includes("nowhere"), false);
});
