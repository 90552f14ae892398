import assert from "node:assert/strict";
import { logsOfSet, nthLog } from "./log_set.ts";

Deno.test.each([
  { path: "/log/audit.log", number: 1, log: "/log/audit.log" },
  { path: "/log/audit.log", number: 2, log: "/log/audit-2.log" },
  { path: "/log/audit.2026.jsonl", number: 3, log: "/log/audit.2026-3.jsonl" },
  { path: "/log.d/audit", number: 2, log: "/log.d/audit-2" },
  { path: "audit.log", number: 2, log: "audit-2.log" },
])("nthLog() of $path is $log for $number", ({ path, number, log }) => {
  assert.equal(nthLog(path, number), log);
});

Deno.test("logsOfSet() finds the logs that are there, or were, and nothing else", () => {
  const names = [
    "audit-2.log.lock",
    "audit-3.log",
    "audit-3.log.lock",
    "audit-4.log.20260102T030405Z",
    "audit-5.log.corrupt-20260102T030405Z",
    "audit-06.log",
    "audit-65.log",
    "audit-x.log",
    "other.log",
    "audit.log",
  ];
  assert.deepEqual(logsOfSet("/log/audit.log", names), [
    "/log/audit.log",
    "/log/audit-3.log",
    "/log/audit-4.log",
  ]);
});
