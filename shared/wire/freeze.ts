/**
 * The kill switch: `POST /v1/freeze`, `POST /v1/unfreeze` and `GET /v1/revocations`.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { freezeRequest } from "./freeze.ts";
 *
 * assert.equal(freezeRequest.parse({ kind: "caller", value: "broker-1" }).allow_volatile, false);
 * assert.equal(freezeRequest.safeParse({ kind: "caller", value: "broker 1" }).success, false);
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { isUnsafe } from "../text.ts";

/** What can be frozen. Sessions and serials are killed where they run; new certificates they don't stop. */
export const FREEZE_KINDS = ["caller", "end_user", "session_id", "serial"] as const;
/** One of {@linkcode FREEZE_KINDS}. */
export type FreezeKind = (typeof FREEZE_KINDS)[number];

/** Who or what is frozen. */
export interface FreezeSubject {
  /** What kind of name the value is. */
  readonly kind: FreezeKind;
  /** A CN, a user name, a session's id, or a serial in decimal digits: exact also beyond 2^53. */
  readonly value: string;
}

type UnfreezeRequest = FreezeSubject;

/** A decoded request to freeze. */
export interface FreezeRequest extends FreezeSubject {
  /** One word, such as a ticket's number: no blanks. Empty: none. */
  readonly reason: string;
  /** Accepts a freeze that a restart forgets, on a signer without `state_db`. */
  readonly allow_volatile: boolean;
}

// Both stand in audit records, whose fields are divided by blanks.
const word = z.string().refine((text) => !isUnsafe(text), "blanks and control characters not allowed");
const subject = { kind: z.enum(FREEZE_KINDS), value: word.min(1) };

/** Decodes a {@linkcode FreezeRequest}; unknown fields are dropped. */
export const freezeRequest: z.ZodType<FreezeRequest> = z.object({
  ...subject,
  reason: word.default(""),
  allow_volatile: z.boolean().default(false),
});

/** Decodes an {@linkcode UnfreezeRequest}; unknown fields are dropped. */
export const unfreezeRequest: z.ZodType<UnfreezeRequest> = z.object(subject);

interface FreezeResponse {
  readonly status: string;
  /** False when it was frozen already, and only reason, admin and time are new. */
  readonly newly_frozen: boolean;
  /** How many active grants and waivers of the subject are gone. */
  readonly grants_revoked: number;
  /** How many certificates that are still valid are revoked with it; absent without a list that hosts fetch. */
  readonly certificates_revoked?: number | undefined;
  /** How many Kubernetes tokens of this signer are revoked with it; absent without clusters. */
  readonly tokens_revoked?: number | undefined;
  /** Signers that did not confirm the freeze: their last certificates are revoked when they are back. */
  readonly silent_signers?: readonly string[] | undefined;
  /** The version of the revocation list that has them. */
  readonly krl_version?: number | undefined;
  /** False: in force, but `state_db` could not take it, and a restart of the signer undoes it. Absent: all is well. */
  readonly persisted?: boolean | undefined;
  /** That no request has named the subject, and which ones were: it may be misspelt. */
  readonly warning?: string | undefined;
}

/** Decodes a {@linkcode FreezeResponse}. */
export const freezeResponse: z.ZodType<FreezeResponse> = z.object({
  status: z.string(),
  newly_frozen: z.boolean(),
  grants_revoked: z.int(),
  certificates_revoked: z.int().optional(),
  tokens_revoked: z.int().optional(),
  silent_signers: z.array(z.string()).optional(),
  krl_version: z.int().optional(),
  persisted: z.boolean().optional(),
  warning: z.string().optional(),
});

interface UnfreezeResponse {
  readonly status: string;
  /** False when there was no such freeze, and nothing changed. */
  readonly was_frozen: boolean;
}

/** Decodes an {@linkcode UnfreezeResponse}. */
export const unfreezeResponse: z.ZodType<UnfreezeResponse> = z.object({
  status: z.string(),
  was_frozen: z.boolean(),
});

/** One entry of the revocation list. */
export interface RevocationEntry extends FreezeSubject {
  /** RFC 3339, UTC, whole seconds. */
  readonly frozen_at: string;
  /** For admins only. */
  readonly reason?: string | undefined;
  /** For admins only. */
  readonly frozen_by?: string | undefined;
}

/** Decodes the revocation list. An unknown kind fails the whole of it: whoever enforces must not skip it. */
export const revocationList: z.ZodType<readonly RevocationEntry[]> = z.array(z.object({
  kind: z.enum(FREEZE_KINDS),
  value: z.string(),
  frozen_at: z.string(),
  reason: z.string().optional(),
  frozen_by: z.string().optional(),
}));
