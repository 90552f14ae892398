import assert from "node:assert/strict";
import { findContradictions } from "./checker.ts";
import type { Attempt } from "./history.ts";

const at = (asked: number, ended: number, result: Attempt["result"] = "done", subject = "u"): Attempt => ({
  ...{ subject, asked, ended, result },
});

Deno.test.each([
  { name: "a certificate after a freeze", freezes: [at(1, 2)], unfreezes: [], signs: [at(3, 4)], bad: 1 },
  { name: "one that was asked for before", freezes: [at(1, 3)], unfreezes: [], signs: [at(2, 4)], bad: 0 },
  {
    name: "one of another subject",
    freezes: [at(1, 2)],
    unfreezes: [],
    signs: [at(3, 4, "done", "v")],
    bad: 0,
  },
  { name: "a refusal", freezes: [at(1, 2)], unfreezes: [], signs: [at(3, 4, "refused")], bad: 0 },
  {
    name: "a freeze that nobody acknowledged",
    freezes: [at(1, 2, "unknown")],
    unfreezes: [],
    signs: [at(3, 4)],
    bad: 0,
  },
  { name: "an unfreeze between", freezes: [at(1, 2)], unfreezes: [at(3, 4)], signs: [at(5, 6)], bad: 0 },
  {
    name: "an unfreeze at the same time",
    freezes: [at(1, 2)],
    unfreezes: [at(3, 9)],
    signs: [at(4, 5)],
    bad: 0,
  },
  {
    name: "an unfreeze that may be done yet",
    freezes: [at(3, 4)],
    unfreezes: [at(1, 2, "unknown")],
    signs: [at(5, 6)],
    bad: 0,
  },
  { name: "an unfreeze before", freezes: [at(3, 4)], unfreezes: [at(1, 2)], signs: [at(5, 6)], bad: 1 },
  { name: "an unfreeze after", freezes: [at(1, 2)], unfreezes: [at(7, 8)], signs: [at(5, 6)], bad: 1 },
  {
    name: "an unfreeze that was refused",
    freezes: [at(1, 2)],
    unfreezes: [at(3, 4, "refused")],
    signs: [at(5, 6)],
    bad: 1,
  },
  {
    name: "a second freeze",
    freezes: [at(1, 2), at(5, 6)],
    unfreezes: [at(3, 4)],
    signs: [at(7, 8)],
    bad: 1,
  },
])("findContradictions() finds $bad in $name", ({ bad, name: _, ...history }) => {
  assert.equal(findContradictions(history).length, bad);
});
