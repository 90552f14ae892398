/**
 * `POST /v1/sign`: what a broker asks of the signer, and the answer. The JSON itself, snake_case; unknown
 * fields of a request are ignored.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { signRequest } from "@gateway/shared/wire";
 *
 * const request = signRequest.parse({ host: "web01", role: "target", purpose: "oneshot", command: "uptime" });
 * assert.equal(request.host, "web01");
 * assert.equal(request.sudo, false);
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { hasUnseen, isUnsafe } from "../text.ts";
import { type K8sDiff, k8sDiff } from "./k8s_diff.ts";
import { Buffer } from "node:buffer";
import { AppError } from "../errors.ts";

export {
  type K8sDiff,
  k8sDiff,
  type K8sDiffKind,
  type K8sFieldChange,
  MAX_K8S_DIFF_BYTES,
} from "./k8s_diff.ts";

/** What the certificate is for: the host itself, or a hop on the way to it. */
export const ROLES = ["target", "bastion"] as const;
/** One of {@linkcode ROLES}. */
export type Role = (typeof ROLES)[number];

/** How long the connection is meant to live: one command, or a session of many. */
export const PURPOSES = ["oneshot", "session"] as const;
/** One of {@linkcode PURPOSES}. */
export type Purpose = (typeof PURPOSES)[number];

/** How a session runs its commands. */
export const SESSION_MODES = ["exec", "shell", "pty"] as const;
/** One of {@linkcode SESSION_MODES}. */
export type SessionMode = (typeof SESSION_MODES)[number];

/** How strictly a command policy is applied: `enforce` blocks, `audit` allows and warns. */
export const ENFORCEMENTS = ["enforce", "audit"] as const;
/** One of {@linkcode ENFORCEMENTS}. */
export type Enforcement = (typeof ENFORCEMENTS)[number];

/**
 * A sign request after decoding; absent strings are `""`, absent booleans `false`, absent numbers 0.
 * `role`, `purpose` and `session_mode` stay plain strings here: an unknown value is the policy's denial
 * (403), not a malformed request (400).
 */
export interface SignRequest {
  readonly host: string;
  /** `target`, or `bastion` for a hop on the way. */
  readonly role: string;
  readonly purpose: string;
  /** Of a session: `exec`, `shell` or `pty`. */
  readonly session_mode: string;
  /** The command of a one-shot, or the one that a preflight asks about. */
  readonly command: string;
  /** The life that is asked for; not positive or above the cap: the cap. */
  readonly ttl_seconds: number;
  /** The key to certify, an authorized_keys line of an Ed25519 key. Not needed in a dry run. */
  readonly public_key: string;
  /** Run the command elevated, with `sudo -n`. */
  readonly sudo: boolean;
  /** The account for sudo; `""` is root. */
  readonly sudo_user: string;
  /** The certificate is to permit a terminal. */
  readonly pty: boolean;
  readonly file_transfer: boolean;
  readonly dry_run: boolean;
  /** A dry run for a command in a session. */
  readonly preflight: boolean;
  /** The broker that a control plane asks for; only trusted forwarders may say so. */
  readonly on_behalf_of: string;
  /** A second human has approved; only trusted forwarders, and callers with `self_approve`, may say so. */
  readonly approved: boolean;
  readonly end_user: string;
  /** `null` (or absent): no filter by the end user's groups. `[]`: a user in no group, who may do nothing. */
  readonly end_user_groups: readonly string[] | null;
  /** The end user's token, a secret: for callers whose end users are verified. */
  readonly bearer_token: string;
  /** With `approved`: learn a waiver for so long; 0: none. */
  readonly learn_ttl_seconds: number;
  /** Who approved what is to be learned. */
  readonly learn_approver: string;
  /** The approval that it is learned from. */
  readonly learn_approval_id: string;
  /** `""` and `ssh` are an SSH host. */
  readonly target_type: string;
  /** What is to be done on a cluster, for a target type that is one. */
  readonly k8s_verb: string;
  /** Lower-case plural name of the resource. */
  readonly k8s_resource: string;
  /** API group; `""` is the core group. */
  readonly k8s_group: string;
  /** `""` for what has no namespace, and for a list of all namespaces. */
  readonly k8s_namespace: string;
  /** Name of the object; `""` for a list. */
  readonly k8s_name: string;
  /**
   * Of an apply: the JSON document that is to be sent, byte for byte, at most {@linkcode MAX_K8S_MANIFEST_BYTES};
   * `""` where it is not said, which leaves an approver without it.
   */
  readonly k8s_manifest: string;
  /**
   * Of an apply: the fields that it may take over from other managers, as the API server names them in a conflict. It
   * is then never done without approval, unless the cluster's rule says so.
   */
  readonly k8s_force_fields: readonly string[];
  /** Of a session: after how many seconds the broker closes it, as it says; 0: not said. */
  readonly session_max_seconds: number;
  /** Of a session: the broker's ID of the session, for audit records; `""`: not said. */
  readonly session_id: string;
  /** Why it is asked for, in the words of whoever asks: untrusted text, at most {@linkcode MAX_REASON_CHARACTERS}. */
  readonly reason: string;
  /** SHA-256 of what a transfer writes, 64 lowercase hex digits; `""` where nothing is written, or it is not said. */
  readonly content_sha256: string;
  /** How many bytes a transfer writes; counts only with `content_sha256`. */
  readonly content_bytes: number;
  /** The first lines of what a transfer writes, for approvers; `""` where it is not text. */
  readonly content_head: string;
}

