import assert from "node:assert/strict";
import { approvalOf, CREATED_AT } from "../testing/sample_approval.ts";
import { type ApprovalState, decide, isPurgeable } from "./approval.ts";

const TIMEOUT_MS = 120_000;
const NOW = CREATED_AT + 1000;
const APPROVE = { approver: "alice", approve: true, learnTtlSeconds: 0, now: NOW, timeoutMs: TIMEOUT_MS };
const DENIED: ApprovalState = { kind: "denied", by: "bob", at: NOW };
const APPROVED: ApprovalState = { kind: "approved", by: "bob", at: NOW, learnTtlSeconds: 0 };
const CONSUMED: ApprovalState = { ...APPROVED, kind: "consumed" };

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
  { name: "an approved one", fields: { state: APPROVED }, status: "approved" },
  { name: "a consumed one", fields: { state: CONSUMED }, status: "approved" },
  { name: "a denied one", fields: { state: DENIED }, status: "denied" },
  { name: "one that has expired", fields: { createdAt: NOW - TIMEOUT_MS - 1 }, status: "expired" },
])("decide() refuses $name, whatever is decided", ({ fields, status }) => {
  for (const approve of [true, false]) {
    assert.deepEqual(decide(approvalOf(fields), { ...APPROVE, approve }), { kind: "not_pending", status });
  }
});

Deno.test.each([
  { name: "a pending one", fields: {} },
  { name: "a denied one", fields: { state: DENIED } },
  { name: "a consumed one", fields: { state: CONSUMED } },
  { name: "one that has expired", fields: { createdAt: NOW - TIMEOUT_MS - 1 } },
])("decide() never lets a caller decide its own: $name (A1)", ({ fields }) => {
  for (const approve of [true, false]) {
    assert.deepEqual(decide(approvalOf(fields), { ...APPROVE, approve, approver: "broker-1" }), {
      kind: "self",
    });
  }
});

Deno.test("decide() lets nobody decide what a trusted broker asks in their name (A2)", () => {
  const approval = approvalOf({ endUser: "alice" });
  assert.deepEqual(decide(approval, APPROVE), { kind: "self" });
  assert.equal(decide(approval, { ...APPROVE, approver: "bob" }).kind, "decided");
});

Deno.test.each([
  { name: "the caller in capitals", approver: "BROKER-1" },
  { name: "the end user with a dot", approver: "alice." },
  { name: "the end user in full-width letters", approver: "\uff21lice" },
])("decide() takes $name for who asks (A2)", ({ approver }) => {
  assert.deepEqual(decide(approvalOf({ endUser: "Alice" }), { ...APPROVE, approver }), { kind: "self" });
});

Deno.test("isPurgeable() after twice the timeout, not at it (A7)", () => {
  const age = (now: number) => isPurgeable(approvalOf(), { now: CREATED_AT + now, timeoutMs: TIMEOUT_MS });
  assert.equal(age(2 * TIMEOUT_MS), false);
  assert.equal(age(2 * TIMEOUT_MS + 1), true);
});
