import fc from "fast-check";
import { anyCharacter } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { AppError } from "../errors.ts";
import {
  type AuditEntry,
  type ChainHead,
  createAuditKey,
  createAuditPublicKey,
  encodeRecord,
  GENESIS,
  hashLine,
  parseLine,
  seal,
  verifySignature,
} from "./record.ts";

const KEY = createAuditKey(new Uint8Array(32).fill(1));
const DEL = "\x7f";

/** A chain of three records, signed with the seed of 32 bytes 0x01. */
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

Deno.test("createAuditKey() uses the first 32 bytes of a longer file and rejects a shorter file", () => {
  const longer = createAuditKey(new Uint8Array([...new Uint8Array(32).fill(1), 9, 9]));
  assert.deepEqual(longer.publicKey.bytes, KEY.publicKey.bytes);
  assert.throws(
    () => createAuditKey(new Uint8Array(31)),
    new AppError("invalid_config", "Audit key has 31 bytes: at least 32 are needed"),
  );
});

Deno.test("createAuditPublicKey() rejects a key of another length", () => {
  assert.throws(() => createAuditPublicKey(new Uint8Array(31)), { code: "invalid_config" });
});

Deno.test("seal() produces the reference chain byte for byte", () => {
  let head: ChainHead = GENESIS;
  for (const { time, entry, line } of VECTORS) {
    const sealed = seal({ ...encodeRecord(entry, { time }), ext: "" }, head, KEY);
    assert.equal(sealed.line, line);
    head = sealed.next;
  }
});

Deno.test("verifySignature() accepts the reference chain", () => {
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

Deno.test("verifySignature() rejects a signature of another key", () => {
  const record = parseLine(Buffer.from(VECTORS[0]!.line));
  assert.equal(verifySignature(record!, createAuditKey(new Uint8Array(32).fill(2)).publicKey), false);
});

Deno.test("verifySignature() accepts a record with a changed ext, which only the line hash covers", () => {
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
  { name: "a trailing space", line: LINE + " " },
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
])("parseLine() rejects $name", ({ line }) => {
  assert.equal(parseLine(Buffer.from(line)), undefined);
});

Deno.test("parseLine() rejects bytes that are not UTF-8", () => {
  const bytes = Buffer.from(LINE);
  bytes[30] = 0xff;
  assert.equal(parseLine(bytes), undefined);
});

Deno.test("seal() signs any entry, and the line can be parsed and verified", () => {
  const text = fc.string({ unit: anyCharacter(fc) });
  const arbitrary = fc.record({
    ...{ outcome: text, caller: text, host: text, command: text, err: text, policy_rule: text },
    ...{ command_line: text, reason: text, request_id: text },
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
