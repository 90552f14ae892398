import assert from "node:assert/strict";
import { splitPatterns } from "./lists.ts";

Deno.test.each([
  { name: "a blank at the end, without which it would match more", values: ["^ls "], patterns: ["^ls "] },
  { name: "a blank at its beginning", values: [" --force"], patterns: [" --force"] },
  { name: "an escaped blank", values: ["^ls\\ "], patterns: ["^ls\\ "] },
  { name: "a blank behind an escaped dollar", values: ["^echo \\$ "], patterns: ["^echo \\$ "] },
  { name: "blanks of each of several", values: ["^ls ", "^w "], patterns: ["^ls ", "^w "] },
  { name: "blanks at commas within", values: ["^a, b$ "], patterns: undefined },
])("splitPatterns() keeps $name", ({ values, patterns }) => {
  if (patterns === undefined) assert.throws(() => splitPatterns(values, "--allow"), /repeat the flag/);
  else assert.deepEqual(splitPatterns(values, "--allow"), patterns);
});

Deno.test.each([
  {
    name: "blanks between whole patterns",
    values: ["^id$, ^w$ ,^df -h$"],
    patterns: ["^id$", "^w$", "^df -h$"],
  },
  { name: "what is empty", values: ["", " "], patterns: [] },
])("splitPatterns() takes away $name", ({ values, patterns }) => {
  assert.deepEqual(splitPatterns(values, "--allow"), patterns);
});
