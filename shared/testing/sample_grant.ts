/**
 * Grants and waivers for tests that vary one field at a time.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { sampleGrants } from "./sample_grant.ts";
 *
 * assert.equal(sampleGrants({ caller: "broker-1" }).grants.byId.size, 1);
 * ```
 *
 * @module
 */
import assert from "node:assert/strict";
import { addGrant, compileGrant, type Grant, type LiveGrants, NO_GRANTS } from "../policy/grants.ts";

/** The time at which tests evaluate {@linkcode sampleGrants}. */
export const SAMPLE_NOW: number = Date.UTC(2026, 0, 2, 3, 4, 5);

/** A grant of `id` on `web01` for everyone, valid for another minute, with the given fields changed. */
export function sampleGrant(fields: Partial<Grant> = {}): Grant {
  return {
    id: "0123456789abcdef01234567",
    host: "web01",
    allow: fields.waiveApproval === undefined ? ["^id$"] : [],
    waiveApproval: [],
    caller: "",
    endUser: "",
    sudo: false,
    sudoUser: "",
    contentSha256: "",
    approver: "operator",
    approvalId: "",
    grantedAt: SAMPLE_NOW,
    expiresAt: SAMPLE_NOW + 60_000,
    ...fields,
  };
}

/** Compiled grants, one for each set of fields. */
export function sampleGrants(...all: readonly Partial<Grant>[]): LiveGrants {
  let grants = NO_GRANTS;
  for (const [index, fields] of all.entries()) {
    const compiled = compileGrant(sampleGrant({ id: `grant-${index}`, ...fields }));
    assert(compiled.kind === "ok", compiled.kind === "invalid" ? compiled.problem : "");
    grants = addGrant(grants, compiled.grant);
  }
  return { grants, now: SAMPLE_NOW };
}
