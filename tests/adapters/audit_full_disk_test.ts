import assert from "node:assert/strict";
import { AuditGate } from "@gateway/shared/audit";
import { LogFolder } from "./audit_fixture.ts";
import { fill, makeRoom, mayNotMount as ignore, TinyDisk } from "./tiny_disk.ts";

Deno.test({
  name: "a full disk withholds actions in the closed mode, leaves no half record, and recovers (needs root)",
  ignore,
}, async () => {
  await using disk = await TinyDisk.mount("size=64k");
  const folder = new LogFolder(disk.folder);
  const counts = { failures: 0, blocked: 0 };
  const gate = new AuditGate({
    log: await folder.open(),
    failMode: "closed",
    onAppendFailure: () => counts.failures++,
    onBlocked: () => counts.blocked++,
  });
  await gate.require({ outcome: "before" });
  fill(`${disk.folder}/filler`);
  // The page that the log has may still take records; the first that doesn't fit is written in part.
  let accepted = 1;
  let refused: unknown;
  for (let attempt = 0; attempt < 10 && refused === undefined; attempt++) {
    await gate.require({ outcome: "x", command: "c".repeat(1500) }).then(() => accepted++, (error) => {
      refused = error;
    });
  }
  assert.ok(refused instanceof Error && refused.cause instanceof Error);
  assert.equal(refused.message, "audit unavailable");
  assert.match(String(refused.cause.cause), /No space left/);
  const together = await Promise.allSettled(
    [1, 2, 3].map(() => gate.require({ outcome: "y", err: "e".repeat(4096) })),
  );
  assert.ok(together.every(({ status }) => status === "rejected"));
  assert.deepEqual(counts, { failures: 4, blocked: 4 });
  assert.equal(folder.records().length, accepted);
  assert.deepEqual(await folder.problems(), []);

  makeRoom(`${disk.folder}/filler`);
  await gate.require({ outcome: "after" });
  await gate.close();
  assert.deepEqual(folder.records().at(-1)?.["outcome"], "after");
  assert.equal(folder.records().length, accepted + 1);
  assert.deepEqual(await folder.problems(), []);
  await folder.write("after a restart");
  assert.deepEqual(await folder.problems(), []);
});

Deno.test({ name: "a full disk lets actions proceed in the open mode (needs root)", ignore }, async () => {
  await using disk = await TinyDisk.mount("size=64k");
  const folder = new LogFolder(disk.folder);
  let failures = 0;
  const gate = new AuditGate({
    log: await folder.open(),
    failMode: "open",
    onAppendFailure: () => failures++,
    onBlocked: () => assert.fail("nothing may be withheld"),
  });
  fill(`${disk.folder}/filler`);
  await gate.require({ outcome: "x", command: "c".repeat(5000) });
  await gate.bestEffort({ outcome: "y", command: "c".repeat(5000) });
  assert.equal(failures, 2);
  makeRoom(`${disk.folder}/filler`);
  await gate.require({ outcome: "z" });
  await gate.close();
  assert.deepEqual(folder.records().map(({ outcome }) => outcome), ["z"]);
  assert.deepEqual(await folder.problems(), []);
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
