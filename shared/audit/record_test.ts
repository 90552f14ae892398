import fc from "fast-check";
import { anyCharacter } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import {
  type AuditEntry,
  encodeRecord,
  encodeText,
  formatTime,
  MAX_LINE_BYTES,
  readOldCommand,
  type RecordText,
  TRUNCATED,
} from "./record.ts";

const TIME = "2026-01-02T03:04:05Z";
const lineOf = ({ body, ext }: RecordText) => `${body}${ext && `,"ext":${ext}`}}`;
const encode = (entry: AuditEntry) => JSON.parse(lineOf(encodeRecord(entry, { time: TIME })));

Deno.test.each([
  { name: "drops a zero fraction", ms: 1767323045000, text: "2026-01-02T03:04:05Z" },
  { name: "trims the fraction", ms: 1767323046500, text: "2026-01-02T03:04:06.5Z" },
  { name: "keeps milliseconds", ms: 1767323046507, text: "2026-01-02T03:04:06.507Z" },
  { name: "keeps inner zeros", ms: 1767323050050, text: "2026-01-02T03:04:10.05Z" },
  { name: "keeps seconds that end in zero", ms: 1767323050000, text: "2026-01-02T03:04:10Z" },
])("formatTime() $name", ({ ms, text }) => {
  assert.equal(formatTime(ms), text);
});

Deno.test.each([
  { name: "uses the short escapes", text: '"\\\b\f\n\r\t', json: String.raw`"\"\\\b\f\n\r\t"` },
  { name: "writes other controls as lower hex", text: "\0\x1b\x1f", json: String.raw`"\u0000\u001b\u001f"` },
  { name: "escapes characters special in HTML", text: "<a>&", json: String.raw`"\u003ca\u003e\u0026"` },
  { name: "escapes the line separators", text: "\u2028\u2029", json: String.raw`"\u2028\u2029"` },
  { name: "leaves DEL and C1 raw", text: "\x7f\x85", json: '"\x7f\x85"' },
  { name: "leaves other characters raw", text: "é/日😀'", json: `"é/日😀'"` },
  { name: "replaces a lone high surrogate", text: "a\ud800b", json: '"a\ufffdb"' },
  { name: "replaces a lone low surrogate", text: "\udc00", json: '"\ufffd"' },
])("encodeText() $name", ({ text, json }) => {
  assert.equal(encodeText(text), json);
});

Deno.test("encodeText() returns one line of JSON that decodes to any given text (L13)", () => {
  fc.assert(fc.property(fc.string({ unit: anyCharacter(fc) }), (text) => {
    const json = encodeText(text);
    assert.equal(JSON.parse(json), text.toWellFormed());
    assert.doesNotMatch(json, /[\n\r\u2028\u2029<>&]/);
  }));
});

Deno.test("encodeRecord() writes every member in order (L8)", () => {
  const entry: Required<AuditEntry> = {
    decision: "{}",
    jti: "t",
    approvals: [{
      approver: "ann",
      kind: "ssh",
      credential: "c",
      document_sha256: "2",
      proof: { document: "<" },
    }],
    reason: "w",
    content_sha256: "11",
    policy_version: 4,
    end_user: "eu",
    addr: "h",
    host_name: "web01",
    anomaly: "a",
    approved_via: "v",
    approved_by: "b",
    approval_id: "i",
    warning: "w",
    dry_run: true,
    policy_rule: "r",
    pty: true,
    elevation: "sudo:root",
    err: "e",
    exit_code: -1,
    outcome: "o",
    body_sha256: "00",
    target_type: "k8s",
    session_id: "s",
    serial: 18446744073709551615n,
    ttl: "2m0s",
    request_id: "r-1",
    command_line: "abc",
    command: "c",
    principal: "p",
    user: "u",
    host: "h",
    caller: "cn",
  };
  const { body, ext } = encodeRecord(entry, { time: TIME });
  assert.equal(
    body,
    '{"time":"2026-01-02T03:04:05Z","caller":"cn","host":"h","user":"u","principal":"p","command":"c",' +
      '"ttl":"2m0s","serial":18446744073709551615,"session_id":"s","target_type":"k8s","body_sha256":"00",' +
      '"outcome":"o","exit_code":-1,"err":"e","elevation":"sudo:root","pty":true,"policy_rule":"r",' +
      '"dry_run":true,"warning":"w","approval_id":"i","approved_by":"b","approved_via":"v","anomaly":"a"',
  );
  assert.equal(
    ext,
    '{"command_line":"abc",' +
      '"command_sha256":"ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad","request_id":"r-1",' +
      '"session_id":"s","host_name":"web01","addr":"h","end_user":"eu","policy_version":4,"content_sha256":"11","reason":"w",' +
      '"jti":"t","decision":"{}","approvals":[{"approver":"ann","kind":"ssh","credential":"c",' +
      '"document_sha256":"2","proof":{"document":"\\u003c"}}]}',
  );
});

