import { check, MODULE, type Row } from "./check.ts";
import assert from "node:assert/strict";
import recheck from "recheck/lib/browser.js";
import { isTest, MEMBERS, ROOT } from "./files.ts";
import limits from "./sizes.json" with { type: "json" };
import { countCode, findUnusedExports, measure, readSources } from "./sizes.ts";

Deno.test.each<Omit<Row, "file">>([
  {
    name: "the message of an unknown error",
    source: "f(error instanceof Error ? error.message : String(error));",
  },
  {
    name: "the message of an unknown error with another default",
    source: 'f(cause instanceof Error ? cause.message : "failed");',
  },
  { name: "its name", source: "f(error instanceof Error ? error.name : typeof error);" },
  { name: "control characters as a class", source: String.raw`/[\p{Cc}\s]/u.test(a);` },
  { name: "control characters as a range", source: String.raw`/[\x00-\x1f]/.test(a);` },
  { name: "the same range in another notation", source: String.raw`/[\u0000-\u0020]/.test(a);` },
  { name: "spaces as a class", source: String.raw`/\p{Z}/u.test(a);` },
  { name: "quoting for a shell", source: String.raw`a.replaceAll("'", "'\\''");` },
  { name: "the label of an elevation", source: "f(`sudo:${user}`);" },
])("gateway/one-place rejects $name", (row) => check({ ...row, file: "signer/a.ts", rule: "one-place" }));

Deno.test.each<Omit<Row, "file"> & { readonly file?: string }>([
  { name: "the definition itself", file: "ctl/setup/init.ts", source: String.raw`/[\p{Cc},]/u.test(a);` },
  { name: "the debate's texts", file: "debate/a.ts", source: String.raw`/[\p{Cc}]/u.test(a);` },
  { name: "tests", file: "signer/a_test.ts", source: "f(error instanceof Error ? error.message : '');" },
  { name: "a part of a known error", source: "f(error instanceof AppError ? error.message : 'x');" },
  { name: "the cause of an error", source: "f(error instanceof Error ? error.cause : undefined);" },
  { name: "other classes", source: String.raw`/[\p{L}\p{N}]/u.test(a);` },
])("gateway/one-place allows $name", (row) => check({ file: "signer/a.ts", ...row }));

Deno.test.each<Row>([
  {
    name: "an entry file of shared without a description",
    file: "shared/a.ts",
    source: "const a = 1;",
    rule: "documented",
  },
  {
    name: "an undocumented export of shared",
    file: "shared/a.ts",
    source: `${MODULE}export const a = 1;`,
    rule: "documented",
  },
  {
    name: "an undocumented export after a documented one",
    file: "shared/a.ts",
    source: `${MODULE}/** A. */\nexport const a = 1;\nexport function b() {}`,
    rule: "documented",
  },
  {
    name: "an export with a line comment only",
    file: "shared/a.ts",
    source: `${MODULE}// A.\nexport const a = 1;`,
    rule: "documented",
  },
])("gateway/documented rejects $name", check);

Deno.test.each<Row>([
  {
    name: "a documented export",
    file: "shared/a.ts",
    source: `${MODULE}/** A. */\n// why\nexport const a = 1;`,
  },
  { name: "a constant without export", file: "shared/a.ts", source: `${MODULE}const a = 1;` },
  { name: "interfaces of members", file: "signer/a.ts", source: "export interface A {}" },
  { name: "a file behind an entry file", file: "shared/policy/a.ts", source: "const a = 1;" },
  { name: "functions of members", file: "signer/a.ts", source: "export function a() {}" },
  { name: "tests", file: "shared/a_test.ts", source: "export const a = 1;" },
])("gateway/documented allows $name", check);

// The build in JavaScript: the package's main entry starts a Java or native program.
/** Generous, because a literal takes at most 0.4 s of an idle processor. */
const TIMEOUT_MS = 20_000;

/** Returns the literals that are not checked again, because of the reason above them. */
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

/** Adds the literals of a file. */
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

Deno.test("recheck reports no slow input for any regular expression", async () => {
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
      // Verdicts count steps, not time, so that a busy machine gives the same ones.
      ...{ attackTimeout: null, incubationTimeout: null, seedingTimeout: null, attackLimit: 10_000_000 },
      randomSeed: 1,
    });
    if (found.status !== "safe") {
      slow.push(`${path}: ${literal} is ${found.status}: ${found.attack?.pattern ?? found.error?.kind}`);
    }
  }
  assert.deepEqual(slow, [], "rewrite them, or review them and add them to tests/lint/expressions.txt");
  assert.deepEqual([...reviewed].filter((each) => !literals.has(each)), [], "no longer in the source");
});

