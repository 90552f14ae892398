import assert from "node:assert/strict";
import { ROOT } from "./extract.ts";
import { searchFiles, type Surface } from "./prose.ts";

/** The most banned phrases in 10,000 words. */
const CEILINGS: Readonly<Record<Surface, number>> = { docs: 15, help: 10, comments: 20, strings: 10 };

/** Texts in which a banned phrase is right, each with the reason. */
const ALLOWED: readonly { readonly text: string; readonly reason: string }[] = [];

const { words, hits } = searchFiles();
const isAllowed = (around: string) => ALLOWED.some(({ text }) => around.includes(text));

Deno.test.each(Object.entries(CEILINGS).map(([surface, ceiling]) => ({ surface, ceiling })))(
  "$surface have at most $ceiling banned phrases in 10,000 words",
  ({ surface, ceiling }) => {
    const found = hits.filter((hit) => hit.surface === surface && !isAllowed(hit.around));
    const rate = (found.length * 10_000) / words[surface as Surface];
    assert.ok(words[surface as Surface] > 1000, `only ${words[surface as Surface]} words were found`);
    assert.ok(rate <= ceiling, `${rate.toFixed(1)}:\n${found.map(({ line }) => line).join("\n")}`);
  },
);

Deno.test("each allowed text exists and has a reason", () => {
  const unused = ALLOWED.filter(({ text, reason }) =>
    reason === "" || !hits.some(({ around }) => around.includes(text))
  );
  assert.deepEqual(unused, []);
});

Deno.test.each<{ file: string; source: string; found: readonly string[] }>([
  {
    file: "a.md",
    source: "# A\n\nThe host\nlies in `beside`.\n\n```\nlies in\n```\n",
    found: ["docs a.md:3"],
  },
  {
    file: "deploy/docs/commands-a.md",
    source: "# A\n\n```text\nit says so\n```\n",
    found: ["help deploy/docs/commands-a.md:3"],
  },
  {
    file: "a/b.ts",
    source: '/** Who asks. */\nconst a = /["`]/; // told of it\n',
    found: ["comments a/b.ts:1", "comments a/b.ts:2"],
  },
  {
    file: "a/b.ts",
    source: 'f("it says that it is", `mend ${g({ a: `${1}` })} all of it`, "says");',
    found: ["strings a/b.ts:1", "strings a/b.ts:1"],
  },
  {
    file: "a/b_test.ts",
    source: 'f("a test says that it is"); // says so\n',
    found: ["comments a/b_test.ts:1"],
  },
])("searchFiles() finds the phrases of $file", ({ file, source, found }) => {
  const { hits } = searchFiles([file], () => source);
  assert.deepEqual(hits.map(({ surface, line }) => `${surface} ${line.split(": ")[0]}`).toSorted(), found);
});

Deno.test({
  name: "commit subjects have at most 72 characters",
  ignore: !hasHistory(),
  fn() {
    const first = git("log", "--diff-filter=A", "--format=%H", "--", "tests/documents/prose_test.ts").at(-1);
    // Only commits after the one that added this test.
    const subjects = first === undefined
      ? []
      : git("log", "--ancestry-path", "--no-merges", "--format=%s", `${first}..HEAD`);
    assert.deepEqual(subjects.filter((subject) => subject.length > 72), []);
  },
});

function hasHistory(): boolean {
  try {
    return Deno.statSync(`${ROOT}.git`) !== undefined;
  } catch {
    return false;
  }
}

function git(...args: readonly string[]): readonly string[] {
  const command = ["-c", "safe.directory=*", "-C", ROOT, ...args];
  const { stdout } = new Deno.Command("git", { args: command }).outputSync();
  return new TextDecoder().decode(stdout).split("\n").filter((line) => line !== "");
}
