import assert from "node:assert/strict";
import { LogFolder, SEED } from "./audit_fixture.ts";
import { runUntilKilled } from "./killed_writer.ts";
import { diskTest, TinyDisk } from "./tiny_disk.ts";
import { createAuditKey, verifyAll, verifyFile } from "@gateway/shared/audit";

const MODULE = new URL("audit_writer.ts", import.meta.url).href;

Deno.test("after kill -9, the log contains every acknowledged record and the chain continues", async () => {
  await using folder = new LogFolder();
  const acknowledged: string[] = [];
  for (const [round, count] of [1, 40, 333, 1000, 77, 512].entries()) {
    const args = [folder.path, String((round + 1) * 1_000_000), "1000000"];
    acknowledged.push(...await runUntilKilled({ module: MODULE, path: folder.folder, args }, count));
  }
  await folder.write("the last");
  assert.deepEqual(await folder.problems(), []);
  const logs = folder.names().filter((name) => !name.includes(".corrupt-"));
  assert.ok(logs.length > 1, "the writers have rotated the log");
  const kept = new Set(logs.flatMap((name) => folder.records(name)).map(({ serial }) => String(serial)));
  assert.ok(acknowledged.length > 1900);
  assert.deepEqual(acknowledged.filter((serial) => !kept.has(serial)), []);
});

const NOT_ROTATED = "audit log rotation failed, the current file keeps growing";

/** Uses up all free inodes of a disk. Returns the files that hold them. */
function takeNames(folder: string): readonly string[] {
  const fillers: string[] = [];
  try {
    while (true) {
      Deno.writeTextFileSync(`${folder}/filler${fillers.length}`, "");
      fillers.push(`${folder}/filler${fillers.length}`);
    }
  } catch (error) {
    assert.match(String(error), /No space left/);
  }
  return fillers;
}

diskTest(
  "a log whose successor can't be made continues in the open file, and rotates later (L20)",
  async () => {
    await using disk = await TinyDisk.mount("size=1m,nr_inodes=6");
    const folder = new LogFolder(disk.folder);
    const log = await folder.open({ maxFileBytes: 300 });
    await log.append({ outcome: "a" });
    const fillers = takeNames(disk.folder);
    for (const outcome of ["b", "c", "d"]) await log.append({ outcome });
    assert.deepEqual(folder.warnings, Array(2).fill(NOT_ROTATED));
    const rotated = "audit.log.20260102T030405Z";
    assert.deepEqual(folder.records(rotated).map(({ outcome }) => outcome), ["a", "b", "c", "d"]);
    assert.deepEqual(await folder.problems(), []);
    for (const filler of fillers) Deno.removeSync(filler);
    await log.append({ outcome: "e" });
    await log.close();
    assert.deepEqual(folder.names(), ["audit.log", rotated]);
    assert.deepEqual(folder.records().map(({ outcome, seq }) => [outcome, seq]), [["e", 1]]);
    assert.deepEqual(await folder.problems(), []);
  },
);

diskTest("a log takes no pipe and no file of another user for its successor", async () => {
  await using disk = await TinyDisk.mount("size=1m,nr_inodes=6");
  const folder = new LogFolder(disk.folder);
  const log = await folder.open({ maxFileBytes: 300 });
  await log.append({ outcome: "a" });
  const [filler = "", ...fillers] = takeNames(disk.folder);
  for (const outcome of ["b", "c"]) await log.append({ outcome });
  // The log is already renamed, and its path is free in a directory that others can write to.
  Deno.removeSync(filler);
  assert.ok((await new Deno.Command("mkfifo", { args: [folder.path] }).output()).success);
  await log.append({ outcome: "d" });
  Deno.removeSync(folder.path);
  Deno.writeTextFileSync(folder.path, "");
  Deno.chownSync(folder.path, 1234, 1234);
  await log.append({ outcome: "e" });
  assert.equal(Deno.statSync(folder.path).size, 0);
  Deno.removeSync(folder.path);
  for (const path of fillers) Deno.removeSync(path);
  await log.append({ outcome: "f" });
  await log.close();
  assert.deepEqual(folder.warnings, Array(3).fill(NOT_ROTATED));
  assert.deepEqual(folder.records().map(({ outcome, seq }) => [outcome, seq]), [["f", 1]]);
  assert.deepEqual(await folder.problems(), []);
});

/** A log with a dozen rotated files of the same second. */
async function rotated(): Promise<LogFolder> {
  const folder = new LogFolder();
  const log = await folder.open({ maxFileBytes: 400 });
  for (let index = 0; index < 26; index++) await log.append({ outcome: `r${index}` });
  await log.close();
  return folder;
}

const SECOND = "audit.log.20260102T030405Z";

Deno.test("verifyAll() follows the chain through all files in numeric order (L5)", async () => {
  await using folder = await rotated();
  assert.ok(folder.names().includes(`${SECOND}.11`));
  const result = await verifyAll({ path: folder.path, onProblem: () => assert.fail() });
  const { hash, ...head } = result.head;
  assert.match(hash, /^[0-9a-f]{64}$/);
  assert.deepEqual(head, { seq: 2n });
  assert.deepEqual([result.entries, result.problems, result.isFromBeginning], [26, 0, true]);
});

