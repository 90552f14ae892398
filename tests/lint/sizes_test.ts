import assert from "node:assert/strict";
import limits from "./sizes.json" with { type: "json" };
import { countCode, findUnusedExports, measure, readSources } from "./sizes.ts";

const sources = await readSources();

Deno.test("no member is larger than tests/lint/sizes.json says", () => {
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

Deno.test("countCode() leaves out comments and blank lines", () => {
  assert.equal(countCode("/** A.\n * b\n */\nconst a = 1; // why\n\n// c\n/* d */\nlet b;\n"), 2);
});
