import assert from "node:assert/strict";
import { LogFolder, SEED } from "./audit_fixture.ts";
import { runUntilKilled } from "./killed_writer.ts";
import { mayNotMount as ignore, TinyDisk } from "./tiny_disk.ts";
import { type AuditLog, createAuditKey, GENESIS, verifyAll, verifyFile } from "@gateway/shared/audit";
import { GroupCommit, type RecordStore, SegmentedFile } from "../../shared/audit/log.ts";
import { openForAppend } from "../../shared/audit/files.ts";
import { AppError } from "@gateway/shared/errors";

const MODULE = new URL("audit_writer.ts", import.meta.url).href;

Deno.test("kill -9 loses no acknowledged record, and the chain continues", async () => {
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

/** Takes all names that a disk has left; gives the files that have them. */
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

Deno.test({
  name:
    "a log whose successor can't be made continues in the open file, and rotates later (L20) (needs root)",
  ignore,
}, async () => {
  await using disk = await TinyDisk.mount("size=1m,nr_inodes=6");
  const folder = new LogFolder(disk.folder);
  const log = await folder.open({ maxFileBytes: 300 });
  await log.append({ outcome: "a" });
  const fillers = takeNames(disk.folder);
  for (const outcome of ["b", "c", "d"]) await log.append({ outcome });
  assert.deepEqual(
    folder.warnings,
    Array(2).fill("audit log rotation failed, the current file keeps growing"),
  );
  const rotated = "audit.log.20260102T030405Z";
  assert.deepEqual(folder.records(rotated).map(({ outcome }) => outcome), ["a", "b", "c", "d"]);
  assert.deepEqual(await folder.problems(), []);
  for (const filler of fillers) Deno.removeSync(filler);
  await log.append({ outcome: "e" });
  await log.close();
  assert.deepEqual(folder.names(), ["audit.log", rotated]);
  assert.deepEqual(folder.records().map(({ outcome, seq }) => [outcome, seq]), [["e", 1]]);
  assert.deepEqual(await folder.problems(), []);
});

Deno.test({
  name: "a log takes no pipe and no file of another user for its successor (needs root)",
  ignore,
}, async () => {
  await using disk = await TinyDisk.mount("size=1m,nr_inodes=6");
  const folder = new LogFolder(disk.folder);
  const log = await folder.open({ maxFileBytes: 300 });
  await log.append({ outcome: "a" });
  const [filler = "", ...fillers] = takeNames(disk.folder);
  for (const outcome of ["b", "c"]) await log.append({ outcome });
  // The log has its rotated name, and its path is free, in a directory that others can write to.
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
  assert.deepEqual(
    folder.warnings,
    Array(3).fill("audit log rotation failed, the current file keeps growing"),
  );
  assert.deepEqual(folder.records().map(({ outcome, seq }) => [outcome, seq]), [["f", 1]]);
  assert.deepEqual(await folder.problems(), []);
});

class CountedFile implements RecordStore {
  writes = 0;
  syncs = 0;
  readonly #file: SegmentedFile;

  constructor(file: SegmentedFile) {
    this.#file = file;
  }

  write(bytes: Uint8Array): Promise<void> {
    this.writes++;
    return this.#file.write(bytes);
  }

  sync(): Promise<void> {
    this.syncs++;
    return this.#file.sync();
  }

  size(): number {
    return this.#file.size();
  }

  truncate(size: number): Promise<void> {
    return this.#file.truncate(size);
  }

  rotate(): Promise<boolean> {
    return this.#file.rotate();
  }

  close(): void {
    this.#file.close();
  }
}

Deno.test("GroupCommit on a real file: sixteen appenders share writes and syncs", async () => {
  await using folder = new LogFolder();
  const clock = { now: () => 0, sleep: () => Promise.resolve() };
  const file = await openForAppend(folder.path);
  const store = new CountedFile(new SegmentedFile({ path: folder.path, file, clock }));
  const log = new GroupCommit({
    store,
    key: createAuditKey(SEED),
    head: GENESIS,
    size: 0,
    terminated: true,
    maxFileBytes: 1e9,
  });
  await Promise.all(Array.from({ length: 16 }, async () => {
    for (let index = 0; index < 20; index++) await log.append({ body: '{"outcome":"issued"', ext: "" });
  }));
  await log.close();
  assert.equal(folder.records().length, 320);
  assert.deepEqual([store.writes, store.syncs], [20, 20]);
  assert.deepEqual(await folder.problems(), []);
});

/** A log with a dozen rotated files, all of one second. */
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
  assert.deepEqual([result.entries, result.problems, result.isFromBeginning, head], [26, 0, true, {
    seq: 2n,
  }]);
});

Deno.test.each([
  { name: "a rotated file is gone (L3)", file: `${SECOND}.4`, problem: `${SECOND}.5:1 prev_hash mismatch` },
  { name: "the oldest file is gone (L3)", file: SECOND, problem: `${SECOND}.1:1 prev_hash mismatch` },
])("verifyAll() notices that $name", async ({ file, problem }) => {
  await using folder = await rotated();
  Deno.removeSync(`${folder.folder}/${file}`);
  const problems = await folder.problems();
  assert.equal(problems.length, 1);
  assert.ok(problems[0]?.startsWith(problem), `${problems[0]}`);
});

