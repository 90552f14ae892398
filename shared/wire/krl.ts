/**
 * Revocation of certificates where they are believed: `GET /v1/krl`, `GET /v1/krl.sig`, `GET /v1/krl/hosts`,
 * `POST /v1/revocations/serials`, `POST /v1/revocations/requests` and `POST /v1/revocations/key-ids`.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { revokeSerialsRequest } from "./krl.ts";
 *
 * assert.deepEqual(revokeSerialsRequest.parse({ serials: [7] }), { serials: [7n], reason: "" });
 * assert.equal(revokeSerialsRequest.safeParse({ serials: [0] }).success, false);
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { hasUnseen, isUnsafe } from "../text.ts";

/** The form of a request ID. */
export const REQUEST_ID: RegExp = /^[A-Za-z0-9._-]{1,64}$/;

/** Whether a text can be the ID of a request. */
function isRequestId(text: string): boolean {
  return REQUEST_ID.test(text);
}

/** What a list is signed for: the domain of the detached signature and the namespace of the SSHSIG. */
export const KRL_NAMESPACE = "gateway-krl-v1";
/** Names the version of the list in the body. */
export const KRL_VERSION_HEADER = "x-krl-version";
/** Base64 of an Ed25519 signature over {@linkcode KRL_NAMESPACE}, a NUL, and the body. */
export const KRL_SIGNATURE_HEADER = "x-krl-signature";

/** How the names of hosts end that fetch the list. */
export const HOST_IDENTITY_SUFFIX = ".krl";

/** What a service that is not asked for the list tells a host. */
export const LIST_ONLY = "a host's identity is for the revocation list alone";

/**
 * Whether a CN is that of a host. Its certificate lies on that host for years and is of the CA of all others: whoever
 * takes the host over must not be a caller by it.
 */
export function isHostIdentity(caller: string): boolean {
  return caller.endsWith(HOST_IDENTITY_SUFFIX);
}

/** The most that one request revokes. */
export const MAX_REVOKED = 100;

/** A decoded request to revoke certificates by serial. */
export interface RevokeSerialsRequest {
  /** Unsigned, 64 bits, not 0. */
  readonly serials: readonly bigint[];
  /** One word, such as a ticket's number. Empty: none. */
  readonly reason: string;
}

/** A decoded request to revoke what came of requests whose answers nobody has. */
export interface RevokeRequestsRequest {
  /** As the requests had them in their `x-request-id`. */
  readonly request_ids: readonly string[];
  /** One word. Empty: none. */
  readonly reason: string;
}

/** A decoded request to revoke certificates by key id. */
interface RevokeKeyIdsRequest {
  /** Each stands for every certificate that has it. */
  readonly key_ids: readonly string[];
  /** One word, such as a ticket's number. Empty: none. */
  readonly reason: string;
}

const serial = z.union([z.bigint(), z.int()]).transform((number) => BigInt(number))
  .refine((number) => number > 0n && number < 2n ** 64n, "not a serial: 1 to 2^64-1");
const keyId = z.string().min(1).max(1024).refine(
  (text) => !hasUnseen(text),
  "control characters not allowed",
);
// It stands in audit records, whose fields are divided by blanks.
const reason = z.string().max(200).refine(
  (text) => !isUnsafe(text),
  "blanks and control characters not allowed",
)
  .default("");

/** Decodes a {@linkcode RevokeSerialsRequest}; a small serial comes as a number, a large one as a bigint. */
export const revokeSerialsRequest: z.ZodType<RevokeSerialsRequest> = z.object({
  serials: z.array(serial).min(1).max(MAX_REVOKED),
  reason,
});

/** Decodes a {@linkcode RevokeRequestsRequest}. */
export const revokeRequestsRequest: z.ZodType<RevokeRequestsRequest> = z.object({
  request_ids: z.array(z.string().refine(isRequestId, "not the id of a request")).min(1).max(MAX_REVOKED),
  reason,
});

/** Decodes a {@linkcode RevokeKeyIdsRequest}. */
export const revokeKeyIdsRequest: z.ZodType<RevokeKeyIdsRequest> = z.object({
  key_ids: z.array(keyId).min(1).max(MAX_REVOKED),
  reason,
});

/** The answer to a revocation. */
export interface RevokeResponse {
  readonly status: string;
  /** How many certificates that are still valid are revoked by it and were not before. */
  readonly revoked: number;
  /** The version of the list that has them. */
  readonly krl_version: number;
  /** False: in force, but `state_db` could not take it, and a restart of the signer undoes it. Absent: all is well. */
  readonly persisted?: boolean | undefined;
}

/** Decodes a {@linkcode RevokeResponse}. */
export const revokeResponse: z.ZodType<RevokeResponse> = z.object({
  status: z.string(),
  revoked: z.int(),
  krl_version: z.int(),
  persisted: z.boolean().optional(),
});

/** What is known of one reader of the list. */
export interface KrlReader {
  readonly caller: string;
  /** The hosts that it fetches the list for. */
  readonly hosts: readonly string[];
  /** What it has installed; absent: it has not asked since the signer's start. */
  readonly version?: number | undefined;
  /** When it asked last, RFC 3339; absent as `version`. */
  readonly seen_at?: string | undefined;
}

/** What a host has installed, as the list of hosts tells admins. */
export interface HostKrl {
  /** Absent: it has not asked since the signer's start. */
  readonly version?: number | undefined;
  /** How long ago it asked; absent as `version`. */
  readonly age_seconds?: number | undefined;
  /** Whether it is the version in force. */
  readonly current: boolean;
}

/** Decodes a {@linkcode HostKrl}. */
export const hostKrl: z.ZodType<HostKrl> = z.object({
  version: z.int().optional(),
  age_seconds: z.int().optional(),
  current: z.boolean(),
});

/** Where the list is installed. */
export interface KrlStatus {
  /** The version of the list in force. */
  readonly version: number;
  readonly readers: readonly KrlReader[];
}

/** Decodes a {@linkcode KrlStatus}. */
export const krlStatus: z.ZodType<KrlStatus> = z.object({
  version: z.int(),
  readers: z.array(z.object({
    caller: z.string(),
    hosts: z.array(z.string()),
    version: z.int().optional(),
    seen_at: z.string().optional(),
  })),
});