Deno.test.each<Row>([
  { name: "JSON.parse", file: "signer/a.ts", source: "JSON.parse(a);" },
  { name: "JSON.parse in a debate", file: "debate/web/a.ts", source: "JSON.parse(a);" },
  { name: "JSON.parse in a script of deploy", file: "deploy/a.ts", source: "JSON.parse(a);" },
  { name: "JSON.parse as an argument", file: "ctl/a.ts", source: "texts.map(JSON.parse);" },
  { name: "JSON.parse in brackets", file: "ctl/a.ts", source: 'JSON["parse"](a);' },
  { name: "JSON.parse under a computed name", file: "ctl/a.ts", source: "JSON[name](a);" },
  { name: "JSON.parse by globalThis", file: "ctl/setup/a.ts", source: "globalThis.JSON.parse(a);" },
  {
    name: "JSON.parse through globalThis in brackets",
    file: "ctl/setup/a.ts",
    source: 'globalThis["JSON"].parse(a);',
  },
  { name: "JSON.parse with ?.", file: "ctl/a.ts", source: "JSON?.parse(a);" },
  { name: "JSON.parse through a cast", file: "ctl/a.ts", source: "(JSON as Parser).parse(a);" },
  { name: "JSON under another name", file: "ctl/a.ts", source: "const json = JSON;" },
  { name: "a parse destructured from JSON", file: "ctl/a.ts", source: "const { parse } = JSON;" },
  { name: "JSON as an argument", file: "ctl/a.ts", source: "read(JSON);" },
  {
    name: "destructured JSON of globalThis",
    file: "ctl/setup/a.ts",
    source: "const { JSON: json } = globalThis;",
  },
  { name: "a Response that parses", file: "broker/a.ts", source: "await response.json();" },
  { name: "a request of hono that parses", file: "broker/a.ts", source: "await c.req.json();" },
  { name: "a Response that may parse", file: "broker/a.ts", source: "await response?.json();" },
  { name: "a Blob that parses", file: "broker/a.ts", source: 'await new Response(blob)["json"]();' },
  {
    name: "a stream consumer that parses JSON",
    file: "ctl/setup/a.ts",
    source: 'import { json } from "node:stream/consumers";',
  },
].map((row) => ({ ...row, rule: "json" })))("gateway/json rejects $name", check);

Deno.test.each<Row>([
  { name: "the parser itself", file: "shared/json.ts", source: `${MODULE}JSON.parse(a); const json = JSON;` },
  { name: "tests", file: "signer/a_test.ts", source: "JSON.parse(await response.json());" },
  { name: "test helpers", file: "signer/testing/a.ts", source: "JSON.parse(a);" },
  { name: "pages for a browser", file: "debate/web/page/a.js", source: "JSON.parse(await response.json());" },
  {
    name: "functions that write JSON",
    file: "ctl/setup/a.ts",
    source: "JSON.stringify(a); globalThis.JSON.stringify(a);",
  },
  { name: "an answer", file: "signer/a.ts", source: "Response.json({}); c.json(problem, 400);" },
  { name: "an option", file: "ctl/a.ts", source: "if (options.json) print({ JSON: 1 });" },
  { name: "a type", file: "ctl/a.ts", source: "let a: JSON;" },
])("gateway/json allows $name", check);

const sources = await readSources();

Deno.test("no member exceeds its limit in tests/lint/sizes.json", () => {
  const { code_lines, shared_doors } = measure(sources);
  const grown = Object.entries(code_lines).filter(([member, lines]) =>
    lines > (limits.code_lines[member as keyof typeof limits.code_lines] ?? 0)
  );
  assert.deepEqual(grown, [], "delete code, or raise the number in the same commit and say why");
  assert.ok(shared_doors <= limits.shared_doors, `shared has ${shared_doors} export paths`);
});

Deno.test("every export has an importer", () => {
  assert.deepEqual(findUnusedExports(sources), []);
});

Deno.test("findUnusedExports() finds an export that only its own file uses", () => {
  const files = new Map([
    ["signer/a.ts", "export const a = 1;\nexport function b() {}\nexport interface C { d: typeof a }"],
    ["signer/b.ts", 'import { b } from "./a.ts";\nexport type { C } from "./a.ts";'],
  ]);
  assert.deepEqual(findUnusedExports(files), ["signer/a.ts a"]);
});

Deno.test("countCode() ignores comments and empty lines", () => {
  assert.equal(countCode("/** A.\n * b\n */\nconst a = 1; // why\n\n// c\n/* d */\nlet b;\n"), 2);
});