Deno.test("verifyAll() notices a record cut from the end of a rotated file", async () => {
  await using folder = await rotated();
  const path = `${folder.folder}/${SECOND}.3`;
  const lines = Deno.readTextFileSync(path).split("\n");
  Deno.writeTextFileSync(path, lines.slice(0, -2).map((line) => `${line}\n`).join(""));
  assert.deepEqual((await folder.problems()).map((problem) => problem.split(":")[0]), [`${SECOND}.4`]);
});

Deno.test("verifyAll() passes over files that are not part of the log (L7)", async () => {
  await using folder = await rotated();
  for (const name of ["corrupt-20260102T030405Z", "bak", "lock"]) {
    Deno.writeTextFileSync(`${folder.path}.${name}`, "{torn");
  }
  assert.deepEqual(await folder.problems(), []);
});

Deno.test("verifyAll() accepts rotated files without a log, the state between two steps of a rotation", async () => {
  await using folder = await rotated();
  Deno.renameSync(folder.path, `${folder.folder}/${SECOND}.99`);
  assert.deepEqual(await folder.problems(), []);
});

Deno.test("verifyFile() checks one file and trusts what it is linked to", async () => {
  await using folder = await rotated();
  const { publicKey } = createAuditKey(SEED);
  const path = `${folder.folder}/${SECOND}.2`;
  const result = await verifyFile({ path, publicKey, onProblem: () => assert.fail() });
  assert.deepEqual([result.entries, result.problems, result.isFromBeginning], [2, 0, false]);
});

Deno.test("verifyFile() names file, line and kind of a defect", async () => {
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

Deno.test("verifyFile() and verifyAll() say that there is no log", async () => {
  await using folder = new LogFolder();
  const options = { path: folder.path, onProblem: () => assert.fail() };
  await assert.rejects(verifyFile(options), { code: "not_found" });
  await assert.rejects(verifyAll(options), { code: "not_found" });
  await assert.rejects(verifyAll({ ...options, path: `${folder.path}/x/audit.log` }), { code: "not_found" });
});

/** Damage to the log of a running service, and its repair. */
const CHANGES: readonly {
  readonly name: string;
  readonly change: (path: string) => void;
  readonly mend?: (path: string) => void;
  readonly fault: string;
}[] = [
  {
    name: "moved away",
    change: (path) => Deno.renameSync(path, `${path}.away`),
    mend: (path) => Deno.renameSync(`${path}.away`, path),
    fault: "it was removed or moved while the service was running",
  },
  {
    name: "removed",
    change: (path) => Deno.removeSync(path),
    fault: "it was removed or moved while the service was running",
  },
  {
    name: "replaced by a copy",
    change(path) {
      Deno.renameSync(path, `${path}.away`);
      Deno.copyFileSync(`${path}.away`, path);
    },
    mend: (path) => Deno.renameSync(`${path}.away`, path),
    fault: "another file has its name",
  },
  {
    name: "emptied",
    change: (path) => Deno.truncateSync(path),
    fault: "it is shorter than the records written to it",
  },
  {
    name: "cut by one byte",
    change: (path) => Deno.truncateSync(path, Deno.statSync(path).size - 1),
    fault: "it is shorter than the records written to it",
  },
  {
    name: "written to by another process",
    change: (path) => Deno.writeTextFileSync(path, '{"outcome":"forged"}\n', { append: true }),
    mend: (path) => Deno.truncateSync(path, Deno.statSync(path).size - '{"outcome":"forged"}\n'.length),
    fault: "it has bytes that this process did not write",
  },
];

const faultOf = (run: () => unknown) => {
  try {
    run();
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
  return undefined;
};

async function assertRefused(log: AuditLog, cause: string): Promise<void> {
  await assert.rejects(log.append({ outcome: "issued" }), (error: unknown) => {
    assert.ok(error instanceof AppError && error.cause instanceof Error);
    assert.deepEqual([error.code, error.cause.message], ["audit_unavailable", cause]);
    return true;
  });
}

Deno.test.each(CHANGES)(
  "a log that is $name takes no record, and says what happened",
  async ({ change, mend, fault }) => {
    await using folder = new LogFolder();
    const log = await folder.open();
    await log.append({ outcome: "issued" });
    assert.equal(faultOf(() => log.check()), undefined);
    change(folder.path);
    const after = folder.names();
    assert.equal(faultOf(() => log.check()), fault);
    await assertRefused(log, fault);
    assert.deepEqual(folder.names(), after, "nothing is made in its place");
    if (mend !== undefined) {
      mend(folder.path);
      assert.equal(faultOf(() => log.check()), undefined);
      await log.append({ outcome: "denied" });
      assert.deepEqual(await folder.problems(), []);
    }
    await log.close();
  },
);