/** The longest `reason`, in characters. */
export const MAX_REASON_CHARACTERS = 500;

/** The longest `content_head`, in UTF-16 units. */
const MAX_CONTENT_HEAD_LENGTH = 2000;

/** The longest `command` by default, in bytes of UTF-8. */
export const MAX_COMMAND_BYTES: number = 8 * 1024;

/** The longest `command` of a file transfer: it names a path of at most 4096 bytes twice. */
const MAX_TRANSFER_BYTES = 16 * 1024;

/** The longest `k8s_manifest`, in bytes of UTF-8. */
export const MAX_K8S_MANIFEST_BYTES: number = 64 * 1024;

/** The longest body of `POST /v1/sign`, in bytes: with and without a manifest in it. */
export const MAX_SIGN_BODY_BYTES: { readonly ssh: number; readonly k8s: number } = {
  ssh: 64 * 1024,
  k8s: 256 * 1024,
};

const text = z.string().default("");
const flag = z.boolean().default(false);

/** Decodes a {@linkcode SignRequest}; unknown fields are dropped. */
export const signRequest: z.ZodType<SignRequest> = z.object({
  host: z.string(),
  role: z.string(),
  purpose: z.string(),
  session_mode: text,
  command: text,
  ttl_seconds: z.int().default(0),
  public_key: text,
  sudo: flag,
  sudo_user: text,
  pty: flag,
  file_transfer: flag,
  dry_run: flag,
  preflight: flag,
  on_behalf_of: text,
  approved: flag,
  end_user: text,
  end_user_groups: z.array(z.string()).nullable().default(null),
  bearer_token: text,
  learn_ttl_seconds: z.int().default(0),
  learn_approver: text,
  learn_approval_id: text,
  target_type: text,
  k8s_verb: text,
  k8s_resource: text,
  k8s_group: text,
  k8s_namespace: text,
  k8s_name: text,
  k8s_manifest: text,
  k8s_force_fields: z.array(z.string().min(1).max(500).refine((field) => !hasUnseen(field))).max(100).default(
    [],
  ),
  session_max_seconds: z.int().min(0).default(0),
  session_id: text,
  reason: text,
  content_sha256: text,
  content_bytes: z.int().min(0).default(0),
  content_head: text,
});

/** What a broker sends: the fields it knows, the rest absent. */
export type SignRequestBody =
  & Pick<SignRequest, "host" | "role" | "purpose" | "end_user_groups">
  & Partial<SignRequest>;

