// Freezes (`POST /v1/freeze`, `POST /v1/unfreeze`, `GET /v1/revocations`) and the revocation of certificates
// (`GET /v1/krl`, `GET /v1/krl.sig`, `GET /v1/krl/hosts`, `POST /v1/revocations/…`).
import * as z from "@zod/zod";
import { hasInvisible, isUnsafe } from "../text.ts";
import { each, optional, wideInteger } from "./sign.ts";

/** The kinds of subjects. Freezing a session or serial ends it, but does not stop new certificates. */
export const FREEZE_KINDS = ["caller", "end_user", "session_id", "serial"] as const;
/** One of {@linkcode FREEZE_KINDS}. */
export type FreezeKind = (typeof FREEZE_KINDS)[number];

/** The subject of a freeze. */
export interface FreezeSubject {
  /** The kind of subject. Freezing a session or serial ends it, but does not stop new certificates. */
  readonly kind: FreezeKind;
  /** A CN, a user name, a session ID, or a serial in decimal digits, which are exact beyond 2^53. */
  readonly value: string;
}

/** A request to freeze. */
export interface FreezeRequest extends FreezeSubject {
  /** One word, such as a ticket number; empty: none. */
  readonly reason: string;
  /** Accepts a freeze that a restart forgets, on a signer without `state_db`. */
  readonly allow_volatile: boolean;
}

// Audit records contain both texts, and their fields are separated by spaces.
const word = z.string().refine((text) => !isUnsafe(text), "spaces and control characters not allowed");
const subject = { kind: z.enum(FREEZE_KINDS), value: word.min(1) };

/** Decodes a {@linkcode FreezeRequest}; unknown fields are dropped. */
export const freezeRequest: z.ZodType<FreezeRequest> = z.object({
  ...subject,
  reason: word.default(""),
  allow_volatile: z.boolean().default(false),
});

/** Decodes a request to unfreeze; unknown fields are dropped. */
export const unfreezeRequest: z.ZodType<FreezeSubject> = z.object(subject);

interface FreezeResponse {
  /** `ok`. */
  readonly status: string;
  /** False: it was frozen before, and only reason, admin and time are new. */
  readonly newly_frozen: boolean;
  /** The number of grants and waivers that were revoked. */
  readonly grants_revoked: number;
  /** The number of certificates that were revoked. Absent without a revocation list. */
  readonly certificates_revoked?: number | undefined;
  /** The number of Kubernetes tokens that were revoked. Absent without clusters. */
  readonly tokens_revoked?: number | undefined;
  /** Signers that did not confirm the freeze. Their last certificates are revoked when they are back. */
  readonly silent_signers?: readonly string[] | undefined;
  /** The version of the revocation list with these certificates. */
  readonly krl_version?: number | undefined;
  /** False: in force, but not stored in `state_db`, so a restart of the signer undoes it. */
  readonly persisted?: boolean | undefined;
  /** No request has named the subject, so it may be misspelled. */
  readonly warning?: string | undefined;
}

/** Decodes the answer to a freeze. */
export const freezeResponse: z.ZodType<FreezeResponse> = z.object({
  status: z.string(),
  newly_frozen: z.boolean(),
  grants_revoked: z.int(),
  ...each(optional.count, "certificates_revoked", "tokens_revoked", "krl_version"),
  silent_signers: optional.texts,
  persisted: optional.flag,
  warning: optional.text,
});

interface UnfreezeResponse {
  /** `ok`. */
  readonly status: string;
  /** False: the subject was not frozen, and nothing changed. */
  readonly was_frozen: boolean;
}

/** Decodes the answer to an unfreeze. */
export const unfreezeResponse: z.ZodType<UnfreezeResponse> = z.object({
  status: z.string(),
  was_frozen: z.boolean(),
});

/** One freeze in force. */
export interface RevocationEntry extends FreezeSubject {
  /** RFC 3339, UTC, whole seconds. */
  readonly frozen_at: string;
  /** The reason of the freeze, for admins only. */
  readonly reason?: string | undefined;
  /** The admin who froze, for admins only. */
  readonly frozen_by?: string | undefined;
}

/** Decodes the list of freezes. An unknown kind fails the whole list, because no service may skip an entry. */
export const revocationList: z.ZodType<readonly RevocationEntry[]> = z.array(z.object({
  kind: z.enum(FREEZE_KINDS),
  ...each(z.string(), "value", "frozen_at"),
  ...each(optional.text, "reason", "frozen_by"),
}));

