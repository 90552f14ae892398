import assert from "node:assert/strict";
import { formatStamp, logsOfSet, nextSegmentName, nthLog, sortSegments } from "./files.ts";

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5, 678);

Deno.test("formatStamp() gives seconds in UTC", () => {
  assert.equal(formatStamp(NOW), "20260102T030405Z");
});

Deno.test("sortSegments() orders by time, then by number and not as text (L5)", () => {
  const names = [
    "a.log.20260102T030405Z.10",
    "a.log.20260102T030405Z.2",
    "a.log.20260102T030405Z",
    "a.log.20251231T235959Z.11",
  ];
  assert.deepEqual(sortSegments("a.log", names).map(({ name }) => name), [
    "a.log.20251231T235959Z.11",
    "a.log.20260102T030405Z",
    "a.log.20260102T030405Z.2",
    "a.log.20260102T030405Z.10",
  ]);
});

Deno.test.each([
  { name: "the log itself", file: "a.log" },
  { name: "its lock", file: "a.log.lock" },
  { name: "torn bytes put aside (L7)", file: "a.log.corrupt-20260102T030405Z" },
  { name: "torn bytes put aside with a number (L7)", file: "a.log.corrupt-20260102T030405Z.1" },
  { name: "another log", file: "b.log.20260102T030405Z" },
  { name: "a log whose name begins alike", file: "a.log2.20260102T030405Z" },
  { name: "a compressed file", file: "a.log.20260102T030405Z.gz" },
  { name: "a number with a zero before it", file: "a.log.20260102T030405Z.01" },
])("sortSegments() leaves out $name", ({ file }) => {
  assert.deepEqual(sortSegments("a.log", [file]), []);
});

Deno.test.each([
  ["the time alone for the first", [], "a.log.20260102T030405Z"],
  ["the time alone after an older one", ["a.log.20260102T030404Z.3"], "a.log.20260102T030405Z"],
  ["a number in the same second (L4)", ["a.log.20260102T030405Z"], "a.log.20260102T030405Z.1"],
  [
    "the number after the highest (L4)",
    ["a.log.20260102T030405Z.9", "a.log.20260102T030405Z.10"],
    "a.log.20260102T030405Z.11",
  ],
  ["the newest time when the clock was set back", ["a.log.20260102T040000Z"], "a.log.20260102T040000Z.1"],
])("nextSegmentName() takes %s", (_name, present, next) => {
  assert.equal(nextSegmentName("a.log", sortSegments("a.log", present), NOW), next);
});

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
