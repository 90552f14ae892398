import assert from "node:assert/strict";
import { createAuditKey, verifyAll, verifyFile } from "@gateway/shared/audit";
import { LogFolder, SEED } from "./audit_fixture.ts";

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
