import assert from "node:assert/strict";
import { advance, openLast } from "../../ctl/audit/logs.ts";
import { LogFolder, SEED } from "./audit_fixture.ts";
import { run } from "./ctl_fixture.ts";

/** Changes a log between two polls. */
type Step = (path: string) => void | Promise<void>;

/** Follows a log. `pause` is called between two polls, and ends the test with `false`. */
async function followLog({ path, lines, onLine, pause }: {
  readonly path: string;
  readonly lines: number;
  readonly onLine: (line: Uint8Array) => void;
  readonly pause: () => Promise<boolean> | boolean;
}) {
  let log = await openLast(path, lines);
  const isMissing = log === undefined;
  do log = await advance(path, log, onLine); while (await pause());
  await log?.close();
  return isMissing;
}

/** Follows a log in which each pause runs one step. Returns the lines of each poll. */
async function follow(folder: string, lines: number, steps: readonly Step[]) {
  const path = `${folder}/audit.log`;
  const looks: string[][] = [[]];
  let step = 0;
  const isMissing = await followLog({
    path,
    lines,
    onLine: (line) => void looks.at(-1)?.push(new TextDecoder().decode(line.subarray(0, 20))),
    pause: async () => {
      const next = steps[step++];
      await next?.(path);
      looks.push(...next === undefined ? [] : [[]]);
      return next !== undefined;
    },
  });
  return { looks, isMissing };
}

const append = (text: string): Step => (path) => Deno.writeTextFile(path, text, { append: true });
const write = (text: string): Step => (path) => Deno.writeTextFile(path, text);
const cut = (size: number): Step => (path) => Deno.truncate(path, size);
const rotate = (stamp: string): Step => (path) => Deno.rename(path, `${path}.${stamp}`);
const all = (...steps: readonly Step[]): Step => async (path) => {
  for (const step of steps) await step(path);
};

interface Row {
  readonly name: string;
  readonly before: string | undefined;
  readonly lines?: number;
  readonly steps: readonly Step[];
  readonly looks: string[][];
  readonly isMissing?: boolean;
}

const LONG = "x".repeat(300_000);

Deno.test.each<Row>([
  {
    name: "the last lines, then new ones",
    before: "a\nb\nc\n",
    steps: [append("d\n"), append("e\nf\n")],
    looks: [
      ["b", "c"],
      ["d"],
      ["e", "f"],
    ],
  },
  { name: "no more lines than there are", before: "a\n", lines: 5, steps: [], looks: [["a"]] },
  { name: "new lines alone", before: "a\nb\n", lines: 0, steps: [append("c\n")], looks: [[], ["c"]] },
  {
    name: "lines of a log that appears later",
    before: undefined,
    steps: [() => {}, write("a\n")],
    looks: [[], [], ["a"]],
    isMissing: true,
  },
  {
    name: "a line once it is complete",
    before: "a\nb",
    steps: [append("c"), append("d\ne")],
    looks: [["a"], [], ["bcd"]],
  },
  {
    name: "the line that replaced an incomplete line",
    before: "a\nbroken",
    steps: [all(cut(2), append("good and longer\n"))],
    looks: [["a"], ["good and longer"]],
  },
  {
    name: "no line twice after a repair",
    before: "a\nb\ntorn",
    steps: [cut(4), append("c\n")],
    looks: [["a", "b"], [], ["c"]],
  },
  {
    name: "new lines of a log that was truncated to nothing",
    before: "a\nb\n",
    steps: [write(""), append("c\n")],
    looks: [["a", "b"], [], ["c"]],
  },
  {
    name: "the lines of a shorter log that replaced the first",
    before: "aaaa\nb\n",
    steps: [write("c\n")],
    looks: [["aaaa", "b"], ["c"]],
  },
  {
    name: "the rest of a rotated log first",
    before: "a\n",
    steps: [all(append("b\n"), rotate("20260102T030405Z"), write("c\n"))],
    looks: [["a"], ["b", "c"]],
  },
  {
    name: "lines of a rotated log until the new log appears",
    before: "a\n",
    steps: [
      rotate("20260102T030405Z"),
      (path) => append("b\n")(`${path}.20260102T030405Z`),
      write("c\n"),
    ],
    looks: [["a"], [], ["b"], ["c"]],
  },
  {
    name: "the lines of a new log that is larger than the rotated one",
    before: "a\n",
    steps: [all(rotate("20260102T030405Z"), write("bbbb\ncccc\n")), append("d\n")],
    looks: [["a"], ["bbbb", "cccc"], ["d"]],
  },
  {
    name: "the lines of several rotations between two polls, in order",
    before: "a\n",
    steps: [
      all(
        append("b\n"),
        rotate("20260102T030405Z"),
        write("c\n"),
        rotate("20260102T030405Z.1"),
        write("d\n"),
        rotate("20260102T030405Z.10"),
        write("e\n"),
      ),
      append("f\n"),
    ],
    looks: [["a"], ["b", "c", "d", "e"], ["f"]],
  },
  {
    name: "the lines of another file with the same name",
    before: "a\n",
    steps: [async (path) => {
      await Deno.remove(path);
      await write("b\n")(path);
    }],
    looks: [["a"], ["b"]],
  },
  {
    name: "a line after a line that is too long, which it skips",
    before: "a\n",
    steps: [append(LONG), append(LONG), append("\nb\n")],
    looks: [["a"], [], [], ["b"]],
  },
])("advance() delivers $name", async ({ before, lines = 2, steps, looks, isMissing = false }) => {
  await using folder = new LogFolder();
  if (before !== undefined) await Deno.writeTextFile(folder.path, before);
  assert.deepEqual(await follow(folder.folder, lines, steps), { looks, isMissing });
});

