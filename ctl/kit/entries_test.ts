import assert from "node:assert/strict";
import { splitPatterns } from "./entries.ts";

Deno.test.each([
  { name: "a blank at the end, without which it would match more", values: ["^ls "], patterns: ["^ls "] },
  { name: "a blank at its beginning", values: [" --force"], patterns: [" --force"] },
  { name: "an escaped blank", values: ["^ls\\ "], patterns: ["^ls\\ "] },
  { name: "a blank behind an escaped dollar", values: ["^echo \\$ "], patterns: ["^echo \\$ "] },
  { name: "blanks of each of several", values: ["^ls ", "^w "], patterns: ["^ls ", "^w "] },
  { name: "a comma in braces", values: ["^a{1,3}$,^b"], patterns: ["^a{1,3}$", "^b"] },
  { name: "a comma in parentheses", values: ["^(a,(b)|c,d)$,^b"], patterns: ["^(a,(b)|c,d)$", "^b"] },
  { name: "a comma in a class", values: ["^[a,b]$,^b"], patterns: ["^[a,b]$", "^b"] },
  {
    name: "a class of brackets and parentheses",
    values: ["^[](,]$,^[^])]$,^[[:alpha:],]$,^b"],
    patterns: ["^[](,]$", "^[^])]$", "^[[:alpha:],]$", "^b"],
  },
  { name: "an escaped comma", values: ["^a\\,b$,^\\(,^c"], patterns: ["^a\\,b$", "^\\(", "^c"] },
  { name: "a quoted comma", values: ["^\\Qa,(\\E$,^b"], patterns: ["^\\Qa,(\\E$", "^b"] },
])("splitPatterns() keeps $name", ({ values, patterns }) => {
  assert.deepEqual(splitPatterns(values, "--allow"), patterns);
});

Deno.test.each([
  { values: ["^ls,^cat"], patterns: ["^ls", "^cat"] },
  { values: ["ls,cat", "^w$"], patterns: ["ls", "cat", "^w$"] },
  { values: ["^ls$,cat"], patterns: ["^ls$", "cat"] },
])("splitPatterns() splits $values at commas", ({ values, patterns }) => {
  assert.deepEqual(splitPatterns(values, "--allow"), patterns);
});

Deno.test.each(["^a,b$", "^a, b$", "^a,b,^c$"])(
  "splitPatterns() rejects %s, which a split would make wider",
  (value) => assert.throws(() => splitPatterns([value], "--allow"), /Cannot split --allow/),
);

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
