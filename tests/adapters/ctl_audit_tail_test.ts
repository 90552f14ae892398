import assert from "node:assert/strict";
import { nthLog } from "@gateway/shared/audit";
import { poll } from "../stage/poll.ts";
import { LogFolder } from "./audit_fixture.ts";
import { run, start } from "./ctl_fixture.ts";

const HEADING = /^TIME +SEQ +CALLER +HOST +OUTCOME +SERIAL +DETAIL$/;

Deno.test("audit tail shows the last records and each new one, also after a rotation", async () => {
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

Deno.test("audit tail --json gives records alone, and waits for a log that is not there", async () => {
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
  { name: "no log", flags: [], error: /--log/ },
  { name: "an invalid count", flags: ["--log", "x", "-n", "many"], error: /number from 0/ },
  { name: "a count below 0", flags: ["--log", "x", "--lines=-1"], error: /number from 0/ },
  { name: "a filter", flags: ["--log", "x", "--host", "y"], error: /Unknown option '--host'/ },
])("audit tail refuses $name", async ({ flags, error }) => {
  const { out, err, exit } = await run("/", "audit", "tail", ...flags);
  assert.match(err, error);
  assert.deepEqual([out, exit], ["", 2]);
});

Deno.test("audit tail --set shows what several processes write, also those that begin later", async () => {
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