Deno.test("advance() delivers every record exactly once while the log rotates", async () => {
  await using folder = new LogFolder();
  const log = await folder.open({ maxFileBytes: 2000 });
  const outcomes: string[] = [];
  const seen: string[] = [];
  await followLog({
    path: folder.path,
    lines: 0,
    pause: async () => {
      if (outcomes.length === 200) return false;
      for (let count = 0; count < 20; count++) {
        outcomes.push(`outcome-${outcomes.length}`);
        await log.append({ outcome: outcomes.at(-1) ?? "" });
      }
      return true;
    },
    onLine: (line) => void seen.push(JSON.parse(new TextDecoder().decode(line)).outcome),
  });
  await log.close();
  assert.deepEqual(seen, outcomes);
  assert.ok(folder.names().length > 10);
});

Deno.test("openLast() finds the last lines of a log that spans many chunks", async () => {
  await using folder = new LogFolder();
  const lines = Array.from({ length: 20_000 }, (_, index) => `line ${index}`);
  await Deno.writeTextFile(folder.path, `${lines.join("\n")}\nunfinished`);
  for (const count of [1, 7000, 19_999, 20_000, 20_001]) {
    const { looks } = await follow(folder.folder, count, []);
    assert.deepEqual(looks, [lines.slice(-count)]);
  }
});

Deno.test("advance() keeps the order if the log rotates again while it reads", async () => {
  await using folder = new LogFolder();
  const { path } = folder;
  const stamps = ["20260102T030405Z", "20260102T030406Z", "20260102T030407Z"];
  await Deno.writeTextFile(path, "a\n");
  const seen: string[] = [];
  let pauses = 0;
  const moveOn = (line: string) => {
    Deno.renameSync(path, `${path}.${stamps.shift()}`);
    Deno.writeTextFileSync(path, `${line}\n`);
  };
  await followLog({
    path,
    lines: 1,
    pause: () => {
      if (pauses++ > 0) return false;
      Deno.writeTextFileSync(path, "rest\n", { append: true });
      moveOn("b");
      return true;
    },
    onLine: (bytes) => {
      const line = new TextDecoder().decode(bytes);
      seen.push(line);
      // The successor is already open, but the rotated files are not listed yet.
      if (line === "rest") ["c", "d"].forEach(moveOn);
    },
  });
  assert.deepEqual(seen, ["a", "rest", "b", "c", "d"]);
});

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
const NO_KEY = String.raw`not proved: the author: anyone can create a log with valid hashes \(pass --key\)`;
const NO_HEAD = String.raw`not proved: truncation: removed records at the end \(pass --since\)`;

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
    name: "the signatures",
    flags: ["--key", "seed"],
    lines: ["OK: 3 entries, chain intact, all signatures valid", HEAD, NO_HEAD],
  },
  {
    name: "all files",
    flags: ["--key", "seed", "--all"],
    lines: ["OK: 3 entries, chain intact across all rotated segments, all signatures valid", HEAD, NO_HEAD],
  },
])(
  "audit verify of $name of an unchanged log prints what it verified and what it did not",
  async ({ flags, lines }) => {
    await using log = await createLog();
    const { out, err, exit } = await run(log.folder, "audit", "verify", "--log", "audit.log", ...flags);
    assert.match(out, new RegExp(`^${lines.join("\n")}\n$`));
    assert.deepEqual([err, exit], ["", 0]);
  },
);

Deno.test("audit verify reports that records in rotated files are not checked", async () => {
  await using log = await createLog();
  await Deno.rename(log.path, `${log.path}.20260102T030405Z`);
  await log.write("four");
  const { out } = await run(log.folder, "audit", "verify", "--log", "audit.log", "--key", "seed");
  assert.match(out, /^OK: 1 entries.*\n.*\nnot proved: earlier records in rotated files/);
});

Deno.test.each<{ name: string; flags: string[]; edit: (text: string) => string; error: RegExp }>([
  {
    name: "a changed record",
    flags: ["--key", "seed"],
    edit: (text) => text.replace('"two"', '"six"'),
    error:
      /audit\.log:2: signature invalid[\s\S]*audit\.log:3: prev_hash mismatch[\s\S]*FAIL: 3 entries checked/,
  },
  {
    name: "another key, with one error",
    flags: ["--key", "other"],
    edit: (text) => text,
    error:
      /^ERROR: every record of audit\.log fails: probably the wrong key\nfix: .*\nFAIL: 3 entries checked, 3 error\(s\) found\n$/,
  },
  {
    name: "escape sequences in a malformed line",
    flags: [],
    edit: (text) => `${text}\x1b[2J\n`,
    error: /^ERROR: \P{Cc}*malformed JSON(?:\P{Cc}|\n)*$/u,
  },
])("audit verify fails with exit code 1 for $name", async ({ flags, edit, error }) => {
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
])("audit verify rejects $name", async ({ flags, error }) => {
  await using log = await createLog();
  await Deno.writeFile(`${log.folder}/short`, new Uint8Array(31));
  const result = await run(log.folder, "audit", "verify", ...flags);
  assert.match(result.err, error);
  assert.deepEqual([result.exit, result.out], [1, ""]);
});
