import assert from "node:assert/strict";
import { inRequest } from "../service/mod.ts";
import { MemoryAuditLog } from "../testing/memory_audit_log.ts";
import { AuditGate } from "./gate.ts";
import { formatStamp, logsOfSet, nextSegmentName, nthLog, sortSegments } from "./files.ts";
import { Buffer } from "node:buffer";
import { type ChainHead, createAuditKey, GENESIS, hashLine, seal } from "./record.ts";
import { inspectTail, splitLines } from "./verify.ts";
import fc from "fast-check";

function setUp(failMode?: "closed" | "open" | "") {
  const log = new MemoryAuditLog();
  const seen = { failures: 0, blocked: 0, errors: [] as unknown[], infos: [] as string[] };
  const gate = new AuditGate({
    log,
    failMode,
    logger: {
      info: (message) => seen.infos.push(message),
      error: (message, fields) => seen.errors.push([message, fields]),
    },
    onAppendFailure: () => seen.failures++,
    onBlocked: () => seen.blocked++,
  });
  return { log, gate, seen };
}

Deno.test.each(
  [
    { name: "closed", failMode: "closed" },
    { name: "empty, which means closed", failMode: "" },
    { name: "absent, which means closed", failMode: undefined },
    // deno-lint-ignore no-explicit-any -- what a config that was not checked could hold
    { name: "unknown, which means closed", failMode: "opne" as any },
  ] as const,
)("AuditGate.require() blocks the action in mode $name if the append fails (L11)", async ({ failMode }) => {
  const { log, gate, seen } = setUp(failMode);
  log.failing = true;
  const refusal = { name: "AppError", code: "audit_unavailable", message: "audit unavailable" };
  await assert.rejects(gate.require({ outcome: "issued" }), refusal);
  assert.deepEqual([seen.failures, seen.blocked, seen.errors.length], [1, 1, 1]);
});

Deno.test("AuditGate.require() resolves in mode open, counts the failure and logs it", async () => {
  const { log, gate, seen } = setUp("open");
  log.failing = true;
  await gate.require({ outcome: "issued", caller: "broker-1" });
  assert.deepEqual([seen.failures, seen.blocked], [1, 0]);
  const why = { consequence: "action proceeds", cause: "audit unavailable: no space left" };
  const fields = { outcome: "issued", caller: "broker-1", ...why };
  assert.deepEqual(seen.errors, [["Cannot append audit record", fields]]);
});

Deno.test.each([{ failMode: "closed" }, { failMode: "open" }] as const)(
  "AuditGate.bestEffort() resolves despite a failed append in mode $failMode",
  async ({ failMode }) => {
    const { log, gate, seen } = setUp(failMode);
    log.failing = true;
    await gate.bestEffort({ outcome: "denied" });
    assert.deepEqual([seen.failures, seen.blocked, seen.errors.length], [1, 0, 1]);
  },
);

Deno.test("AuditGate.require() succeeds again after the log recovers", async () => {
  const { log, gate, seen } = setUp("closed");
  log.failing = true;
  await assert.rejects(gate.require({ outcome: "first" }));
  log.failing = false;
  await gate.require({ outcome: "second" });
  assert.deepEqual(log.entries, [{ outcome: "second" }]);
  assert.equal(seen.failures, 1);
});

Deno.test("AuditGate.close() closes the log (L22)", async () => {
  const { log, gate } = setUp();
  await gate.close();
  assert.equal(log.closed, true);
});

Deno.test.each(
  [
    { failMode: "closed", isOpen: false },
    { failMode: "open", isOpen: true },
  ] as const,
)(
  "AuditGate.check() logs a changed log once and its recovery once ($failMode)",
  ({ failMode, isOpen }) => {
    const { log, gate, seen } = setUp(failMode);
    gate.check();
    assert.deepEqual([gate.isOpen, seen.errors.length], [true, 0]);
    log.failing = true;
    for (let time = 0; time < 3; time++) gate.check();
    assert.deepEqual([gate.isOpen, seen.errors.length, seen.infos.length], [isOpen, 1, 0]);
    log.failing = false;
    for (let time = 0; time < 3; time++) gate.check();
    assert.deepEqual([gate.isOpen, seen.errors.length, seen.infos.length], [true, 1, 1]);
  },
);

