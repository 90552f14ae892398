import assert from "node:assert/strict";
import { encodeRecord, formatTime } from "@gateway/shared/audit";
import { describeSignRequest } from "@gateway/shared/policy";
import { signRequest } from "@gateway/shared/wire";
import {
  findAnswers,
  readIssuedRecord,
  readIssuedRecords,
  type RecordedCertificate,
  toIssued,
} from "./recorded.ts";

const NOW = 1_700_000_000_500;
const SERIAL = 2n ** 64n - 1n;
const REQUEST = { host: "web01", role: "target", purpose: "session", session_mode: "exec", command: "" };

function lineOf(request: Record<string, unknown>, entry: Record<string, unknown> = {}, now = NOW): string {
  const command = describeSignRequest(signRequest.parse({ ...REQUEST, ...request }));
  const fields = { caller: "broker-1", host: "10.0.0.1:22", serial: SERIAL, outcome: "issued", command };
  const { body, ext } = encodeRecord({ ...fields, ...entry }, { time: formatTime(now) });
  return `${body},"seq":1,"prev_hash":"","sig":""${ext && `,"ext":${ext}`}}`;
}

const EXPECTED: RecordedCertificate = {
  caller: "broker-1",
  endUser: "",
  host: "10.0.0.1:22",
  role: "target",
  serial: SERIAL,
  recordedAt: NOW,
};

Deno.test.each<[name: string, line: string, expected: RecordedCertificate | undefined]>([
  ["a certificate, its serial exact", lineOf({}), EXPECTED],
  ["one for an end user", lineOf({ end_user: "alice" }), { ...EXPECTED, endUser: "alice" }],
  [
    "one of a bastion, whose reason names a user",
    lineOf({ role: "bastion", session_mode: "", reason: "for user=root" }),
    { ...EXPECTED, role: "bastion" },
  ],
  [
    "one that was issued through elevation",
    lineOf({ end_user: "alice", sudo: true, pty: true, command: "id" }),
    { ...EXPECTED, endUser: "alice" },
  ],
  ["a refusal", lineOf({}, { outcome: "denied" }), undefined],
  [
    "a command that says it was issued",
    lineOf({}, { outcome: "denied", command: 'role=target purpose=x "outcome":"issued"' }),
    undefined,
  ],
  ["a token of a cluster", lineOf({}, { target_type: "k8s", serial: 0n }), undefined],
  ["half a line", lineOf({}).slice(0, 200), undefined],
  ["no JSON", "issued", undefined],
])("readIssuedRecord() of %s", (_name, line, expected) => {
  assert.deepEqual(readIssuedRecord(line), expected);
});

Deno.test("readIssuedRecords() goes back as far as it is told to", async () => {
  const lines = (async function* () {
    for (const age of [0, 1000, 5000, 20_000, 1]) {
      yield lineOf({}, { serial: BigInt(age + 1) }, NOW - age);
      yield "not a record";
    }
  })();
  const found = [];
  for await (const { serial } of readIssuedRecords(lines, NOW - 5000)) found.push(serial);
  assert.deepEqual(found, [1n, 1001n, 5001n]);
});

Deno.test("toIssued() counts a certificate as asked for through any forwarder, and as good for as long as any may be", () => {
  const { holders, facts } = toIssued({ ...EXPECTED, endUser: "alice" }, ["control-plane"]);
  assert.deepEqual(holders.map(({ peer, caller, endUser }) => ({ peer, caller, endUser })), [
    { peer: "broker-1", caller: "broker-1", endUser: "alice" },
    { peer: "control-plane", caller: "broker-1", endUser: "alice" },
  ]);
  assert.deepEqual(facts, { serial: SERIAL, issuedAt: 1_700_000_000, validBefore: 1_700_000_900 });
});

Deno.test("findAnswers() finds what came of a caller's requests by their ids, which no command can forge", async () => {
  const of = (request_id: string, entry: Record<string, unknown> = {}) =>
    lineOf({}, { request_id, ...entry });
  const lines = [
    of("r-1", { serial: 1n }),
    of("r-1", { serial: 2n, target_type: "k8s" }),
    of("r-1", { serial: 3n, caller: "broker-2" }),
    of("r-1", { serial: 4n, outcome: "frozen_denied" }),
    of("r-2", { serial: 5n }),
    of("r-2", { serial: 6n, command_line: "echo rid=r-1" }),
    of("r-2", { serial: 13n, command: "echo rid=r-1" }),
    lineOf({}, { serial: 14n, command: "role=target purpose=oneshot cmd=echo rid=r-2 rid=r-1" }),
    of("r-11", { serial: 7n }),
    lineOf({}, { serial: 8n, command_line: "echo rid=r-1x" }),
    of("r-1", { serial: 9n, command: "", command_line: "" }),
    of("r-1.0123456789ab", { serial: 12n }),
    `not a record rid=r-1 "outcome":"issued"`,
    lineOf({}, { request_id: "r-1", serial: 10n }, NOW - 60_000),
    of("r-1", { serial: 11n }),
  ];
  const find = (...wanted: string[]) =>
    Array.fromAsync(findAnswers(ReadableStream.from(lines), new Set(wanted), NOW - 1000));
  assert.deepEqual(await find("r-1 broker-1"), [
    { caller: "broker-1", serial: 1n, isToken: false, reason: "answer-lost" },
    { caller: "broker-1", serial: 2n, isToken: true, reason: "answer-lost" },
    { caller: "broker-1", serial: 14n, isToken: false, reason: "answer-lost" },
    { caller: "broker-1", serial: 9n, isToken: false, reason: "answer-lost" },
    { caller: "broker-1", serial: 12n, isToken: false, reason: "answer-lost" },
  ]);
  assert.deepEqual(await find("r-1 broker-3", "x"), []);
  assert.deepEqual(await find("serial=5 broker-1", "serial=3 broker-1", "serial=8 broker-2", "serial=1"), [
    { caller: "broker-1", serial: 5n, isToken: false, reason: "named-elsewhere" },
  ]);
});
