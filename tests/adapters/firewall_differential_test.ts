/**
 * Every shell must run exactly the commands that the firewall finds in a text. The seed makes failures
 * reproducible. FIREWALL_SEED and FIREWALL_COMMANDS select another series or length; `deno task
 * test:firewall` runs the long series.
 */
import assert from "node:assert/strict";
import { type Accepted, believe } from "../firewall/belief.ts";
import { createBuiltinCalls, findMeddling } from "../firewall/builtins.ts";
import { compare, describeMismatch, isObservableAlone, type Manner } from "../firewall/comparison.ts";
import { readCorpus } from "../firewall/corpus.ts";
import { createDice } from "../firewall/dice.ts";
import { minimise } from "../firewall/minimise.ts";
import { createSeries, describeTally, type Tally } from "../firewall/series.ts";
import { findShells, type Shell } from "../firewall/shells.ts";

const SEED = Number(Deno.env.get("FIREWALL_SEED") ?? "20240607");
const COMMANDS = Number(Deno.env.get("FIREWALL_COMMANDS") ?? "20000");

const BATCH = 5000;
// One in this many texts also runs in a separate process, which takes a hundred times as long.
const ALONE_EVERY = 64;
const AT_ONCE = 2;
const MOST_SHOWN = 3;
// Running a builtin takes as long as twenty texts.
const BUILTIN_EVERY = 100;

interface Job {
  readonly shell: Shell;
  readonly manner: Manner;
  readonly texts: readonly Accepted[];
}

function* cut(texts: Iterable<Accepted>): Generator<readonly Accepted[]> {
  let batch: Accepted[] = [];
  for (const text of texts) {
    batch.push(text);
    if (batch.length < BATCH) continue;
    yield batch;
    batch = [];
  }
  if (batch.length > 0) yield batch;
}

function* createJobs(texts: Iterable<Accepted>, shells: readonly Shell[]): Generator<Job> {
  let number = 0;
  for (const batch of cut(texts)) {
    const alone = batch.filter((each, index) => index % ALONE_EVERY === 0 && isObservableAlone(each));
    for (const shell of shells) {
      if (number % (shell.oneIn ?? 1) !== (shell.turn ?? 0)) continue;
      yield { shell, manner: "eval", texts: batch };
      yield { shell, manner: "-c", texts: alone };
    }
    number += 1;
  }
}

function describeRun(tally: Tally, runs: Readonly<Record<Manner, number>>, mismatches: number): string {
  return `firewall: seed ${SEED}: ${describeTally(tally)}; ` +
    `${runs.eval} runs by eval, ${runs["-c"]} by -c, ${mismatches} mismatches`;
}

