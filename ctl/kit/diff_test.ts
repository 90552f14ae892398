import assert from "node:assert/strict";
import { diffLines } from "./signer_change.ts";

const LINES = ["a", "b", "c", "d", "e", "f", "g", "h"];

Deno.test.each<{ name: string; after: string[]; diff: string[] }>([
  { name: "nothing of what is the same", after: LINES, diff: [] },
  {
    name: "a line that is another",
    after: LINES.with(4, "E"),
    diff: ["--- f", "+++ f", "@@ -2,7 +2,7 @@", " b", " c", " d", "-e", "+E", " f", " g", " h"],
  },
  {
    name: "a line more",
    after: [...LINES, "h"],
    diff: ["--- f", "+++ f", "@@ -6,3 +6,4 @@", " f", " g", " h", "+h"],
  },
  {
    name: "a line less",
    after: LINES.slice(1),
    diff: ["--- f", "+++ f", "@@ -1,4 +1,3 @@", "-a", " b", " c", " d"],
  },
])("diffLines() shows $name", ({ after, diff }) => {
  assert.deepEqual(diffLines(LINES.join("\n"), after.join("\n"), "f"), diff);
});