Deno.test.each([
  { name: "a rotated file is gone (L3)", file: `${SECOND}.4`, problem: `${SECOND}.5:1 prev_hash mismatch` },
  { name: "the oldest file is gone (L3)", file: SECOND, problem: `${SECOND}.1:1 prev_hash mismatch` },
])("verifyAll() detects that $name", async ({ file, problem }) => {
  await using folder = await rotated();
  Deno.removeSync(`${folder.folder}/${file}`);
  const problems = await folder.problems();
  assert.equal(problems.length, 1);
  assert.ok(problems[0]?.startsWith(problem), `${problems[0]}`);
});

Deno.test("verifyAll() detects a record removed from the end of a rotated file", async () => {
  await using folder = await rotated();
  const path = `${folder.folder}/${SECOND}.3`;
  const lines = Deno.readTextFileSync(path).split("\n");
  Deno.writeTextFileSync(path, lines.slice(0, -2).map((line) => `${line}\n`).join(""));
  assert.deepEqual((await folder.problems()).map((problem) => problem.split(":")[0]), [`${SECOND}.4`]);
});

Deno.test("verifyAll() ignores files that are not part of the log (L7)", async () => {
  await using folder = await rotated();
  for (const name of ["corrupt-20260102T030405Z", "bak", "lock"]) {
    Deno.writeTextFileSync(`${folder.path}.${name}`, "{torn");
  }
  assert.deepEqual(await folder.problems(), []);
});

Deno.test("verifyAll() accepts rotated files without an active log, as between two steps of a rotation", async () => {
  await using folder = await rotated();
  Deno.renameSync(folder.path, `${folder.folder}/${SECOND}.99`);
  assert.deepEqual(await folder.problems(), []);
});

Deno.test("verifyFile() verifies one rotated file, not its link to the previous one", async () => {
  await using folder = await rotated();
  const { publicKey } = createAuditKey(SEED);
  const path = `${folder.folder}/${SECOND}.2`;
  const result = await verifyFile({ path, publicKey, onProblem: () => assert.fail() });
  assert.deepEqual([result.entries, result.problems, result.isFromBeginning], [2, 0, false]);
});

Deno.test("verifyFile() reports file, line and kind of a defect", async () => {
  await using folder = new LogFolder();
  await folder.write("a", "b", "c");
  Deno.writeTextFileSync(folder.path, Deno.readTextFileSync(folder.path).replace('"b"', '"x"'));
  const seen: unknown[] = [];
  const { publicKey } = createAuditKey(SEED);
  const result = await verifyFile({
    path: folder.path,
    publicKey,
    onProblem: ({ file, line, kind }) => seen.push([file, line, kind]),
  });
  assert.deepEqual(seen, [[folder.path, 2, "signature"], [folder.path, 3, "prev_hash"]]);
  assert.deepEqual([result.entries, result.problems], [3, 2]);
});

Deno.test("verifyFile() and verifyAll() fail with not_found if there is no log", async () => {
  await using folder = new LogFolder();
  const options = { path: folder.path, onProblem: () => assert.fail() };
  await assert.rejects(verifyFile(options), { code: "not_found" });
  await assert.rejects(verifyAll(options), { code: "not_found" });
  await assert.rejects(verifyAll({ ...options, path: `${folder.path}/x/audit.log` }), { code: "not_found" });
});

const FORGED = '{"outcome":"forged"}\n';
const GONE = "it was removed or moved while the service was running";
const SHORTER = "it is shorter than the records written to it";
const cut = (bytes: number) => (path: string) => Deno.truncateSync(path, Deno.statSync(path).size - bytes);
const moveBack = (path: string) => Deno.renameSync(`${path}.away`, path);

type Change = (path: string) => void;

/** Damages the log of a running service and repairs it. */
Deno.test.each<[name: string, fault: string, change: Change, mend: Change | undefined]>([
  ["moved away", GONE, (path) => Deno.renameSync(path, `${path}.away`), moveBack],
  ["removed", GONE, (path) => Deno.removeSync(path), undefined],
  [
    "replaced by a copy",
    "another file has its name",
    (path) => {
      Deno.renameSync(path, `${path}.away`);
      Deno.copyFileSync(`${path}.away`, path);
    },
    moveBack,
  ],
  ["emptied", SHORTER, (path) => Deno.truncateSync(path), undefined],
  ["cut by one byte", SHORTER, cut(1), undefined],
  [
    "written to by another process",
    "it has bytes that this process did not write",
    (path) => Deno.writeTextFileSync(path, FORGED, { append: true }),
    cut(FORGED.length),
  ],
])(
  "append() to a log that is %s fails with audit_unavailable and the cause",
  async (_name, fault, change, mend) => {
    await using folder = new LogFolder();
    const log = await folder.open();
    await log.append({ outcome: "issued" });
    log.check();
    change(folder.path);
    const after = folder.names();
    assert.throws(() => log.check(), { message: fault });
    await assert.rejects(log.append({ outcome: "issued" }), (error: Error & { readonly code?: string }) => {
      assert.deepEqual([error.code, (error.cause as Error).message], ["audit_unavailable", fault]);
      return true;
    });
    assert.deepEqual(folder.names(), after, "nothing is made in its place");
    if (mend !== undefined) {
      mend(folder.path);
      log.check();
      await log.append({ outcome: "denied" });
      assert.deepEqual(await folder.problems(), []);
    }
    await log.close();
  },
);
