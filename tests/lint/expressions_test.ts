import assert from "node:assert/strict";
// The build in JavaScript: the package's main entry starts a Java or native program.
import recheck from "recheck/lib/browser.js";
import { isTest, MEMBERS, ROOT } from "./files.ts";

/** Generous: a literal takes 0.4 s of an idle processor at most. */
const TIMEOUT_MS = 20_000;

/** Literals that are not checked again, because of the reason above them. */
async function readReviewed(): Promise<ReadonlySet<string>> {
  const text = await Deno.readTextFile(new URL("expressions.txt", import.meta.url));
  return new Set(text.split("\n").filter((line) => line !== "" && !line.startsWith("# ")));
}

async function* sourceFiles(dir: string): AsyncGenerator<string> {
  for await (const { name, isDirectory } of Deno.readDir(ROOT + dir)) {
    const path = `${dir}/${name}`;
    if (isDirectory && name !== "node_modules") yield* sourceFiles(path);
    else if (/\.(?:[jt]sx?|mjs)$/.test(name) && !isTest(path)) yield path;
  }
}

/** The literals of a file, with the files that have them. */
function addLiterals(path: string, source: string, into: Map<string, string>): void {
  const rule: Deno.lint.Rule = {
    create: () => ({
      Literal(node) {
        if (!("regex" in node) || node.regex === undefined) return;
        const { pattern, flags } = node.regex;
        into.set(`/${pattern}/${flags}`, path);
      },
    }),
  };
  Deno.lint.runPlugin({ name: "expressions", rules: { collect: rule } }, ROOT + path, source);
}

Deno.test("recheck finds no slow input for any regular expression", async () => {
  const literals = new Map<string, string>();
  for (const member of MEMBERS.filter((each) => each !== "tests")) {
    for await (const path of sourceFiles(member)) {
      addLiterals(path, await Deno.readTextFile(ROOT + path), literals);
    }
  }
  assert.ok(literals.size > 500, `only ${literals.size} literals were found`);
  const reviewed = await readReviewed();
  const slow: string[] = [];
  for (const [literal, path] of literals) {
    if (reviewed.has(literal)) continue;
    const end = literal.lastIndexOf("/");
    const found = recheck.checkSync(literal.slice(1, end), literal.slice(end + 1), {
      timeout: TIMEOUT_MS,
      // The fuzzer judges what the automaton cannot: the same literal gets the same answer.
      randomSeed: 1,
    });
    if (found.status !== "safe") {
      slow.push(`${path}: ${literal} is ${found.status}: ${found.attack?.pattern ?? found.error?.kind}`);
    }
  }
  assert.deepEqual(slow, [], "rewrite them, or review them and add them to tests/lint/expressions.txt");
  assert.deepEqual([...reviewed].filter((each) => !literals.has(each)), [], "no longer in the source");
});
