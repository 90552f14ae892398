/**
 * The reference's verifier, written again from the facts about it and from nothing else of this project: it decodes the
 * fields that it knows, ignores all others, encodes the record again with an empty `sig`, and verifies that.
 *
 * @module
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { createHash, createPublicKey, verify } from "node:crypto";
import { createAuditKey, encodeRecord, GENESIS, seal } from "./record.ts";

const KEY = createAuditKey(new Uint8Array(32).fill(1));
/** The published key of that seed, as SPKI. */
const PUBLIC_KEY = createPublicKey({
  key: Buffer.from("MCowBQYDK2VwAyEAiojj3XQJ8ZX9UtstPLpdcspnCb8dlBIb83SIAbQPb1w=", "base64"),
  format: "der",
  type: "spki",
});

/** In the order of the reference's record; those with `?` are omitted if they are empty or false. */
const FIELDS =
  ("time caller host user principal command ttl serial session_id? target_type? body_sha256? outcome " +
    "exit_code err? elevation? pty? policy_rule? dry_run? warning? approval_id? approved_by? approved_via? anomaly? " +
    "seq prev_hash sig").split(" ");

/** A string as Go's encoding/json writes it. */
function goString(text: string): string {
  const short: Record<string, string> = {
    '"': '\\"',
    "\\": "\\\\",
    "\b": "\\b",
    "\f": "\\f",
    "\n": "\\n",
    "\r": "\\r",
    "\t": "\\t",
  };
  let json = "";
  for (const character of text) {
    const code = character.codePointAt(0)!;
    const isEscaped = code < 0x20 || code === 0x2028 || code === 0x2029 || "<>&".includes(character);
    json += short[character] ?? (isEscaped ? `\\u${code.toString(16).padStart(4, "0")}` : character);
  }
  return `"${json}"`;
}

/** What Go's decoder reads of a line: numbers keep their digits, because a serial has 64 bits. */
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

/** Why the reference would not accept a log; `undefined` if it would. */
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

/** As this program writes it, records with and without `ext`. */
function writeLog(): string[] {
  let head = GENESIS;
  const odd = 'a<b> & "c" \\ \u2028 é \x01\x7f\n';
  return [
    { outcome: "issued", serial: 18446744073709551615n, command_line: odd, request_id: "r-1", reason: odd },
    { outcome: "reloaded", command: "reload hosts=3" },
    {
      outcome: "session_exec",
      command: odd,
      err: odd,
      pty: true,
      session_id: "s",
      host_name: "web01",
      exit_code: 3,
    },
    { outcome: "approval-granted", policy_version: 7, approved_by: "ann", target_type: "k8s", jti: "t" },
  ].map((entry) => {
    const { line, next } = seal(encodeRecord(entry, { time: "2026-01-02T03:04:05.5Z" }), head, KEY);
    head = next;
    return line;
  });
}

Deno.test("a verifier that knows only the reference's fields accepts a log with ext", () => {
  const lines = writeLog();
  assert.equal(lines.filter((line) => line.includes('"ext":{')).length, 3);
  assert.equal(findDefect(lines), undefined);
});

Deno.test.each([
  {
    name: "a field that is signed",
    from: '"serial":18446744073709551615',
    to: '"serial":18446744073709551614',
    defect: "signature invalid",
  },
  {
    name: "what only ext holds",
    from: '"request_id":"r-1"',
    to: '"request_id":"r-2"',
    defect: "prev_hash mismatch",
  },
])("a verifier that knows only the reference's fields finds a change of $name", ({ from, to, defect }) => {
  const [first = "", ...more] = writeLog();
  assert.equal(findDefect([first.replace(from, to), ...more]), defect);
});
