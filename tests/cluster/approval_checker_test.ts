import assert from "node:assert/strict";
import { findApprovalContradictions } from "./approval_checker.ts";
import type { ApprovalAttempt } from "./history.ts";

const at = (
  step: ApprovalAttempt["step"],
  asked: number,
  status: number,
  { ended = asked + 1, isPending = false, subject = "a" } = {},
): ApprovalAttempt => ({
  ...{ subject, step, asked, ended, status, isPending },
  result: status === 200 ? "done" : status >= 500 || status === 0 ? "unknown" : "refused",
});
const approve = at("approve", 1, 200);

Deno.test.each([
  { name: "one that was approved, and collected once", attempts: [approve, at("collect", 3, 200)], bad: [] },
  {
    name: "two collections",
    attempts: [approve, at("collect", 3, 200), at("collect", 3, 200)],
    bad: ["collected 2 times"],
  },
  {
    name: "two that are not the same",
    attempts: [
      approve,
      at("collect", 3, 200),
      { ...approve, subject: "b" },
      at("collect", 3, 200, { subject: "b" }),
    ],
    bad: [],
  },
  { name: "two decisions", attempts: [approve, at("deny", 1, 200)], bad: ["decided 2 times"] },
  {
    name: "a denied one that is collected",
    attempts: [at("approve", 1, 0), at("deny", 1, 200), at("collect", 3, 200)],
    bad: ["collected, and denied"],
  },
  {
    name: "a collection of what nobody approved",
    attempts: [at("approve", 1, 409), at("deny", 0, 503), at("collect", 3, 200)],
    bad: ["collected, and nobody approved it"],
  },
  {
    name: "an approval whose answer was lost",
    attempts: [at("approve", 1, 0), at("collect", 3, 200)],
    bad: [],
  },
  {
    name: "one that nobody had and is used up",
    attempts: [approve, at("collect", 3, 410)],
    bad: ["used up, and nobody collected it"],
  },
  {
    name: "one whose collection may have been lost on its way",
    attempts: [approve, at("collect", 2, 0), at("collect", 3, 410)],
    bad: [],
  },
  {
    name: "a collection that came later than one that is told so",
    attempts: [approve, at("collect", 2, 200, { ended: 9 }), at("collect", 3, 410)],
    bad: [],
  },
  {
    name: "a denial of nobody's",
    attempts: [approve, at("collect", 3, 403)],
    bad: ["refused as denied, and nobody denied it"],
  },
  { name: "one that is lost", attempts: [at("collect", 3, 404)], bad: ["unknown, though it was parked"] },
  { name: "one that ends early", attempts: [at("collect", 3, 408)], bad: ["expired before its time"] },
  {
    name: "a decision that is lost",
    attempts: [approve, at("collect", 3, 202, { isPending: true })],
    bad: ["undecided, though it was decided"],
  },
  {
    name: "a decision at the same time as a poll",
    attempts: [approve, at("collect", 1, 202, { isPending: true })],
    bad: [],
  },
  {
    name: "one that is not pending",
    attempts: [at("approve", 1, 409)],
    bad: ["not pending, and nobody decided it"],
  },
  { name: "one that came too late", attempts: [approve, at("deny", 1, 409)], bad: [] },
])("findApprovalContradictions() judges $name", ({ attempts, bad }) => {
  assert.deepEqual(findApprovalContradictions(attempts), bad.map((what) => `approval a: ${what}`));
});