const RULE = (text: string) => text.replaceAll(/^login \S+|-----BEGIN.*/gs, "[REDACTED:x]");

Deno.test.each([
  {
    name: "masks the command line and the reason",
    entry: { command: "role=target", command_line: "login hunter2", reason: "login hunter2" },
    record: { command: "role=target", command_line: "[REDACTED:x]", reason: "[REDACTED:x]" },
  },
  {
    name: "leaves a command that looks like an old record as it is",
    entry: { command: "ls rid=forged", request_id: "r-1" },
    record: { command: "ls rid=forged", request_id: "r-1" },
  },
  {
    name: "has no digest if no command was requested",
    entry: { command: "role=bastion", command_line: "" },
    record: { command: "role=bastion", ext: undefined },
  },
])("encodeRecord() $name", ({ entry, record }) => {
  const encoded = encodeRecord({ outcome: "denied", ...entry }, { time: TIME, redact: RULE });
  const { ext, ...line } = JSON.parse(lineOf(encoded));
  const actual = { ...line, ...ext, ext };
  assert.deepEqual({ ...actual, ...record }, actual);
});

Deno.test("encodeRecord() truncates the command line and keeps its digest and the request ID", () => {
  const command_line = "a".repeat(300_000);
  const entry = { outcome: "denied", command: "role=target", command_line, request_id: "r-1" };
  const { command, ext } = encode(entry);
  assert.match(ext.command_line, /^a+\.{3}\[TRUNCATED\]$/);
  assert.deepEqual([command, ext.request_id], ["role=target", "r-1"]);
  const digest = "12e1b9b179b29a4f7e5889b185d7ac71bff0ad1f49a7b391d0911b737a0f5381";
  assert.equal(ext.command_sha256, digest);
});

Deno.test.each([
  { text: "uptime rid=r-1", command: "uptime", request_id: "r-1" },
  { text: "ls rid=r-2 rid=r-1", command: "ls rid=r-2", request_id: "r-1" },
  { text: "uptime", command: "uptime", request_id: "" },
  {
    text: "role=target sha256=00 cmd=ls rid=r-1 x",
    command: "role=target sha256=00 cmd=ls rid=r-1 x",
    request_id: "",
  },
])("readOldCommand() of $text", ({ text, ...expected }) => {
  assert.deepEqual(readOldCommand(text), expected);
});

Deno.test("encodeRecord() omits empty and false members, except the mandatory ones", () => {
  const { body, ext } = encodeRecord(
    { outcome: "", err: "", elevation: "", pty: false, dry_run: false, session_id: "", anomaly: "" },
    { time: TIME },
  );
  assert.equal(
    body,
    '{"time":"2026-01-02T03:04:05Z","caller":"","host":"","user":"","principal":"","command":"","ttl":"",' +
      '"serial":0,"outcome":"","exit_code":0',
  );
  assert.equal(ext, "");
});

