import assert from "node:assert/strict";
import { threadCpuUsage } from "node:process";

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

/**
 * Quadratic time would take many minutes instead of seconds. CPU time excludes other programs, but they slow
 * this one down.
 */
const MAX_CPU_MS = 8000;

/** Fails if the CPU time of a function does not grow about linearly. */
export function assertFast(name: string, run: () => void): void {
  const from = cpuMs();
  run();
  const ms = cpuMs() - from;
  assert.ok(ms < MAX_CPU_MS, `${name} took ${ms.toFixed(0)} ms of CPU time`);
}

function cpuMs(): number {
  const { user, system } = threadCpuUsage();
  return (user + system) / 1000;
}