/** The form of a request ID. */
export const REQUEST_ID: RegExp = /^[A-Za-z0-9._-]{1,64}$/;

/** The domain of the detached signature of a list, and the namespace of its SSHSIG. */
export const KRL_NAMESPACE = "gateway-krl-v1";
/** The header with the version of the list in the body. */
export const KRL_VERSION_HEADER = "x-krl-version";
/** The header with the base64 of an Ed25519 signature over {@linkcode KRL_NAMESPACE}, a NUL, and the body. */
export const KRL_SIGNATURE_HEADER = "x-krl-signature";

/** The largest number of certificates or requests that one request revokes. */
export const MAX_REVOKED = 100;

/** A request to revoke certificates by serial. */
export interface RevokeSerialsRequest {
  /** At most 100 serials: unsigned, 64 bits, not 0. */
  readonly serials: readonly bigint[];
  /** One word; empty: none. */
  readonly reason: string;
}

/** A request to revoke the certificates of requests whose answers were lost. */
export interface RevokeRequestsRequest {
  /** At most 100 values of `x-request-id`. */
  readonly request_ids: readonly string[];
  /** One word; empty: none. */
  readonly reason: string;
}

const serial = wideInteger.refine((number) => number > 0n && number < 2n ** 64n, "not a serial: 1 to 2^64-1");
const keyId = z.string().min(1).max(1024)
  .refine((text) => !hasInvisible(text), "control characters not allowed");
const listOf = <T>(item: z.ZodType<T>) => z.array(item).min(1).max(MAX_REVOKED);
const reason = word.max(200).default("");

/** Decodes a {@linkcode RevokeSerialsRequest}. */
export const revokeSerialsRequest: z.ZodType<RevokeSerialsRequest> = z.object({
  serials: listOf(serial),
  reason,
});

/** Decodes a {@linkcode RevokeRequestsRequest}. */
export const revokeRequestsRequest: z.ZodType<RevokeRequestsRequest> = z.object({
  request_ids: listOf(z.string().regex(REQUEST_ID, "not the id of a request")),
  reason,
});

interface RevokeKeyIdsRequest {
  /** At most 100 KeyIds. */
  readonly key_ids: readonly string[];
  /** One word; empty: none. */
  readonly reason: string;
}

/** Decodes a request to revoke every certificate with one of these key IDs. */
export const revokeKeyIdsRequest: z.ZodType<RevokeKeyIdsRequest> = z.object({
  key_ids: listOf(keyId),
  reason,
});

/** The answer to a revocation. */
export interface RevokeResponse {
  /** `ok`. */
  readonly status: string;
  /** The number of valid certificates that were not revoked before. */
  readonly revoked: number;
  /** The version of the revocation list with these certificates. */
  readonly krl_version: number;
  /** False: in force, but not stored in `state_db`, so a restart of the signer undoes it. */
  readonly persisted?: boolean | undefined;
}

/** Decodes a {@linkcode RevokeResponse}. */
export const revokeResponse: z.ZodType<RevokeResponse> = z.object({
  status: z.string(),
  ...each(z.int(), "revoked", "krl_version"),
  persisted: optional.flag,
});

/** One reader of the list. Version and time are absent if it has not polled since the signer's start. */
export interface KrlReader {
  /** The CN of the reader. */
  readonly caller: string;
  /** The hosts for which it fetches the list. */
  readonly hosts: readonly string[];
  /** The installed version. */
  readonly version?: number | undefined;
  /** The last poll, RFC 3339. */
  readonly seen_at?: string | undefined;
}

/** The list on one host, for admins. Version and age are absent if it has not polled since the signer's start. */
export interface HostKrl {
  /** The installed version. */
  readonly version?: number | undefined;
  /** The time since the last poll. */
  readonly age_seconds?: number | undefined;
  /** Whether the installed version is in force. */
  readonly current: boolean;
}

/** Decodes a {@linkcode HostKrl}. */
export const hostKrl: z.ZodType<HostKrl> = z.object({
  ...each(optional.count, "version", "age_seconds"),
  current: z.boolean(),
});

/** The version in force and all readers. */
export interface KrlStatus {
  /** The version in force. */
  readonly version: number;
  /** The callers in `krl_callers`. */
  readonly readers: readonly KrlReader[];
}

/** Decodes a {@linkcode KrlStatus}. */
export const krlStatus: z.ZodType<KrlStatus> = z.object({
  version: z.int(),
  readers: z.array(z.object({
    caller: z.string(),
    hosts: z.array(z.string()),
    version: optional.count,
    seen_at: optional.text,
  })),
});
