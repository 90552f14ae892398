import assert from "node:assert/strict";
import { LogFolder } from "./audit_fixture.ts";
import { run } from "./ctl_fixture.ts";

const PIPE = /Cannot open (?:audit log )?".*": it is a pipe, not a file; remove it/;

async function createPipe(log: LogFolder, name: string): Promise<void> {
  assert.equal((await new Deno.Command("mkfifo", { args: [`${log.folder}/${name}`] }).output()).code, 0);
}

// All who may start a broker over stdio write to one folder; root looks at it.
Deno.test.each([
  { name: "audit repair, of a lock", pipe: "audit.log.lock", flags: ["repair", "--log", "audit.log"] },
  { name: "audit repair, of a log", pipe: "audit-2.log", flags: ["repair", "--log", "audit-2.log"] },
  { name: "audit verify", pipe: "audit-2.log", flags: ["verify", "--log", "audit.log", "--set"] },
  { name: "audit show", pipe: "audit-2.log", flags: ["show", "--log", "audit.log", "--set"] },
  { name: "audit tail", pipe: "audit-2.log", flags: ["tail", "--log", "audit.log", "--set"] },
])("$name does not wait for ever for the other end of a pipe", async ({ pipe, flags }) => {
  await using log = new LogFolder();
  await log.write("one");
  await Deno.remove(`${log.path}.lock`);
  await createPipe(log, pipe);
  const { err, exit } = await run(log.folder, "audit", ...flags);
  assert.match(err, PIPE);
  assert.notEqual(exit, 0);
});

Deno.test("a log that another's pipe stands in the way of is refused to its writer", async () => {
  await using log = new LogFolder();
  await createPipe(log, "audit.log.lock");
  await assert.rejects(log.open(), PIPE);
});
