import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import fc from "fast-check";
import { type ChainHead, createAuditKey, encodeRecord, GENESIS, hashLine, seal } from "./record.ts";
import { type ChainProblem, checkLog } from "./verify.ts";
import { createHash, createPublicKey, verify } from "node:crypto";

const KEY = createAuditKey(new Uint8Array(32).fill(5));

function chain(count: number, head: ChainHead = GENESIS): readonly string[] {
  const lines: string[] = [];
  for (let index = 0; index < count; index++) {
    // The ext of the last record is not yet covered by a hash.
    const ext = index === 0 ? '{"request_id":"r-1"}' : "";
    const { line, next } = seal({ body: `{"outcome":"r${index} é"`, ext }, head, KEY);
    lines.push(line);
    head = next;
  }
  return lines;
}

async function check(content: string | Uint8Array, options: { expectedHash?: string; key?: boolean } = {}) {
  const problems: ChainProblem[] = [];
  const result = await checkLog([Buffer.from(content)], {
    publicKey: options.key === false ? undefined : KEY.publicKey,
    expectedHash: options.expectedHash,
    onProblem: (problem) => problems.push(problem),
  });
  assert.equal(result.problems, problems.length);
  return { ...result, found: problems.map(({ line, kind }) => `${line} ${kind}`), problems };
}

const [A, B, C, D] = chain(4) as [string, string, string, string];
const text = (...lines: readonly string[]) => lines.map((line) => `${line}\n`).join("");

Deno.test("checkLog() accepts a complete chain", async () => {
  const result = await check(text(A, B, C), { expectedHash: "" });
  assert.deepEqual([result.entries, result.problems.length, result.lastHash], [3, 0, hashLine(C)]);
});

Deno.test.each([
  { name: "nothing", content: "" },
  { name: "a last record without newline", content: text(A, B) + C },
  { name: "empty lines", content: `${A}\n\n${B}\n` },
  { name: "a first record that is linked to a missing record", content: text(B, C) },
])("checkLog() accepts $name", async ({ content }) => {
  assert.deepEqual((await check(content)).found, []);
});

Deno.test.each([
  ["an altered record", text(A, B.replace("r1", "r7"), C), undefined, ["2 signature", "3 prev_hash"]],
  ["a removed record", text(A, C), undefined, ["2 gap", "2 prev_hash"]],
  [
    "swapped records",
    text(A, C, B, D),
    undefined,
    ["2 gap", "2 prev_hash", "3 gap", "3 prev_hash", "4 gap", "4 prev_hash"],
  ],
  ["a repeated record", text(A, B, B, C), undefined, ["3 gap", "3 prev_hash"]],
  ["a malformed line", text(A, "x", B), undefined, ["2 malformed", "3 prev_hash"]],
  ["a truncated last line", text(A) + B.slice(0, 30), undefined, ["2 malformed"]],
  [
    "a line over the cap, and what follows it",
    text(A, "x".repeat(300_000), B.replace("r1", "r7")),
    undefined,
    ["2 too_long", "3 signature"],
  ],
  [
    "a record of another key",
    text(seal({ body: '{"x":1', ext: "" }, GENESIS, createAuditKey(new Uint8Array(32))).line),
    undefined,
    ["1 signature"],
  ],
  ["a removed beginning, where one is expected", text(B, C), "", ["1 prev_hash"]],
  ["a first record linked elsewhere", text(A, B), "00", ["1 prev_hash"]],
])("checkLog() reports %s", async (_name, content, hash, found) => {
  assert.deepEqual((await check(content, hash === undefined ? {} : { expectedHash: hash })).found, found);
});

Deno.test("checkLog() reports defects with fixed terms", async () => {
  const { problems } = await check(text(A, C, "x", "y".repeat(300_000), B.replace("r1", "r7")));
  const words = problems.map(({ message }) => message.split(":")[0]).join(", ");
  assert.equal(words, "gap or reorder, prev_hash mismatch, malformed JSON, line too long, signature invalid");
});

Deno.test("checkLog() accepts a forged log if it has no key", async () => {
  const forged =
    seal({ body: '{"outcome":"forged"', ext: "" }, GENESIS, createAuditKey(new Uint8Array(32))).line;
  assert.deepEqual((await check(text(forged), { key: false })).found, []);
});

Deno.test("checkLog() detects a change of any byte", async () => {
  const content = Buffer.from(text(A, B, C));
  const position = fc.integer({ min: 0, max: content.length - 1 });
  await fc.assert(
    fc.asyncProperty(position, fc.integer({ min: 1, max: 255 }), async (at, change) => {
      const altered = Buffer.from(content);
      altered[at]! ^= change;
      assert.notDeepEqual((await check(altered, { expectedHash: "" })).found, []);
    }),
    { numRuns: 1000 },
  );
});

