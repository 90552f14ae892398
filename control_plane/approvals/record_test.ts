import assert from "node:assert/strict";
import { stringifyJson } from "@gateway/shared/json";
import { approvalRecord } from "@gateway/shared/wire";
import { approvalOf, CREATED_AT, PUBLIC_KEY } from "../testing/sample_approval.ts";
import {
  type ApprovalState,
  decide,
  expiresAt,
  isSameKey,
  statusOf,
  toRecord,
  withoutToken,
} from "./approval.ts";
import * as fc from "fast-check";
import { ExpiryQueue } from "./approval_index.ts";

const TIMING = { now: CREATED_AT + 1000, timeoutMs: 120_000 };
const APPROVED = { kind: "approved", by: "alice", at: CREATED_AT + 500, learnTtlSeconds: 0 } as const;

Deno.test("toRecord() of a pending approval omits empty fields and has a zero decided_at", () => {
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

Deno.test("toRecord() of an approval with all fields keeps the order of the specification (A3)", () => {
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
  { name: "an expired request", fields: { createdAt: CREATED_AT - 120_000 }, status: "expired" },
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
])("toRecord() of $name has no expires_at", ({ fields, status }) => {
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
])("toRecord() returns the access of $name (A3)", ({ asked, access }) => {
  const request = { ...approvalOf().request, ...asked };
  const record = toRecord(approvalOf({ request }), TIMING);
  assert.deepEqual(record.access, access);
  assert.deepEqual(approvalRecord.parse(record), record);
});

Deno.test("toRecord() returns a learn_ttl above 2^53 nanoseconds exactly", () => {
  const learnTtlSeconds = 100 * 366 * 86_400;
  const { learn_ttl } = toRecord(approvalOf({ state: { ...APPROVED, learnTtlSeconds } }), TIMING);
  assert.equal(learn_ttl, 3_162_240_000_000_000_000n);
});

const TIMEOUT_MS = 120_000;
const AT = CREATED_AT + 60_000;
const PENDING: ApprovalState = { kind: "pending" };
const APPROVED_BY_ANN: ApprovalState = { kind: "approved", by: "alice", at: AT, learnTtlSeconds: 0 };
const CONSUMED: ApprovalState = { ...APPROVED_BY_ANN, kind: "consumed" };
const DENIED: ApprovalState = { kind: "denied", by: "alice", at: AT };

Deno.test.each([
  { name: "pending when new", state: PENDING, now: CREATED_AT, status: "pending" },
  { name: "pending at the timeout itself", state: PENDING, now: CREATED_AT + TIMEOUT_MS, status: "pending" },
  { name: "expired just after", state: PENDING, now: CREATED_AT + TIMEOUT_MS + 1, status: "expired" },
  { name: "approved", state: APPROVED_BY_ANN, now: AT, status: "approved" },
  {
    name: "approved at the timeout of the decision",
    state: APPROVED_BY_ANN,
    now: AT + TIMEOUT_MS,
    status: "approved",
  },
  {
    name: "expired just after that if not collected (A5)",
    state: APPROVED_BY_ANN,
    now: AT + TIMEOUT_MS + 1,
    status: "expired",
  },
  {
    name: "approved forever once consumed",
    state: CONSUMED,
    now: AT + 100 * TIMEOUT_MS,
    status: "approved",
  },
  { name: "denied permanently", state: DENIED, now: AT + 100 * TIMEOUT_MS, status: "denied" },
])("statusOf() $name", ({ state, now, status }) => {
  assert.equal(statusOf(approvalOf({ state }), { now, timeoutMs: TIMEOUT_MS }), status);
});

Deno.test.each([
  { name: "a pending one: its creation and the timeout", state: PENDING, end: CREATED_AT + TIMEOUT_MS },
  { name: "an approved one: its decision and the timeout", state: APPROVED_BY_ANN, end: AT + TIMEOUT_MS },
  { name: "a consumed one: never", state: CONSUMED, end: undefined },
  { name: "a denied one: never", state: DENIED, end: undefined },
])("expiresAt() of $name", ({ state, end }) => {
  assert.equal(expiresAt(approvalOf({ state }), TIMEOUT_MS), end);
});

Deno.test("withoutToken() removes only the end user's token", () => {
  const { request } = approvalOf();
  assert.deepEqual(withoutToken(Object.assign({ bearer_token: "secret" }, request)), request);
  assert.ok(!("bearer_token" in request));
});

interface Item {
  readonly end: number;
}

const endOf = ({ end }: Item) => end;

Deno.test("ExpiryQueue returns the same items as a sorted list for any additions and removals (property)", () => {
  const steps = fc.array(fc.record({ adds: fc.array(fc.nat(100)), before: fc.nat(100) }), { maxLength: 30 });
  fc.assert(fc.property(steps, (all) => {
    const queue = new ExpiryQueue(endOf);
    let rest: number[] = [];
    for (const { adds, before } of all) {
      for (const end of adds) queue.add({ end });
      rest = [...rest, ...adds].sort((a, b) => a - b);
      const taken = [...queue.takeEndedBefore(before)].map(endOf);
      assert.deepEqual(taken, rest.filter((end) => end < before));
      rest = rest.slice(taken.length);
    }
  }));
});

const OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA";

Deno.test.each([
  { name: "the same line", line: PUBLIC_KEY, same: true },
  { name: "another comment and a newline", line: `${PUBLIC_KEY} broker@example\n`, same: true },
  { name: "another key", line: OTHER, same: false },
  { name: "nothing", line: "", same: false },
  { name: "options before the key", line: `command="id" ${PUBLIC_KEY}`, same: false },
  { name: "two keys", line: `${PUBLIC_KEY}\n${OTHER}`, same: false },
  { name: "a key cut short", line: PUBLIC_KEY.slice(0, -4), same: false },
])("isSameKey() of $name returns $same", ({ line, same }) => {
  assert.equal(isSameKey(line, PUBLIC_KEY), same);
  assert.equal(isSameKey(PUBLIC_KEY, line), same);
});

Deno.test("isSameKey() returns false for two absent keys", () => {
  assert.equal(isSameKey("", ""), false);
});

const NOW = CREATED_AT + 1000;
const APPROVE = { approver: "alice", approve: true, learnTtlSeconds: 0, now: NOW, timeoutMs: TIMEOUT_MS };
const DENIED_TRANSITIONS: ApprovalState = { kind: "denied", by: "bob", at: NOW };
const APPROVED_TRANSITIONS: ApprovalState = { kind: "approved", by: "bob", at: NOW, learnTtlSeconds: 0 };
const CONSUMED_TRANSITIONS: ApprovalState = { ...APPROVED_TRANSITIONS, kind: "consumed" };

Deno.test.each([
  {
    name: "approves",
    verdict: {},
    state: { kind: "approved", by: "alice", at: NOW, learnTtlSeconds: 0 },
  },
  {
    name: "approves and learns",
    verdict: { learnTtlSeconds: 7200 },
    state: { kind: "approved", by: "alice", at: NOW, learnTtlSeconds: 7200 },
  },
  { name: "denies", verdict: { approve: false }, state: { kind: "denied", by: "alice", at: NOW } },
  {
    name: "learns nothing from a denial",
    verdict: { approve: false, learnTtlSeconds: 7200 },
    state: { kind: "denied", by: "alice", at: NOW },
  },
  {
    name: "approves at the timeout itself",
    verdict: { now: CREATED_AT + TIMEOUT_MS },
    state: { kind: "approved", by: "alice", at: CREATED_AT + TIMEOUT_MS, learnTtlSeconds: 0 },
  },
])("decide() $name", ({ verdict, state }) => {
  const approval = approvalOf();
  assert.deepEqual(decide(approval, { ...APPROVE, ...verdict }), {
    kind: "decided",
    approval: { ...approval, state },
  });
});

Deno.test.each([
  { name: "an approved one", fields: { state: APPROVED_TRANSITIONS }, status: "approved" },
  { name: "a consumed one", fields: { state: CONSUMED_TRANSITIONS }, status: "approved" },
  { name: "a denied one", fields: { state: DENIED_TRANSITIONS }, status: "denied" },
  { name: "an expired request", fields: { createdAt: NOW - TIMEOUT_MS - 1 }, status: "expired" },
])("decide() rejects both decisions on $name", ({ fields, status }) => {
  for (const approve of [true, false]) {
    assert.deepEqual(decide(approvalOf(fields), { ...APPROVE, approve }), { kind: "not_pending", status });
  }
});

Deno.test.each([
  { name: "a pending one", fields: {} },
  { name: "a denied one", fields: { state: DENIED_TRANSITIONS } },
  { name: "a consumed one", fields: { state: CONSUMED_TRANSITIONS } },
  { name: "an expired request", fields: { createdAt: NOW - TIMEOUT_MS - 1 } },
])("decide() never lets callers decide their own approvals: $name (A1)", ({ fields }) => {
  for (const approve of [true, false]) {
    assert.deepEqual(decide(approvalOf(fields), { ...APPROVE, approve, approver: "broker-1" }), {
      kind: "self",
    });
  }
});

Deno.test("decide() rejects an approver who is the end user of the request (A2)", () => {
  const approval = approvalOf({ endUser: "alice" });
  assert.deepEqual(decide(approval, APPROVE), { kind: "self" });
  assert.equal(decide(approval, { ...APPROVE, approver: "bob" }).kind, "decided");
});

Deno.test.each([
  { name: "the caller in capitals", approver: "BROKER-1" },
  { name: "the end user with a dot", approver: "alice." },
  { name: "the end user in full-width letters", approver: "\uff21lice" },
])("decide() treats $name as the requester (A2)", ({ approver }) => {
  assert.deepEqual(decide(approvalOf({ endUser: "Alice" }), { ...APPROVE, approver }), { kind: "self" });
});
