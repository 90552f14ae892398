import fc from "fast-check";
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { AppError } from "../errors.ts";
import {
  type AuditEntry,
  type ChainHead,
  createAuditKey,
  createAuditPublicKey,
  encodeRecord,
  encodeText,
  formatTime,
  GENESIS,
  hashLine,
  MAX_LINE_BYTES,
  parseLine,
  readOldCommand,
  type RecordText,
  seal,
  TRUNCATED,
  verifySignature,
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
  { name: "escapes what HTML acts on", text: "<a>&", json: String.raw`"\u003ca\u003e\u0026"` },
  { name: "escapes the line separators", text: "\u2028\u2029", json: String.raw`"\u2028\u2029"` },
  { name: "leaves DEL and C1 raw", text: "\x7f\x85", json: '"\x7f\x85"' },
  { name: "leaves other characters raw", text: "é/日😀'", json: `"é/日😀'"` },
  { name: "replaces a lone high surrogate", text: "a\ud800b", json: '"a\ufffdb"' },
  { name: "replaces a lone low surrogate", text: "\udc00", json: '"\ufffd"' },
])("encodeText() $name", ({ text, json }) => {
  assert.equal(encodeText(text), json);
});

Deno.test("encodeText() gives one line of JSON that reads back, whatever the text (L13)", () => {
  fc.assert(fc.property(fc.string({ unit: "binary" }), (text) => {
    const json = encodeText(text);
    assert.equal(JSON.parse(json), text.toWellFormed());
    assert.doesNotMatch(json, /[\n\r\u2028\u2029<>&]/);
  }));
});

