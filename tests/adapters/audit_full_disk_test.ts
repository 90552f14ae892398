import assert from "node:assert/strict";
import { LogFolder } from "./audit_fixture.ts";
import { mayNotMount as ignore, TinyDisk } from "./tiny_disk.ts";

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
  assert.deepEqual(folder.warnings, Array(2).fill("Cannot rotate audit log, it keeps growing"));
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
  // The log has its rotated name, and its own is free: in a folder that others may write to too.
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
  assert.deepEqual(folder.warnings, Array(3).fill("Cannot rotate audit log, it keeps growing"));
  assert.deepEqual(folder.records().map(({ outcome, seq }) => [outcome, seq]), [["f", 1]]);
  assert.deepEqual(await folder.problems(), []);
});