Deno.test("AuditGate adds the request ID to its records and to the log line of a failed append", async () => {
  const { log, gate, seen } = setUp();
  await inRequest({ name: "POST", id: "r-1" }, async () => {
    await gate.require({ outcome: "a" });
    await gate.bestEffort({ outcome: "b", request_id: "r-0" });
    log.failing = true;
    await gate.bestEffort({ outcome: "c" });
  });
  log.failing = false;
  await gate.bestEffort({ outcome: "d" });
  assert.deepEqual(log.entries, [
    { outcome: "a", request_id: "r-1" },
    { outcome: "b", request_id: "r-0" },
    { outcome: "d" },
  ]);
  assert.match(JSON.stringify(seen.errors), /"request_id":"r-1"/);
});

const NOW = Date.UTC(2026, 0, 2, 3, 4, 5, 678);

Deno.test("formatStamp() formats the time in UTC with a precision of seconds", () => {
  assert.equal(formatStamp(NOW), "20260102T030405Z");
});

Deno.test("sortSegments() sorts by time and then by number, numerically (L5)", () => {
  const sorted = [
    "a.log.20251231T235959Z.11",
    "a.log.20260102T030405Z",
    "a.log.20260102T030405Z.2",
    "a.log.20260102T030405Z.10",
  ];
  assert.deepEqual(sortSegments("a.log", sorted.toReversed()).map(({ name }) => name), sorted);
});

Deno.test.each([
  { name: "the log itself", file: "a.log" },
  { name: "its lock", file: "a.log.lock" },
  { name: "torn bytes put aside (L7)", file: "a.log.corrupt-20260102T030405Z" },
  { name: "torn bytes put aside with a number (L7)", file: "a.log.corrupt-20260102T030405Z.1" },
  { name: "another log", file: "b.log.20260102T030405Z" },
  { name: "a log with the same prefix", file: "a.log2.20260102T030405Z" },
  { name: "a compressed file", file: "a.log.20260102T030405Z.gz" },
  { name: "a number with a zero before it", file: "a.log.20260102T030405Z.01" },
])("sortSegments() omits $name", ({ file }) => {
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
])("nextSegmentName() returns %s", (_name, present, next) => {
  assert.equal(nextSegmentName("a.log", sortSegments("a.log", present), NOW), next);
});

Deno.test.each([
  { path: "/log/audit.log", number: 1, log: "/log/audit.log" },
  { path: "/log/audit.log", number: 2, log: "/log/audit-2.log" },
  { path: "/log/audit.2026.jsonl", number: 3, log: "/log/audit.2026-3.jsonl" },
  { path: "/log.d/audit", number: 2, log: "/log.d/audit-2" },
  { path: "audit.log", number: 2, log: "audit-2.log" },
])("nthLog() of $path and number $number is $log", ({ path, number, log }) => {
  assert.equal(nthLog(path, number), log);
});

Deno.test("logsOfSet() finds existing logs and rotated logs of the set, and no other files", () => {
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
  const logs = ["/log/audit.log", "/log/audit-3.log", "/log/audit-4.log"];
  assert.deepEqual(logsOfSet("/log/audit.log", names), logs);
});

const KEY = createAuditKey(new Uint8Array(32).fill(3));
const OTHER = createAuditKey(new Uint8Array(32).fill(4));

function chain(count: number, key = KEY): readonly string[] {
  const lines: string[] = [];
  let head: ChainHead = GENESIS;
  for (let index = 0; index < count; index++) {
    const { line, next } = seal({ body: `{"outcome":"r${index}"`, ext: '{"request_id":"r-1"}' }, head, key);
    lines.push(line);
    head = next;
  }
  return lines;
}

const [A, B, C] = chain(3) as [string, string, string];
const inspect = (text: string, whole = true) =>
  inspectTail(Buffer.from(text, "latin1"), whole, KEY.publicKey);
const good = (seq: number, line: string, terminated = true, tornBytes = 0) => ({
  kind: "good",
  head: { seq, hash: hashLine(line) },
  terminated,
  tornBytes,
});

Deno.test.each([
  ["an empty file", "", { kind: "empty", tornBytes: 0 }],
  ["empty lines only", "\n\n", { kind: "empty", tornBytes: 0 }],
  ["one record", `${A}\n`, good(1, A)],
  ["several records (L1)", `${A}\n${B}\n${C}\n`, good(3, C)],
  ["an empty line after the last record", `${A}\n${B}\n\n`, good(2, B)],
  ["a whole record without newline", `${A}\n${B}`, good(2, B, false)],
  ["a first record without newline", A, good(1, A, false)],
  ["a torn record (L10)", `${A}\n${B.slice(0, 50)}`, good(1, A, true, 50)],
  ["a record torn before its last byte", `${A}\n${B.slice(0, -1)}`, good(1, A, true, B.length - 1)],
  ["one byte of a record", `${A}\n{`, good(1, A, true, 1)],
  ["a torn first record", A.slice(0, 50), { kind: "empty", tornBytes: 50 }],
  ["zeros where a record was to be", `${A}\n\0\0\0\0`, good(1, A, true, 4)],
  ["a character torn in its middle", `${A}\n{"outcome":"\xc3`, good(1, A, true, 13)],
])("inspectTail() accepts %s", (_name, text, state) => {
  assert.deepEqual(inspect(text), state);
});