/** The policy's answer as it goes over the wire; fields that are empty, false or 0 are absent. */
export interface WireDecision {
  readonly allowed: boolean;
  readonly reason?: string | undefined;
  /** It may run once a second human has approved. */
  readonly require_approval?: boolean | undefined;
  /**
   * `allow:<regex>`, `deny:<regex>`, `require_approval:<regex>`, `allowlist:no-match`,
   * `shell-parse:<reason>` or `approval-waived:<rule>`.
   */
  readonly matched_rule?: string | undefined;
  /** The force-command of the certificate, with its sudo prefix. */
  readonly force_command?: string | undefined;
  /** The life that the certificate gets. */
  readonly ttl_seconds?: number | undefined;
  /** The prefix for the commands of an elevated session. */
  readonly elevation?: string | undefined;
  /** Whether the command policy blocks or only warns. */
  readonly enforcement?: Enforcement | undefined;
  /** What enforcement would have done, in audit mode. */
  readonly warning?: string | undefined;
  readonly would_deny?: boolean | undefined;
  /** Enforcement would have asked a human. */
  readonly would_require_approval?: boolean | undefined;
  /** Of a cluster: values of Secrets may be shown to whoever asked; absent: they are masked. */
  readonly reveal?: boolean | undefined;
  /** Of an apply: `k8s_force_fields` were decided on, and may be taken over; absent: they may not. */
  readonly force?: boolean | undefined;
}

/** The answer to a sign request. Credential and serial are absent in a dry run or when approval is needed. */
export interface SignResponse {
  /** One authorized_keys line without comment, with its newline. */
  readonly certificate?: string | undefined;
  /** Unsigned, 64 bits, exact. */
  readonly serial?: bigint | undefined;
  /** What the broker puts before the commands of an elevated session. */
  readonly elevation_prefix?: string | undefined;
  /** Of a cluster: a token of the ServiceAccount that the action is done as, a secret. */
  readonly k8s_token?: string | undefined;
  /** When the token ends, RFC 3339. */
  readonly k8s_token_expiry?: string | undefined;
  /** What an apply would change, for the approver of a control plane: only where a human has to approve. */
  readonly k8s_diff?: K8sDiff | undefined;
  /** How the policy came to its answer. */
  readonly decision?: WireDecision | undefined;
  /** The sealed command for a sealed host, to be passed on as it is. */
  readonly envelope?: unknown;
  /** Where it would run, for the approver of a control plane: only where a human has to approve, or in a dry run. */
  readonly target?: SignTarget | undefined;
}

/** Where a command would run, and as whom before any elevation. */
export interface SignTarget {
  readonly user: string;
  readonly addr: string;
}

const wireDecision = z.object({
  allowed: z.boolean(),
  reason: z.string().optional(),
  require_approval: z.boolean().optional(),
  matched_rule: z.string().optional(),
  force_command: z.string().optional(),
  ttl_seconds: z.int().optional(),
  elevation: z.string().optional(),
  enforcement: z.enum(ENFORCEMENTS).optional(),
  warning: z.string().optional(),
  would_deny: z.boolean().optional(),
  would_require_approval: z.boolean().optional(),
  reveal: z.boolean().optional(),
  force: z.boolean().optional(),
});

/** Decodes a {@linkcode SignResponse}. A small serial arrives as a number, a large one as a bigint. */
export const signResponse: z.ZodType<SignResponse> = z.object({
  certificate: z.string().optional(),
  serial: z.union([z.bigint(), z.int()]).transform((serial) => BigInt(serial)).optional(),
  elevation_prefix: z.string().optional(),
  k8s_token: z.string().optional(),
  k8s_token_expiry: z.string().optional(),
  k8s_diff: k8sDiff.optional(),
  decision: wireDecision.optional(),
  envelope: z.unknown().optional(),
  target: z.object({ user: z.string(), addr: z.string() }).optional(),
});