Deno.test("parseCommand() parses every accepted text as the shells do", async () => {
  const shells = await findShells();
  const { texts, tally } = createSeries({ seed: SEED, count: COMMANDS, corpus: await readCorpus() });
  const runs = { "eval": 0, "-c": 0 };
  const found: string[] = [];
  let mismatches = 0;
  const jobs = createJobs(texts, shells);
  const work = async (): Promise<void> => {
    for (const { shell, manner, texts } of jobs) {
      const different = await compare(shell, { texts, manner });
      runs[manner] += texts.length;
      mismatches += different.length;
      for (const mismatch of different.slice(0, MOST_SHOWN - found.length)) {
        found.push(await describeMismatch(shell, { mismatch, manner }));
      }
      if (found.length >= MOST_SHOWN) return;
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  await write(describeRun(tally, runs, mismatches));
  assert.equal(mismatches, 0, `seed ${SEED}\n${found.join("\n")}`);
});

Deno.test("an accepted builtin call runs no other program and changes no state, in any shell", async () => {
  const calls = createBuiltinCalls(createDice(SEED));
  const texts = Array.from({ length: COMMANDS / BUILTIN_EVERY }, () => calls.next().value!);
  const shells = (await findShells()).values();
  const found: string[] = [];
  const work = async (): Promise<void> => {
    for (const shell of shells) {
      const meddling = await findMeddling(shell, texts);
      found.push(...meddling.map((each) => `${shell.name}: ${JSON.stringify(each)}`));
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  assert.deepEqual(found, [], `seed ${SEED}`);
});

// The reason for each rejection. If a row fails with another shell version, its reason no longer applies.
Deno.test.each([
  { shell: "bash", text: "printf '%n' PATH" },
  { shell: "bash", text: "test -v 'x[$(pwn)]'" },
  { shell: "mksh", text: "test 'x[$(pwn)]' -eq 1" },
  { shell: "mksh", text: "'[' 1 -lt 'x[`pwn`]' ']'" },
  { shell: "mksh", text: "test PATH=1 -ne 1" },
  { shell: "mksh", text: "ulimit -c 'x[$(pwn)]'" },
  { shell: "mksh", text: "print -A 'x[$(pwn)]'" },
  { shell: "mksh", text: "integer PATH=1" },
  { shell: "ksh93", text: "test PATH=1 -eq 1" },
  { shell: "ksh93", text: "printf '%d' PATH=1" },
  { shell: "ksh93", text: "printf '%.*s' PATH=1 x" },
  { shell: "ksh93", text: "printf '\\u0025d' PATH=1" },
  { shell: "ksh93", text: "compound PATH=1" },
  { shell: "ksh93", text: "float PATH=1" },
  { shell: "ksh93", text: "x: pwn" },
  { shell: "yash", text: "array PATH" },
  { shell: "zsh", text: "printf '%d' 'x[$(pwn)]=1'" },
  { shell: "zsh", text: "printf '%*s' 'x[$(pwn)]=1' x" },
  { shell: "zsh", text: "printf '\\u0025d' 'x[$(pwn)]=1'" },
  { shell: "zsh", text: "test -t 'x[$(pwn)]=1'" },
  { shell: "zsh", text: "exit 'x[$(pwn)]=1'" },
  { shell: "zsh", text: "getln PATH" },
  { shell: "zsh", text: "zformat -f PATH x" },
  { shell: "zsh", text: "emulate sh -c pwn" },
  { shell: "zsh", text: "true;- pwn" },
  { shell: "zsh", text: "noglob pwn" },
  { shell: "zsh", text: "nocorrect pwn" },
  { shell: "zsh", text: "repeat 2 pwn" },
  { shell: "zsh", text: "=pwn" },
])(
  "the firewall rejects $text, because $shell does more than run a command with it",
  async ({ shell, text }) => {
    assert.equal(believe(`${text};pa`).kind, "refused");
    const found = (await findShells()).filter(({ name }) => name === shell);
    const planted: Accepted = { text: `${text};pa`, commands: [[text], ["pa"]], operators: [";"] };
    for (const each of found) assert.equal((await findMeddling(each, [planted])).length, 1);
  },
);

Deno.test.each(
  [
    { name: "a command that is not believed", text: "pa;pb", commands: [["pa"]] },
    { name: "a word that is cut otherwise", text: "pa 'b c'", commands: [["pa", "b", "c"]] },
    { name: "a command that does not run", text: "pa #;pb", commands: [["pa"], ["pb"]], operators: [";"] },
    { name: "two commands in the other order", text: "pa;pb", commands: [["pb"], ["pa"]], operators: [";"] },
    { name: "a file that is written", text: "pa >b", commands: [["pa"]] },
    { name: "a builtin taken for another", text: "echo a", commands: [["echo", "b"]] },
    { name: "a command behind a descriptor that is not open", text: "pa;pb >&3", commands: [["pb"]] },
  ] satisfies { name: string; text: string; commands: string[][]; operators?: ";"[] }[],
)(
  "compare() finds $name",
  async ({ text, commands, operators = [] }) => {
    const planted: Accepted = { text, commands, operators };
    for (const shell of await findShells()) {
      const before: Accepted = { text: "pa", commands: [["pa"]], operators: [] };
      const manners: readonly Manner[] = isObservableAlone(planted) ? ["eval", "-c"] : ["eval"];
      for (const manner of manners) {
        const found = await compare(shell, { texts: [before, planted, before], manner });
        assert.deepEqual(found.map(({ accepted }) => accepted), [planted], `${shell.name} ${manner}`);
      }
    }
  },
);

Deno.test("compare() continues after a text that ends the shell", async () => {
  const ends: Accepted = { text: "'p'a; exit", commands: [["pa"], ["pb"]], operators: [";"] };
  const good: Accepted = { text: "pb", commands: [["pb"]], operators: [] };
  for (const shell of await findShells()) {
    const found = await compare(shell, { texts: [good, ends, good], manner: "eval" });
    assert.deepEqual(found, [{ accepted: ends, executed: [["pa"]] }], shell.name);
  }
});

Deno.test("minimise() keeps only the characters that cause the failure", async () => {
  const failing = (texts: readonly string[]): Promise<readonly number[]> =>
    Promise.resolve([...texts.keys()].filter((index) => /;.*😀/u.test(texts[index]!)));
  assert.equal(await minimise("pa 'x' ; pb \"a😀b\" || pc", failing), ";😀");
});

async function write(line: string): Promise<void> {
  await Deno.stderr.write(new TextEncoder().encode(`${line}\n`));
}