Deno.test("inspectTail() finds the last complete record wherever the next record was torn (L10)", () => {
  for (let kept = 1; kept < B.length; kept++) {
    assert.deepEqual(inspect(`${A}\n${B.slice(0, kept)}`), good(1, A, true, kept));
  }
});

const [FOREIGN] = chain(1, OTHER) as [string];
Deno.test.each([
  ["a malformed line with its newline", `${A}\n${B.slice(0, 50)}\n`, /not a record/],
  ["JSON that is not a record", `${A}\n{}`, /not a record/],
  ["a record of another key", `${FOREIGN}\n`, /not signed by this audit key/],
  ["a record of another key without newline", FOREIGN, /not signed by this audit key/],
  ["an altered record", `${A.replace("r0", "r9")}\n`, /not signed by this audit key/],
  ["a record with another before it", `${A}\n${C}\n`, /not linked/],
  ["a record after an altered one", `${A}\n${B.replace("r1", "r9")}\n${C}\n`, /not linked/],
  ["a bad record before a torn one", `${A}\nx\n${C.slice(0, 9)}`, /not a record/],
  ["a line over the cap", `${"x".repeat(262_145)}\n`, /longer than 262144 bytes/],
  ["a torn line over the cap", `${A}\n${"x".repeat(262_145)}`, /longer than 262144 bytes/],
])("inspectTail() rejects %s", (_name, text, reason) => {
  const state = inspect(text);
  assert.ok(state.kind === "broken");
  assert.match(state.reason, reason);
});

Deno.test("inspectTail() relies on the last record if the window truncates the previous one", () => {
  assert.deepEqual(inspect(`${A.slice(40)}\n${B}\n`, false), good(2, B));
  assert.equal(inspect(`${A.slice(40)}\n${C}\n`, false).kind, "good");
});

Deno.test("inspectTail() rejects a window without a complete line", () => {
  assert.equal(inspect(`${A.slice(40)}\n`, false).kind, "broken");
  assert.equal(inspect("\n".repeat(9), false).kind, "broken");
});

async function split(chunks: readonly string[], maxBytes = 100) {
  const lines: [string, boolean, boolean][] = [];
  for await (const line of splitLines(chunks.map((chunk) => Buffer.from(chunk)), maxBytes)) {
    lines.push([Buffer.from(line.bytes).toString(), line.terminated, line.tooLong]);
  }
  return lines;
}

Deno.test.each([
  ["returns no lines for no chunks", [], [], undefined],
  ["splits at LF", ["a\nb\n"], [["a", true, false], ["b", true, false]], undefined],
  ["marks a last line without newline", ["a\nb"], [["a", true, false], ["b", false, false]], undefined],
  ["joins chunks", ["a", "b\nc", "", "d\n"], [["ab", true, false], ["cd", true, false]], undefined],
  ["keeps CR", ["a\r\n"], [["a\r", true, false]], undefined],
  ["keeps empty lines", ["\n\na\n"], [["", true, false], ["", true, false], ["a", true, false]], undefined],
  ["accepts a line of maximum length", ["aaaa\n"], [["aaaa", true, false]], 4],
  ["cuts a longer line", ["aaaab\nc\n"], [["aaaa", true, true], ["c", true, false]], 4],
  [
    "cuts a longer line across chunks",
    ["aaa", "abb", "b\nc"],
    [["aaaa", true, true], ["c", false, false]],
    4,
  ],
])("splitLines() %s", async (_name, chunks, lines, max) => {
  assert.deepEqual(await split(chunks, max), lines);
});

Deno.test("splitLines() returns the same lines however the bytes are chunked", async () => {
  const pieces = fc.array(fc.string({ unit: fc.constantFrom("a", "b", "\n"), maxLength: 8 }));
  await fc.assert(fc.asyncProperty(pieces, async (chunks) => {
    assert.deepEqual(await split(chunks, 3), await split([chunks.join("")], 3));
  }));
});
