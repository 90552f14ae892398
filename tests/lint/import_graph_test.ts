import assert from "node:assert/strict";
import shared from "../../shared/deno.json" with { type: "json" };
import { memberOf } from "./files.ts";
import { findCircles, findImports, readImportGraph } from "./import_graph.ts";

const graph = await readImportGraph();

Deno.test("imports of the workspace form no cycle, also with types", () => {
  assert.deepEqual(findCircles(graph).map((circle) => circle.join(" -> ")), []);
});

Deno.test("every import of the workspace resolves to an existing file", async () => {
  assert.ok(graph.size > 1000);
  for (const [file, targets] of graph) {
    for (const target of targets) {
      if (graph.has(target)) continue;
      await assert.doesNotReject(
        Deno.stat(new URL(`../../${target}`, import.meta.url)),
        `${file}: ${target}`,
      );
    }
  }
});

Deno.test("each export path of shared is imported by at least one member", () => {
  const used = new Set<string>();
  for (const [file, targets] of graph) {
    const member = memberOf(file);
    if (member !== "shared" && member !== "tests") { for (const target of targets) used.add(target); }
  }
  const doors = Object.values(shared.exports).map((path) => path.replace("./", "shared/"));
  assert.deepEqual(doors.filter((path) => !used.has(path)), []);
});

Deno.test.each([
  { name: "a file that imports itself", graph: { a: ["a"] }, circles: ["a a"] },
  { name: "two files", graph: { a: ["b"], b: ["a"] }, circles: ["a b a"] },
  {
    name: "a cycle behind a first file that is not part of it",
    graph: { a: ["b"], b: ["c"], c: ["b"] },
    circles: ["b c b"],
  },
  { name: "none in two ways to one file", graph: { a: ["b", "c"], b: ["d"], c: ["d"], d: [] }, circles: [] },
  {
    name: "two cycles",
    graph: { a: ["b"], b: ["a"], c: ["d"], d: ["c"] },
    circles: ["a b a", "c d c"],
  },
])("findCircles() returns $name", ({ graph, circles }) => {
  assert.deepEqual(findCircles(new Map(Object.entries(graph))).map((circle) => circle.join(" ")), circles);
});

Deno.test.each([
  { name: "a value", source: 'import { b } from "./b.ts";' },
  { name: "a type", source: 'import type { B } from "./b.ts";' },
  { name: "a type among values", source: 'import { type B } from "./b.ts";' },
  { name: "a re-export", source: 'export { b } from "./b.ts";' },
  { name: "a re-export of a type", source: 'export type { B } from "./b.ts";' },
  { name: "a re-export of all names", source: 'export * from "./b.ts";' },
  { name: "import()", source: 'await import("./b.ts");' },
  { name: "import() of a type", source: 'export type A = import("./b.ts").B;' },
  {
    name: "a package of the workspace",
    source: 'import "@gateway/control-plane/b";',
    path: "control_plane/b.ts",
  },
])("findImports() returns $name", ({ source, path = "signer/b.ts" }) => {
  assert.deepEqual(findImports("signer/a.ts", source), [path]);
});