Deno.test("encodeRecord() redacts command, err, warning and anomaly only (L17)", () => {
  const [masked, plain] = [["command", "err", "warning", "anomaly"], [
    "caller",
    "host",
    "policy_rule",
    "outcome",
  ]];
  const entry = Object.fromEntries([...masked, ...plain].map((field) => [field, "x"]));
  const record = encodeRecord({ outcome: "x", ...entry }, { time: TIME, redact: () => "MASKED" });
  const body = JSON.parse(lineOf(record));
  for (const field of masked) assert.equal(body[field], "MASKED");
  for (const field of plain) assert.equal(body[field], "x");
});

Deno.test.each([
  { name: "an exit code with a fraction", entry: { outcome: "x", exit_code: 1.5 } },
  { name: "an exit code that is not a number", entry: { outcome: "x", exit_code: NaN } },
  { name: "a negative serial", entry: { outcome: "x", serial: -1n } },
  { name: "a serial of 65 bits", entry: { outcome: "x", serial: 1n << 64n } },
])("encodeRecord() rejects $name", ({ entry }) => {
  assert.throws(() => encodeRecord(entry, { time: TIME }), RangeError);
});

Deno.test("encodeRecord() truncates the longest free text and marks it", () => {
  const texts = { host: "h".repeat(1000), command: "c".repeat(300_000), err: "e".repeat(9) };
  const entry = encode({ outcome: "x", ...texts });
  assert.match(entry.command, /^c+\.\.\.\[TRUNCATED\]$/);
  assert.equal(entry.err, "e".repeat(9));
  assert.equal(entry.host.length, 1000);
  assert.ok(entry.command.length > 258_000);
});

Deno.test("encodeRecord() truncates exactly at the byte limit for any characters", () => {
  const unit = fc.constantFrom(...'a<&"\\\n\x01\x7fé日😀\u2028', "\ud800");
  fc.assert(
    fc.property(fc.array(unit, { minLength: 1, maxLength: 6 }), (units) => {
      const text = units.join("").repeat(Math.ceil(270_000 / units.length));
      const bytes = Buffer.byteLength(encodeRecord({ outcome: "x", command: text }, { time: TIME }).body);
      assert.ok(bytes <= MAX_LINE_BYTES - 1024 && bytes > MAX_LINE_BYTES - 1024 - 6, `${bytes} bytes`);
    }),
    { numRuns: 20 },
  );
});

Deno.test("encodeRecord() truncates on a character boundary", () => {
  for (const pad of ["", "a"]) {
    const { command } = encode({ outcome: "x", command: pad + "😀".repeat(100_000) });
    const kept = command.slice(0, -TRUNCATED.length);
    assert.equal(kept.isWellFormed(), true);
    assert.doesNotMatch(kept, /\ufffd/);
  }
});

const TEXTS =
  ("caller host user principal command ttl session_id target_type body_sha256 outcome err elevation policy_rule " +
    "warning approval_id approved_by approved_via anomaly command_line request_id host_name addr content_sha256 " +
    "reason jti").split(" ");

Deno.test.each([
  ["four long texts", ["command", "err", "warning", "anomaly"], "<"],
  ["escapes that grow six times", ["command", "host"], "\x01"],
  ["fields that are not free text", ["host", "caller", "policy_rule", "outcome"], "é"],
  ["every text at once", TEXTS, "\ud800"],
])("encodeRecord() keeps the line below the limit with %s (L9)", (_name, long, unit) => {
  const entry = Object.fromEntries(long.map((field) => [field, unit.repeat(200_000)]));
  const text = encodeRecord({ outcome: "x", ...entry }, { time: TIME });
  assert.ok(Buffer.byteLength(text.body + text.ext) <= MAX_LINE_BYTES - 1024);
  JSON.parse(lineOf(text));
});

Deno.test("encodeRecord() keeps the line below the limit if redaction lengthens the text (L9)", () => {
  const redact = (text: string) => text.replaceAll("x", "[REDACTED:a-rule-with-a-long-name]");
  const { body } = encodeRecord({ outcome: "o", command: "x".repeat(65_536) }, { time: TIME, redact });
  assert.ok(Buffer.byteLength(body) <= MAX_LINE_BYTES - 1024);
});