Deno.test("checkLog() detects a flip of any single bit", async () => {
  const content = Buffer.from(text(A, B));
  for (let bit = 0; bit < content.length * 8; bit++) {
    const altered = Buffer.from(content);
    altered[bit >> 3]! ^= 1 << (bit & 7);
    const { found } = await check(altered, { expectedHash: "" });
    if (found.length === 0) assert.fail(`bit ${bit} was not noticed`);
  }
});

const KEY_REFERENCE_READER = createAuditKey(new Uint8Array(32).fill(1));
/** The published key of that seed, as SPKI. */
const PUBLIC_KEY = createPublicKey({
  key: Buffer.from("MCowBQYDK2VwAyEAiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=", "base64"),
  format: "der",
  type: "spki",
});

/** In the order of the reference's record. Fields with `?` are omitted if empty or false. */
const FIELDS =
  ("time caller host user principal command ttl serial session_id? target_type? body_sha256? outcome " +
    "exit_code err? elevation? pty? policy_rule? dry_run? warning? approval_id? approved_by? approved_via? anomaly? " +
    "seq prev_hash sig").split(" ");

/** Encodes a string like Go's encoding/json. */
function goString(text: string): string {
  const short: Record<string, string> = {
    ...{ '"': '\\"', "\\": "\\\\", "\b": "\\b", "\f": "\\f", "\n": "\\n", "\r": "\\r", "\t": "\\t" },
  };
  let json = "";
  for (const character of text) {
    const code = character.codePointAt(0)!;
    const isEscaped = code < 0x20 || code === 0x2028 || code === 0x2029 || "<>&".includes(character);
    json += short[character] ?? (isEscaped ? `\\u${code.toString(16).padStart(4, "0")}` : character);
  }
  return `"${json}"`;
}

/** Decodes a line like Go's decoder. Numbers keep their digits, because a serial has 64 bits. */
function decode(line: string): Record<string, string | boolean | { readonly digits: string }> {
  return JSON.parse(line, function (this: unknown, _key, value, context?: { readonly source?: string }) {
    return typeof value === "number" ? { digits: context?.source } : value;
  });
}

function signedBytes(line: string): string {
  const record: Record<string, unknown> = { ...decode(line), sig: "" };
  const members = FIELDS.flatMap((field) => {
    const name = field.replace("?", "");
    const value = record[name];
    if (field.endsWith("?") && (value === undefined || value === "" || value === false)) return [];
    if (typeof value === "object") return [`"${name}":${(value as { readonly digits: string }).digits}`];
    return [`"${name}":${typeof value === "string" ? goString(value) : String(value)}`];
  });
  return `{${members.join(",")}}`;
}

/** The reason why the reference would reject a log, or `undefined`. */
function findDefect(lines: readonly string[]): string | undefined {
  let [hash, seq] = ["", 0];
  for (const line of lines) {
    const { seq: number, prev_hash, sig } = decode(line);
    if ((number as { readonly digits: string }).digits !== `${seq + 1}`) return "gap or reorder";
    if (prev_hash !== hash) return "prev_hash mismatch";
    const signature = Buffer.from(String(sig), "base64");
    if (!verify(null, Buffer.from(signedBytes(line)), PUBLIC_KEY, signature)) return "signature invalid";
    [hash, seq] = [createHash("sha256").update(line).digest("hex"), seq + 1];
  }
  return undefined;
}

/** Writes a log of this program: records with and without `ext`. */
function writeLog(): string[] {
  let head = GENESIS;
  const odd = 'a<b> & "c" \\ \u2028 é \x01\x7f\n';
  return [
    { outcome: "issued", serial: 18446744073709551615n, command_line: odd, request_id: "r-1", reason: odd },
    { outcome: "reloaded", command: "reload hosts=3" },
    {
      ...{ outcome: "session_exec", command: odd, err: odd, exit_code: 3 },
      ...{ pty: true, session_id: "s", host_name: "web01" },
    },
    { outcome: "approval-granted", policy_version: 7, approved_by: "ann", target_type: "k8s", jti: "t" },
  ].map((entry) => {
    const record = encodeRecord(entry, { time: "2026-01-02T03:04:05.5Z" });
    const { line, next } = seal(record, head, KEY_REFERENCE_READER);
    head = next;
    return line;
  });
}

Deno.test("a verifier that implements only the reference's fields accepts a log with ext", () => {
  const lines = writeLog();
  assert.equal(lines.filter((line) => line.includes('"ext":{')).length, 3);
  assert.equal(findDefect(lines), undefined);
});

Deno.test.each([
  [
    "a field that is signed",
    '"serial":18446744073709551615',
    '"serial":18446744073709551614',
    "signature invalid",
  ],
  ["a value that only ext contains", '"request_id":"r-1"', '"request_id":"r-2"', "prev_hash mismatch"],
])("a verifier with only the reference's fields detects a change of %s", (_name, from, to, defect) => {
  const [first = "", ...more] = writeLog();
  assert.equal(findDefect([first.replace(from, to), ...more]), defect);
});
