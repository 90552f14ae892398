import assert from "node:assert/strict";
import { stringifyJson } from "@gateway/shared/json";
import { approvalRecord } from "@gateway/shared/wire";
import { approvalOf, CREATED_AT } from "../testing/sample_approval.ts";
import { toRecord } from "./approval.ts";

const TIMING = { now: CREATED_AT + 1000, timeoutMs: 120_000 };
const APPROVED = { kind: "approved", by: "alice", at: CREATED_AT + 500, learnTtlSeconds: 0 } as const;

Deno.test("toRecord() of a pending one: what is empty is absent, decided_at is the zero time", () => {
  assert.deepEqual(toRecord(approvalOf(), TIMING), {
    id: "00112233445566778899aabbccddeeff",
    caller: "broker-1",
    host: "web01",
    command: "systemctl restart nginx",
    rule: "require_approval:^systemctl restart",
    status: "pending",
    created_at: "2026-01-02T03:04:05.000Z",
    decided_at: "0001-01-01T00:00:00Z",
    expires_at: "2026-01-02T03:06:05.000Z",
  });
});

Deno.test("toRecord() of one that has everything, in the order of the specification (A3)", () => {
  const record = toRecord(
    approvalOf({
      endUser: "carol@example.com",
      sudo: true,
      sudoUser: "postgres",
      rule: "behavior",
      anomalies: ["new-host:web01", "new-command:systemctl"],
      state: { ...APPROVED, learnTtlSeconds: 7200 },
    }),
    TIMING,
  );
  assert.equal(
    stringifyJson(record),
    '{"id":"00112233445566778899aabbccddeeff","caller":"broker-1","end_user":"carol@example.com",' +
      '"host":"web01","command":"systemctl restart nginx","sudo":true,"sudo_user":"postgres",' +
      '"rule":"behavior","status":"approved","created_at":"2026-01-02T03:04:05.000Z",' +
      '"decided_by":"alice","decided_at":"2026-01-02T03:04:05.500Z","learn_ttl":7200000000000,' +
      '"anomalies":["new-host:web01","new-command:systemctl"],"expires_at":"2026-01-02T03:06:05.500Z"}',
  );
  assert.deepEqual(approvalRecord.parse(record), record);
});

Deno.test.each([
  { name: "one that has expired", fields: { createdAt: CREATED_AT - 120_000 }, status: "expired" },
  {
    name: "an approved one that was never collected",
    fields: { createdAt: CREATED_AT - 200_000, state: { ...APPROVED, at: CREATED_AT - 120_000 } },
    status: "expired",
  },
  {
    name: "a denied one",
    fields: { state: { kind: "denied", by: "alice", at: CREATED_AT } as const },
    status: "denied",
  },
  {
    name: "a collected one",
    fields: { state: { ...APPROVED, kind: "consumed" } as const },
    status: "approved",
  },
])("toRecord() of $name has no end", ({ fields, status }) => {
  const record = toRecord(approvalOf(fields), TIMING);
  assert.deepEqual([record.status, "expires_at" in record], [status, false]);
});

Deno.test.each([
  { name: "one command on a host", asked: {}, access: undefined },
  { name: "a hop", asked: { role: "bastion" }, access: ["bastion"] },
  {
    name: "a hop of a session",
    asked: { role: "bastion", purpose: "session" },
    access: ["bastion", "session"],
  },
  {
    name: "a terminal that stays open",
    asked: { purpose: "session", session_mode: "pty", pty: true },
    access: ["session:pty", "pty"],
  },
  { name: "a file", asked: { file_transfer: true }, access: ["file_transfer"] },
])("toRecord() tells $name by its access (A3)", ({ asked, access }) => {
  const request = { ...approvalOf().request, ...asked };
  const record = toRecord(approvalOf({ request }), TIMING);
  assert.deepEqual(record.access, access);
  assert.deepEqual(approvalRecord.parse(record), record);
});

Deno.test("toRecord() shows neither the request, nor its key, nor a token", () => {
  const request = Object.assign({ bearer_token: "secret" }, approvalOf().request);
  const text = stringifyJson(toRecord(approvalOf({ request }), TIMING));
  assert.doesNotMatch(text, /secret|public_key|AAAAC3|consumed/);
});

Deno.test("toRecord() gives the whole of a learning time, also where a number could not", () => {
  const learnTtlSeconds = 100 * 366 * 86_400;
  const { learn_ttl } = toRecord(approvalOf({ state: { ...APPROVED, learnTtlSeconds } }), TIMING);
  assert.equal(learn_ttl, 3_162_240_000_000_000_000n);
});
