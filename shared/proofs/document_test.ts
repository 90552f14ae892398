import assert from "node:assert/strict";
import { type SignRequest, signRequest } from "../wire/mod.ts";
import { digestSubject, subjectOf } from "./document.ts";

/**
 * `caller` stands for on_behalf_of, and the verified end user for the token. The other fields do not change what is
 * issued, or count only with signed documents.
 */
const NOT_SIGNED = [
  ...["approval_proofs", "approved", "bearer_token", "dry_run", "learn_approval_id", "learn_approver"],
  ...["learn_ttl_seconds", "on_behalf_of", "preflight", "session_id"],
];
const BASE = signRequest.parse({ host: "web01", role: "target", purpose: "oneshot" });

function otherThan(value: unknown): unknown {
  if (typeof value === "string") return `${value}x`;
  if (typeof value === "number") return value + 1;
  return typeof value === "boolean" ? !value : ["x"];
}

// A new field of a request is in this list without a change here, and fails until somebody decides about it.
Deno.test.each(Object.entries(BASE).map(([field, value]) => ({ field, value: otherThan(value) })))(
  "a signed decision is about $field, unless nothing depends on the field",
  ({ field, value }) => {
    const digest = (request: SignRequest) => digestSubject(subjectOf(request, "broker-1"));
    assert.equal(digest({ ...BASE, [field]: value }) === digest(BASE), NOT_SIGNED.includes(field));
  },
);
