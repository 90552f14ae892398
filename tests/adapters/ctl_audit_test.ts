import assert from "node:assert/strict";
import { LogFolder, SEED } from "./audit_fixture.ts";
import { run } from "./ctl_fixture.ts";

/** A log of three records and the seed that signed it. */
async function createLog(): Promise<LogFolder> {
  const log = new LogFolder();
  await log.write("one", "two", "three");
  await Deno.writeFile(`${log.folder}/seed`, SEED);
  await Deno.writeFile(`${log.folder}/other`, new Uint8Array(32).fill(1));
  return log;
}

async function change(log: LogFolder, edit: (text: string) => string): Promise<void> {
  await Deno.writeTextFile(log.path, edit(await Deno.readTextFile(log.path)));
}

const HEAD = String.raw`head: seq 3, SHA-256 [0-9a-f]{64}`;
const NO_KEY = String.raw`not proved: who wrote it: anybody can make a log whose hashes fit \(pass --key\)`;
const NO_HEAD =
  "not proved: that nothing was taken from its end: a log that was cut or emptied is as whole as a " +
  String.raw`shorter one \(pass --since\)`;

Deno.test.each([
  {
    name: "one file",
    flags: [],
    lines: [
      String.raw`OK: 3 entries, chain intact; signatures not checked \(pass --key\)`,
      HEAD,
      NO_KEY,
      NO_HEAD,
    ],
  },
  {
    name: "its signatures",
    flags: ["--key", "seed"],
    lines: ["OK: 3 entries, chain intact, all signatures valid", HEAD, NO_HEAD],
  },
  {
    name: "all files",
    flags: ["--key", "seed", "--all"],
    lines: ["OK: 3 entries, chain intact across all rotated segments, all signatures valid", HEAD, NO_HEAD],
  },
])(
  "audit verify says what it proved of $name of an unchanged log, and what not",
  async ({ flags, lines }) => {
    await using log = await createLog();
    const { out, err, exit } = await run(log.folder, "audit", "verify", "--log", "audit.log", ...flags);
    assert.match(out, new RegExp(`^${lines.join("\n")}\n$`));
    assert.deepEqual([err, exit], ["", 0]);
  },
);

Deno.test("audit verify says that a file does not begin its log", async () => {
  await using log = await createLog();
  await Deno.rename(log.path, `${log.path}.20260102T030405Z`);
  await log.write("four");
  const { out } = await run(log.folder, "audit", "verify", "--log", "audit.log", "--key", "seed");
  assert.match(out, /^OK: 1 entries.*\n.*\nnot proved: what was in the files before its first record/);
});

Deno.test.each<{ name: string; flags: string[]; edit: (text: string) => string; error: RegExp }>([
  {
    name: "a record changed",
    flags: ["--key", "seed"],
    edit: (text) => text.replace('"two"', '"six"'),
    error:
      /audit\.log:2: signature invalid[\s\S]*audit\.log:3: prev_hash mismatch[\s\S]*FAIL: 3 entries checked/,
  },
  {
    name: "a record taken out",
    flags: [],
    edit: (text) => text.replace(/.*"two".*\n/, ""),
    error: /gap or reorder/,
  },
  {
    name: "the first record taken out",
    flags: ["--all"],
    edit: (text) => text.replace(/.*\n/, ""),
    error: /ERROR: /,
  },
  {
    name: "another key, with one error",
    flags: ["--key", "other"],
    edit: (text) => text,
    error:
      /^ERROR: every record of audit\.log fails: probably the wrong key\nfix: .*\nFAIL: 3 entries checked, 3 error\(s\) found\n$/,
  },
  {
    name: "escape sequences in a broken line",
    flags: [],
    edit: (text) => `${text}\x1b[2J\n`,
    error: /^ERROR: \P{Cc}*malformed JSON(?:\P{Cc}|\n)*$/u,
  },
])("audit verify fails, with exit code 1, for $name", async ({ flags, edit, error }) => {
  await using log = await createLog();
  await change(log, edit);
  const result = await run(log.folder, "audit", "verify", "--log", "audit.log", ...flags);
  assert.equal(result.exit, 1);
  assert.match(result.out, error);
  const json = await run(log.folder, "audit", "verify", "--json", "--log", "audit.log", ...flags);
  assert.deepEqual([json.exit, JSON.parse(json.out).ok], [1, false]);
});

Deno.test.each([
  { name: "a log that is not there", flags: ["--log", "nowhere.log"], error: /no such file/ },
  {
    name: "a key that is not there",
    flags: ["--log", "audit.log", "--key", "nowhere"],
    error: /no such file/,
  },
  { name: "a key that is too short", flags: ["--log", "audit.log", "--key", "short"], error: /32/ },
])("audit verify refuses $name", async ({ flags, error }) => {
  await using log = await createLog();
  await Deno.writeFile(`${log.folder}/short`, new Uint8Array(31));
  const result = await run(log.folder, "audit", "verify", ...flags);
  assert.match(result.err, error);
  assert.deepEqual([result.exit, result.out], [1, ""]);
});
