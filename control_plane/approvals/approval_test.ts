import assert from "node:assert/strict";
import { approvalOf, CREATED_AT } from "../testing/sample_approval.ts";
import { type ApprovalState, expiresAt, statusOf, withoutToken } from "./approval.ts";

const TIMEOUT_MS = 120_000;
const AT = CREATED_AT + 60_000;
const PENDING: ApprovalState = { kind: "pending" };
const APPROVED: ApprovalState = { kind: "approved", by: "alice", at: AT, learnTtlSeconds: 0 };
const CONSUMED: ApprovalState = { ...APPROVED, kind: "consumed" };
const DENIED: ApprovalState = { kind: "denied", by: "alice", at: AT };

Deno.test.each([
  { name: "pending when new", state: PENDING, now: CREATED_AT, status: "pending" },
  { name: "pending at the timeout itself", state: PENDING, now: CREATED_AT + TIMEOUT_MS, status: "pending" },
  { name: "expired just after", state: PENDING, now: CREATED_AT + TIMEOUT_MS + 1, status: "expired" },
  { name: "approved", state: APPROVED, now: AT, status: "approved" },
  {
    name: "approved at the timeout of the decision",
    state: APPROVED,
    now: AT + TIMEOUT_MS,
    status: "approved",
  },
  {
    name: "expired just after that, not collected (A5)",
    state: APPROVED,
    now: AT + TIMEOUT_MS + 1,
    status: "expired",
  },
  {
    name: "approved once consumed, for good",
    state: CONSUMED,
    now: AT + 100 * TIMEOUT_MS,
    status: "approved",
  },
  { name: "denied for good", state: DENIED, now: AT + 100 * TIMEOUT_MS, status: "denied" },
])("statusOf() $name", ({ state, now, status }) => {
  assert.equal(statusOf(approvalOf({ state }), { now, timeoutMs: TIMEOUT_MS }), status);
});

Deno.test.each([
  { name: "a pending one: its creation and the timeout", state: PENDING, end: CREATED_AT + TIMEOUT_MS },
  { name: "an approved one: its decision and the timeout", state: APPROVED, end: AT + TIMEOUT_MS },
  { name: "a consumed one: never", state: CONSUMED, end: undefined },
  { name: "a denied one: never", state: DENIED, end: undefined },
])("expiresAt() of $name", ({ state, end }) => {
  assert.equal(expiresAt(approvalOf({ state }), TIMEOUT_MS), end);
});

Deno.test("withoutToken() leaves the end user's token out, and nothing else", () => {
  const { request } = approvalOf();
  assert.deepEqual(withoutToken(Object.assign({ bearer_token: "secret" }, request)), request);
  assert.ok(!("bearer_token" in request));
});
