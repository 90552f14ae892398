import assert from "node:assert/strict";
import { describeChange, describeDiff } from "./words.ts";

const change = { path: "spec.replicas", before: "2", after: "3" };

Deno.test.each(
  [
    { diff: { kind: "created", changes: [change, change] }, words: "creates the object, with 2 fields" },
    { diff: { kind: "changed", changes: [change] }, words: "changes 1 field" },
    { diff: { kind: "changed", changes: [change], omitted: 7 }, words: "changes 8 fields" },
    { diff: { kind: "unchanged" }, words: "changes nothing" },
    { diff: { kind: "unknown" }, words: "what it changes could not be found out" },
    {
      diff: { kind: "unknown", reason: "no right\x1b[2J" },
      words: "what it changes could not be found out: no right\\x1b[2J",
    },
  ] as const,
)("describeDiff() says: $words", ({ diff, words }) => assert.equal(describeDiff(diff), words));

Deno.test.each([
  { change, words: "spec.replicas: 2 → 3" },
  { change: { path: "a", after: '"x"' }, words: 'a: (not there) → "x"' },
  { change: { path: "a", before: "1" }, words: "a: 1 → (goes)" },
  { change: { path: "a\u202e", before: "\n", after: "\x07" }, words: "a\\u{202e}: \\x0a → \\x07" },
])("describeChange() says: $words", ({ change, words }) => assert.equal(describeChange(change), words));