Deno.test("encodeRecord() writes every member in order (L8)", () => {
  const entry: Required<AuditEntry> = {
    jti: "t",
    reason: "w",
    content_sha256: "11",
    policy_version: 4,
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
      '"session_id":"s","host_name":"web01","addr":"h","policy_version":4,"content_sha256":"11","reason":"w",' +
      '"jti":"t"}',
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
  const { ext, ...line } = JSON.parse(
    lineOf(encodeRecord({ outcome: "denied", ...entry }, { time: TIME, redact: RULE })),
  );
  const actual = { ...line, ...ext, ext };
  assert.deepEqual({ ...actual, ...record }, actual);
});

Deno.test("encodeRecord() truncates the command line, and keeps its digest and the request's ID", () => {
  const command_line = "a".repeat(300_000);
  const { command, ext } = encode({
    outcome: "denied",
    command: "role=target",
    command_line,
    request_id: "r-1",
  });
  assert.match(ext.command_line, /^a+\.{3}\[TRUNCATED\]$/);
  assert.deepEqual([command, ext.command_sha256, ext.request_id], [
    "role=target",
    "12e1b9b179b29a4f7e5889b185d7ac71bff0ad1f49a7b391d0911b737a0f5381",
    "r-1",
  ]);
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

Deno.test("encodeRecord() leaves out what is empty or false, but for the members that always stand", () => {
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
  const secret = {
    caller: "x",
    host: "x",
    policy_rule: "x",
    command: "x",
    err: "x",
    warning: "x",
    anomaly: "x",
  };
  const body = JSON.parse(
    lineOf(encodeRecord({ outcome: "x", ...secret }, { time: TIME, redact: () => "MASKED" })),
  );
  for (const field of ["command", "err", "warning", "anomaly"]) assert.equal(body[field], "MASKED");
  for (const field of ["caller", "host", "policy_rule", "outcome"]) assert.equal(body[field], "x");
});

Deno.test.each([
  { name: "an exit code with a fraction", entry: { outcome: "x", exit_code: 1.5 } },
  { name: "an exit code that is not a number", entry: { outcome: "x", exit_code: NaN } },
  { name: "a negative serial", entry: { outcome: "x", serial: -1n } },
  { name: "a serial of 65 bits", entry: { outcome: "x", serial: 1n << 64n } },
])("encodeRecord() refuses $name", ({ entry }) => {
  assert.throws(() => encodeRecord(entry, { time: TIME }), RangeError);
});

Deno.test("encodeRecord() cuts the longest free text and marks it", () => {
  const entry = encode({
    outcome: "x",
    host: "h".repeat(1000),
    command: "c".repeat(300_000),
    err: "e".repeat(9),
  });
  assert.match(entry.command, /^c+\.\.\.\[TRUNCATED\]$/);
  assert.equal(entry.err, "e".repeat(9));
  assert.equal(entry.host.length, 1000);
  assert.ok(entry.command.length > 258_000);
});

Deno.test("encodeRecord() cuts where the room ends, to the byte, whatever the characters", () => {
  const unit = fc.constantFrom(
    "a",
    "<",
    "&",
    '"',
    "\\",
    "\n",
    "\x01",
    "\x7f",
    "é",
    "日",
    "😀",
    "\u2028",
    "\ud800",
  );
  fc.assert(
    fc.property(fc.array(unit, { minLength: 1, maxLength: 6 }), (units) => {
      const text = units.join("").repeat(270_000);
      const bytes = Buffer.byteLength(encodeRecord({ outcome: "x", command: text }, { time: TIME }).body);
      assert.ok(bytes <= MAX_LINE_BYTES - 1024 && bytes > MAX_LINE_BYTES - 1024 - 6, `${bytes} bytes`);
    }),
    { numRuns: 20 },
  );
});

Deno.test("encodeRecord() cuts on a character boundary", () => {
  for (const pad of ["", "a"]) {
    const { command } = encode({ outcome: "x", command: pad + "😀".repeat(100_000) });
    const kept = command.slice(0, -TRUNCATED.length);
    assert.equal(kept.isWellFormed(), true);
    assert.doesNotMatch(kept, /\ufffd/);
  }
});

Deno.test.each([
  ["four long texts", ["command", "err", "warning", "anomaly"], "<"],
  ["escapes that grow six times", ["command", "host"], "\x01"],
  ["fields that are not free text", ["host", "caller", "policy_rule", "outcome"], "é"],
  ["every text at once", [
    "caller",
    "host",
    "user",
    "principal",
    "command",
    "ttl",
    "session_id",
    "target_type",
    "body_sha256",
    "outcome",
    "err",
    "elevation",
    "policy_rule",
    "warning",
    "approval_id",
    "approved_by",
    "approved_via",
    "anomaly",
    "command_line",
    "request_id",
    "host_name",
    "addr",
    "content_sha256",
    "reason",
    "jti",
  ], "\ud800"],
])("encodeRecord() keeps the line under the cap with %s (L9)", (_name, long, unit) => {
  const entry = Object.fromEntries(long.map((field) => [field, unit.repeat(200_000)]));
  const text = encodeRecord({ outcome: "x", ...entry }, { time: TIME });
  assert.ok(Buffer.byteLength(text.body + text.ext) <= MAX_LINE_BYTES - 1024);
  JSON.parse(lineOf(text));
});

Deno.test("encodeRecord() keeps the line under the cap when redaction lengthens it (L9)", () => {
  const redact = (text: string) => text.replaceAll("x", "[REDACTED:a-rule-with-a-long-name]");
  const { body } = encodeRecord({ outcome: "o", command: "x".repeat(65_536) }, { time: TIME, redact });
  assert.ok(Buffer.byteLength(body) <= MAX_LINE_BYTES - 1024);
});

const KEY = createAuditKey(new Uint8Array(32).fill(1));
const DEL = "\x7f";

/** A chain of three under the seed of 32 bytes 0x01. */
const VECTORS: readonly { readonly time: string; readonly entry: AuditEntry; readonly line: string }[] = [
  {
    time: "2026-01-02T03:04:05Z",
    entry: {
      caller: "broker-1",
      host: "10.0.0.1:22",
      user: "deploy",
      principal: "host:web01",
      command: "role=target purpose=oneshot",
      serial: 18446744073709551615n,
      outcome: "issued",
    },
    line:
      '{"time":"2026-01-02T03:04:05Z","caller":"broker-1","host":"10.0.0.1:22","user":"deploy","principal":"host:web01","command":"role=target purpose=oneshot","ttl":"","serial":18446744073709551615,"outcome":"issued","exit_code":0,"seq":1,"prev_hash":"","sig":"0YcQR77L7UxPALfPZITJluDuVQbJF8gMDOa77e8RcEkETXRyhxG627qh9bufjUfI5htoKfiat4tu4YJk18/eDQ=="}',
  },
  {
    time: "2026-01-02T03:04:06.5Z",
    entry: {
      caller: "admin",
      host: "web01",
      command: "policy-allow-add",
      outcome: "policy-failed",
      err: 'a<b> & "c" \u2028 é \x01\x7f',
      policy_rule: "allow:^x$",
    },
    line: String
      .raw`{"time":"2026-01-02T03:04:06.5Z","caller":"admin","host":"web01","user":"","principal":"","command":"policy-allow-add","ttl":"","serial":0,"outcome":"policy-failed","exit_code":0,"err":"a\u003cb\u003e \u0026 \"c\" \u2028 é \u0001${DEL}","policy_rule":"allow:^x$","seq":2,"prev_hash":"d78c0341193214e6e04495def710b712c3ccafcc7c0ab018dbc7d5658fd865c4","sig":"Lpd0j8rzrOjMYCut+RQJP2ZV7RYoOHyTMWFipsSo0YTdsRXBd5ZJpsYJTAu2e2r3qqtQB+tS/P0h7fiVH6B2CA=="}`,
  },
  {
    time: "2026-01-02T03:04:07.123456789Z",
    entry: {
      caller: "broker-1",
      host: "https://10.0.0.5:6443",
      command: "target=k8s verb=get resource=pods ns=prod name=web-1",
      ttl: "2m0s",
      serial: 7n,
      session_id: "s1",
      target_type: "k8s",
      body_sha256: "00",
      outcome: "issued",
      exit_code: 3,
      elevation: "sudo:root",
      pty: true,
      policy_rule: "allow:x",
      dry_run: true,
      warning: "w",
      approval_id: "id",
      approved_by: "by",
      approved_via: "elicitation",
      anomaly: "new-host:h",
    },
    line:
      '{"time":"2026-01-02T03:04:07.123456789Z","caller":"broker-1","host":"https://10.0.0.5:6443","user":"","principal":"","command":"target=k8s verb=get resource=pods ns=prod name=web-1","ttl":"2m0s","serial":7,"session_id":"s1","target_type":"k8s","body_sha256":"00","outcome":"issued","exit_code":3,"elevation":"sudo:root","pty":true,"policy_rule":"allow:x","dry_run":true,"warning":"w","approval_id":"id","approved_by":"by","approved_via":"elicitation","anomaly":"new-host:h","seq":3,"prev_hash":"894c9d81753b1cd4193fb008e50f99085642d7fb0eb0d2e141922d5074b88786","sig":"zMamzHt5TJTolVMdbO3NSEPJ7Sy4RYOQoLZjpZj8EeTWmGUzwErh0glm6B3WpIo1L+W0x84v9j0TcJ72qaN2BQ=="}',
  },
];

Deno.test("createAuditKey() derives the public key of the seed", () => {
  assert.equal(KEY.publicKey.bytes.toBase64(), "iojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=");
});

Deno.test("createAuditKey() uses the first 32 bytes of a longer file and refuses a shorter one", () => {
  const longer = createAuditKey(new Uint8Array([...new Uint8Array(32).fill(1), 9, 9]));
  assert.deepEqual(longer.publicKey.bytes, KEY.publicKey.bytes);
  assert.throws(
    () => createAuditKey(new Uint8Array(31)),
    new AppError("invalid_config", "Audit key has 31 bytes: at least 32 are needed"),
  );
});

Deno.test("createAuditPublicKey() refuses another length", () => {
  assert.throws(() => createAuditPublicKey(new Uint8Array(31)), { code: "invalid_config" });
});

Deno.test("seal() writes the published chain byte for byte", () => {
  let head: ChainHead = GENESIS;
  for (const { time, entry, line } of VECTORS) {
    const sealed = seal({ ...encodeRecord(entry, { time }), ext: "" }, head, KEY);
    assert.equal(sealed.line, line);
    head = sealed.next;
  }
});

Deno.test("verifySignature() accepts the published chain", () => {
  const key = createAuditPublicKey(KEY.publicKey.bytes);
  let previous = "";
  for (const [index, { line }] of VECTORS.entries()) {
    const record = parseLine(Buffer.from(line));
    assert.ok(record !== undefined);
    assert.equal(record.seq, BigInt(index + 1));
    assert.equal(record.prevHash, previous);
    assert.equal(verifySignature(record, key), true);
    previous = hashLine(line);
  }
});

Deno.test("verifySignature() refuses another key", () => {
  const record = parseLine(Buffer.from(VECTORS[0]!.line));
  assert.equal(verifySignature(record!, createAuditKey(new Uint8Array(32).fill(2)).publicKey), false);
});

Deno.test("verifySignature() accepts a record with another ext, which the hash of its line covers", () => {
  const other = WITH_EXT.replace('"r-1"', '"r-2"');
  for (const line of [WITH_EXT, other, LINE]) {
    assert.equal(verifySignature(parseLine(Buffer.from(line))!, KEY.publicKey), true);
  }
  assert.notEqual(hashLine(other), hashLine(WITH_EXT));
  const changed = parseLine(Buffer.from(WITH_EXT.replace("deploy", "root")))!;
  assert.equal(verifySignature(changed, KEY.publicKey), false);
});

const LINE = VECTORS[0]!.line;
const WITH_EXT = `${LINE.slice(0, -1)},"ext":{"request_id":"r-1"}}`;
Deno.test.each([
  { name: "nothing", line: "" },
  { name: "half a line", line: LINE.slice(0, 200) },
  { name: "JSON that is not an object", line: `[${LINE}]` },
  { name: "JSON without a chain", line: '{"outcome":"issued"}' },
  { name: "a blank after it", line: LINE + " " },
  { name: "a carriage return after it", line: LINE + "\r" },
  { name: "a byte order mark before it", line: "\ufeff" + LINE },
  { name: "two records", line: LINE + LINE },
  { name: "a member after sig", line: LINE.slice(0, -1) + ',"x":1}' },
  { name: "a signature in another spelling", line: LINE.replace("eDQ==", "eDR==") },
  { name: "a signature that is too short", line: LINE.replace("eDQ==", "eD==") },
  { name: "a member after ext", line: WITH_EXT.slice(0, -1) + ',"outcome":"denied"}' },
  { name: "a second ext", line: WITH_EXT.slice(0, -1) + ',"ext":{"request_id":"r-2"}}' },
  { name: "an ext that is not an object", line: WITH_EXT.replace('{"request_id":"r-1"}', "7") },
  { name: "an ext before sig", line: WITH_EXT.replace('"sig":', '"ext":{},"sig":') },
  { name: "an ext that is not closed", line: WITH_EXT.slice(0, -1) },
  { name: "an ext with a record in it", line: WITH_EXT.replace('"r-1"', LINE) + "}" },
  { name: "a prev_hash in upper case", line: VECTORS[1]!.line.replace("d78c", "D78C") },
  { name: "a negative seq", line: LINE.replace('"seq":1', '"seq":-1') },
])("parseLine() refuses $name", ({ line }) => {
  assert.equal(parseLine(Buffer.from(line)), undefined);
});

Deno.test("parseLine() refuses bytes that are not UTF-8", () => {
  const bytes = Buffer.from(LINE);
  bytes[30] = 0xff;
  assert.equal(parseLine(bytes), undefined);
});

Deno.test("seal() signs any entry so that its line reads back and verifies", () => {
  const text = fc.string({ unit: "binary" });
  const arbitrary = fc.record({
    outcome: text,
    caller: text,
    host: text,
    command: text,
    err: text,
    policy_rule: text,
    command_line: text,
    reason: text,
    request_id: text,
    serial: fc.bigInt({ min: 0n, max: (1n << 64n) - 1n }),
  });
  fc.assert(fc.property(arbitrary, (entry) => {
    const { line } = seal(encodeRecord(entry, { time: "t" }), GENESIS, KEY);
    const record = parseLine(Buffer.from(line));
    assert.ok(record !== undefined && verifySignature(record, KEY.publicKey));
    const parsed = JSON.parse(line);
    assert.equal(parsed.command, entry.command.toWellFormed());
    assert.equal(parsed.ext?.reason ?? "", entry.reason.toWellFormed());
    assert.match(line, new RegExp(`"serial":${entry.serial},`));
  }));
});
