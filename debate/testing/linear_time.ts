import assert from "node:assert/strict";

/** Texts of a million characters that make careless patterns slow. */
export const HOSTILE_TEXTS: Readonly<Record<string, string>> = Object.fromEntries(
  [
    "{",
    "}",
    "[",
    '"',
    '{"',
    '{"a":',
    "{}",
    "\\",
    "`",
    "```{",
    "*",
    "#",
    "\n",
    "\r\n#",
    " ",
    "-",
    "HYPOTHESIS-",
    "HYPOTHESIS-1 ",
    "HYPOTHESIS-1 not ",
    "[hypothesis:1",
    "[hypothesis:1] ",
    "\n[hypothesis:1] rejected",
    "### HYPOTHESIS-1\nText: a\n",
    "### HYPOTHESIS-1 [P=",
    "**HYPOTHESIS-",
    "[tool:",
    "[tool:a]",
    "\n- [tool:a]",
    "EARLY_OUT_RATIONALE: ",
    "\nEARLY_OUT_RATIONALE: a",
    "rejected ",
    "Reason: ",
    "1",
    "a",
    "\ud800",
  ].map((unit) => [JSON.stringify(unit), unit.repeat(Math.ceil(1_000_000 / unit.length))]),
);

/** Fails when a function is not about linear: seconds, where quadratic time would be minutes. */
export function assertFast(name: string, run: () => void): void {
  const from = performance.now();
  run();
  const ms = performance.now() - from;
  assert.ok(ms < 2000, `${name} took ${ms.toFixed(0)} ms`);
}