/** These become tokens of the KeyId and of audit records: a blank or a control character would forge others. */
const TOKEN_FIELDS = [
  "host",
  "end_user",
  "role",
  "purpose",
  "session_mode",
  "session_id",
  "sudo_user",
  "k8s_verb",
  "k8s_resource",
  "k8s_group",
  "k8s_namespace",
  "k8s_name",
] as const;

/**
 * Rejects what no policy needs to see: unsafe characters, texts that are too long, and what this version does not
 * support.
 *
 * @param maxCommandBytes limit of the command in UTF-8; the command of a file transfer may have 16 KiB
 * @throws {AppError} `invalid_request` naming the field; `not_supported`
 */
export function checkSignFields(request: SignRequest, maxCommandBytes: number = MAX_COMMAND_BYTES): void {
  for (const field of TOKEN_FIELDS) {
    if (isUnsafe(request[field])) throw unsafe(field);
  }
  checkCaller(request.on_behalf_of);
  for (const group of request.end_user_groups ?? []) {
    if (isUnsafe(group)) throw unsafe("end_user_groups");
  }
  if (request.command.includes("\0")) {
    throw new AppError("invalid_request", "invalid command: NUL not allowed");
  }
  const maxBytes = request.file_transfer ? Math.max(maxCommandBytes, MAX_TRANSFER_BYTES) : maxCommandBytes;
  if (Buffer.byteLength(request.command) > maxBytes) {
    throw new AppError(
      "invalid_request",
      `invalid command: longer than ${maxBytes} bytes (max_command_bytes)`,
    );
  }
  if (!isTargetType(request.target_type)) {
    throw new AppError(
      "not_supported",
      `target_type ${JSON.stringify(request.target_type)} is not supported yet`,
    );
  }
  if (request.learn_ttl_seconds < 0) {
    throw new AppError("invalid_request", "invalid learn_ttl_seconds: must not be negative");
  }
  for (const field of ["learn_approver", "learn_approval_id"] as const) {
    if (isUnsafe(request[field])) throw unsafe(field);
  }
  if (request.target_type === "k8s" && request.k8s_manifest !== "" && request.k8s_verb !== "apply") {
    throw new AppError("invalid_request", "invalid k8s_manifest: it goes with the verb apply alone");
  }
  if (request.k8s_force_fields.length > 0 && request.k8s_manifest === "") {
    throw new AppError("invalid_request", "invalid k8s_force_fields: they go with a k8s_manifest alone");
  }
  if (Buffer.byteLength(request.k8s_manifest) > MAX_K8S_MANIFEST_BYTES) {
    throw new AppError(
      "invalid_request",
      `invalid k8s_manifest: longer than ${MAX_K8S_MANIFEST_BYTES} bytes`,
    );
  }
  checkReason(request.reason, "reason");
  if (!/^(?:[0-9a-f]{64})?$/.test(request.content_sha256)) {
    throw new AppError("invalid_request", "invalid content_sha256: must be 64 lowercase hex digits");
  }
  if (request.content_head.length > MAX_CONTENT_HEAD_LENGTH) {
    throw new AppError("invalid_request", `invalid content_head: longer than ${MAX_CONTENT_HEAD_LENGTH}`);
  }
}

function isTargetType(text: string): boolean {
  return text === "" || text === "ssh" || text === "k8s";
}

/**
 * Refuses a reason or a comment that is too long to be read.
 *
 * @throws {AppError} `invalid_request` naming the field
 */
export function checkReason(text: string, field: string): void {
  // Counted only where it can matter: a character is two units at most.
  if (text.length <= MAX_REASON_CHARACTERS || [...text].length <= MAX_REASON_CHARACTERS) return;
  throw new AppError("invalid_request", `invalid ${field}: more than ${MAX_REASON_CHARACTERS} characters`);
}

/**
 * Refuses a caller whose name could not be told on unchanged, or would forge a field of a record.
 *
 * @throws {AppError} `invalid_request`
 */
export function checkCaller(caller: string): void {
  if (isUnsafe(caller)) throw unsafe("caller identity");
}

function unsafe(field: string): AppError {
  return new AppError("invalid_request", `invalid ${field}: control or whitespace characters not allowed`);
}
