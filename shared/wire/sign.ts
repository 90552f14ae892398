// `POST /v1/sign`: the request of a broker and the answer of a signer. Unknown fields of a request are
// ignored.
import * as z from "@zod/zod";
import { Buffer } from "node:buffer";
import { hasInvisible, isUnsafe } from "../text.ts";
import { AppError } from "../errors.ts";
import {
  type ApprovalProof,
  approvalProof,
  MAX_PROOFS,
  type SignedApproval,
  signedApproval,
} from "./proof.ts";

/** Names the fields of an object that share one schema. */
export function each<Name extends string, Schema>(schema: Schema, ...names: Name[]): Record<Name, Schema> {
  return Object.fromEntries(names.map((name) => [name, schema])) as Record<Name, Schema>;
}

/** The schemas of fields that an answer may lack. */
export const optional: {
  readonly text: z.ZodOptional<z.ZodString>;
  readonly texts: z.ZodOptional<z.ZodArray<z.ZodString>>;
  readonly flag: z.ZodOptional<z.ZodBoolean>;
  readonly count: z.ZodOptional<z.ZodInt>;
} = {
  text: z.string().optional(),
  texts: z.array(z.string()).optional(),
  flag: z.boolean().optional(),
  count: z.int().optional(),
};

/** A 64-bit number. A small one arrives as a number, a large one as a bigint. */
export const wideInteger: z.ZodType<bigint> = z.union([z.bigint(), z.int()]).transform((value) =>
  BigInt(value)
);

/** The purposes of a certificate: access to the host itself, or a hop on the way to another host. */
export const ROLES = ["target", "bastion"] as const;
/** One of {@linkcode ROLES}. */
export type Role = (typeof ROLES)[number];

/** The kinds of a connection: for one command, or for a session of many commands. */
export const PURPOSES = ["oneshot", "session"] as const;
/** One of {@linkcode PURPOSES}. */
export type Purpose = (typeof PURPOSES)[number];

/** The ways in which a session runs its commands. */
export const SESSION_MODES = ["exec", "shell", "pty"] as const;
/** One of {@linkcode SESSION_MODES}. */
export type SessionMode = (typeof SESSION_MODES)[number];

/** The modes of a command policy: `enforce` blocks, `audit` allows and warns. */
export const ENFORCEMENTS = ["enforce", "audit"] as const;
/** One of {@linkcode ENFORCEMENTS}. */
export type Enforcement = (typeof ENFORCEMENTS)[number];

/**
 * A sign request after decoding. Absent strings are `""`, absent booleans `false`, absent numbers 0. `role`,
 * `purpose` and `session_mode` stay plain strings, because the policy denies an unknown value (403): the request is
 * not malformed (400).
 */
export interface SignRequest {
  /** The logical name of the host, or of the cluster if `target_type` is `k8s`. */
  readonly host: string;
  /** `target` for access to the host itself, `bastion` for a hop on the way to another host. */
  readonly role: string;
  /** `oneshot` for one command, `session` for a session of many commands. */
  readonly purpose: string;
  /** `exec`, `shell` or `pty`; required if `purpose` is `session`. */
  readonly session_mode: string;
  /** The ID of the broker's session, for audit records and freezes. */
  readonly session_id: string;
  /** The end user for whom the broker acts. A verified token replaces this value. */
  readonly end_user: string;
  /** Run the command with sudo. */
  readonly sudo: boolean;
  /** Request a terminal. */
  readonly pty: boolean;
  /** The command transfers a file. */
  readonly file_transfer: boolean;
  /** Return the decision without a credential. */
  readonly dry_run: boolean;
  /** The command of a one-shot connection or of a preflight. */
  readonly command: string;
  /** The requested lifetime. The cap replaces a value that is not positive or above the cap. */
  readonly ttl_seconds: number;
  /** The authorized_keys line of the Ed25519 key to certify. A dry run needs none. */
  readonly public_key: string;
  /** The account for sudo; `""` is root. */
  readonly sudo_user: string;
  /** With `dry_run`: check a command of an open session. On a sealed host the answer contains its envelope. */
  readonly preflight: boolean;
  /** The broker for which a control plane acts. Only trusted forwarders may set it. */
  readonly on_behalf_of: string;
  /** A second human has approved. Only trusted forwarders and callers with `self_approve` may set it. */
  readonly approved: boolean;
  /** The groups of the end user. `null`: no filter by groups. `[]`: the user is in no group and may do nothing. */
  readonly end_user_groups: readonly string[] | null;
  /** The end user's token, a secret. */
  readonly bearer_token: string;
  /** With `approved`: the lifetime of a waiver to learn; 0: none. */
  readonly learn_ttl_seconds: number;
  /** With `approved`: the signed decisions of approvers. A dry run reports whether they are valid. */
  readonly approval_proofs: readonly ApprovalProof[];
  /** With `learn_ttl_seconds`: the approver, for the waiver and its audit record. */
  readonly learn_approver: string;
  /** With `learn_ttl_seconds`: the approval that the waiver is learned from. */
  readonly learn_approval_id: string;
  /** `k8s` for a cluster; `ssh` or `""` for a host. */
  readonly target_type: string;
  /** The action on a cluster: `get`, `list`, `logs`, `apply` or `delete`. */
  readonly k8s_verb: string;
  /** The plural name of the kind of object, such as `pods`. */
  readonly k8s_resource: string;
  /** The API group; `""`: the signer finds the group by the resource. */
  readonly k8s_group: string;
  /** The namespace; `""`: all namespaces, or an object outside of namespaces. */
  readonly k8s_namespace: string;
  /** The name of the object; `""` for a list. */
  readonly k8s_name: string;
  /** The JSON document of an apply, byte for byte. Without it an approver sees no manifest. */
  readonly k8s_manifest: string;
  /** The fields that an apply may take from other managers, named as in a conflict response of the API server. */
  readonly k8s_force_fields: readonly string[];
  /** The time after which the broker closes the session; 0: unknown. */
  readonly session_max_seconds: number;
  /** The requester's words: untrusted text. */
  readonly reason: string;
  /** SHA-256 of the content that a transfer writes, 64 lowercase hex digits; `""`: unknown or nothing. */
  readonly content_sha256: string;
  /** The length of the transferred content. */
  readonly content_bytes: number;
  /** The first lines of the content, for approvers; `""` if the content is not text. */
  readonly content_head: string;
}

/** The longest `reason`, in characters. */
export const MAX_REASON_CHARACTERS = 500;
/** The longest `command` by default, in bytes of UTF-8. */
export const MAX_COMMAND_BYTES: number = 8 * 1024;
/** The longest `k8s_manifest`, in bytes of UTF-8. */
export const MAX_K8S_MANIFEST_BYTES: number = 64 * 1024;
/** The longest body of `POST /v1/sign`, in bytes: without and with a manifest. */
export const MAX_SIGN_BODY_BYTES: { readonly ssh: number; readonly k8s: number } = {
  ssh: 64 * 1024,
  k8s: 256 * 1024,
};
/** The maximum length of `content_head`, in UTF-16 units. */
const MAX_CONTENT_HEAD_LENGTH = 2000;
/** The command of a file transfer names a path of at most 4096 bytes twice. */
const MAX_TRANSFER_BYTES = 16 * 1024;

const text = z.string().default("");

/** Decodes a {@linkcode SignRequest}. */
export const signRequest: z.ZodType<SignRequest> = z.object({
  ...each(z.string(), "host", "role", "purpose"),
  ...each(text, "session_mode", "command", "public_key", "sudo_user", "on_behalf_of", "end_user"),
  ...each(text, "bearer_token", "learn_approver", "learn_approval_id", "session_id", "reason"),
  ...each(text, "content_sha256", "content_head"),
  ...each(text, "target_type", "k8s_verb", "k8s_resource", "k8s_group", "k8s_namespace", "k8s_name"),
  k8s_manifest: text,
  ...each(z.boolean().default(false), "sudo", "pty", "file_transfer", "dry_run", "preflight", "approved"),
  ...each(z.int().default(0), "ttl_seconds", "learn_ttl_seconds"),
  ...each(z.int().min(0).default(0), "session_max_seconds", "content_bytes"),
  end_user_groups: z.array(z.string()).nullable().default(null),
  approval_proofs: z.array(approvalProof).max(MAX_PROOFS).default([]),
  k8s_force_fields: z.array(z.string().min(1).max(500).refine((field) => !hasInvisible(field))).max(100)
    .default([]),
});

/** A sign request as a broker sends it: the fields that it knows. */
export type SignRequestBody =
  & Pick<SignRequest, "host" | "role" | "purpose" | "end_user_groups">
  & Partial<SignRequest>;

/** The decision of the policy. Fields that are empty, false or 0 are absent. */
export interface WireDecision {
  /** Whether the policy allows the request. In audit mode it also allows what a rule would deny. */
  readonly allowed: boolean;
  /** Why the request is denied. */
  readonly reason?: string | undefined;
  /** A human has to approve the request. */
  readonly require_approval?: boolean | undefined;
  /**
   * `allow:<regex>`, `deny:<regex>`, `require_approval:<regex>`, `allowlist:no-match`, `shell-parse:<reason>` or
   * `approval-waived:<rule>`.
   */
  readonly matched_rule?: string | undefined;
  /** The only command that the certificate permits. */
  readonly force_command?: string | undefined;
  /** The lifetime of the certificate or token. */
  readonly ttl_seconds?: number | undefined;
  /** The prefix for the commands of an elevated session. */
  readonly elevation?: string | undefined;
  /** `enforce` if rules block, `audit` if they only warn; absent on a host without rules. */
  readonly enforcement?: Enforcement | undefined;
  /** In audit mode: the effect that enforcement would have had. */
  readonly warning?: string | undefined;
  /** In audit mode: enforcement would deny the request. */
  readonly would_deny?: boolean | undefined;
  /** In audit mode: enforcement would require an approval. */
  readonly would_require_approval?: boolean | undefined;
  /** The requester may see the values of Secrets. */
  readonly reveal?: boolean | undefined;
  /** The decision included `k8s_force_fields`, so the apply may take these fields over. */
  readonly force?: boolean | undefined;
}

/** One field of an object. Values are JSON texts, shortened if they are long. */
export interface K8sFieldChange {
  /** The field, such as `spec.replicas`. Keys with other characters are quoted: `metadata.labels["a.b/c"]`. */
  readonly path: string;
  /** The old value; absent: the field is added. */
  readonly before?: string | undefined;
  /** The new value; absent: the field is removed. */
  readonly after?: string | undefined;
}

/** The effect of an apply. Values of Secrets are masked. */
export interface K8sDiff {
  /** The effect. `created`: the object does not exist yet. `unknown`: the diff could not be determined. */
  readonly kind: "created" | "changed" | "unchanged" | "unknown";
  /** The reason for the result `unknown`, shown to the approver. */
  readonly reason?: string | undefined;
  /** The changed fields, in the order of their paths. */
  readonly changes?: readonly K8sFieldChange[] | undefined;
  /** The number of changes that are left out. */
  readonly omitted?: number | undefined;
}

/** The longest {@linkcode K8sDiff}, in bytes of JSON. */
export const MAX_K8S_DIFF_BYTES: number = 32 * 1024;

/** Decodes a {@linkcode K8sDiff}. */
export const k8sDiff: z.ZodType<K8sDiff> = z.object({
  kind: z.enum(["created", "changed", "unchanged", "unknown"]),
  reason: optional.text,
  changes: z.array(z.object({ path: z.string(), ...each(optional.text, "before", "after") })).optional(),
  omitted: optional.count,
});

/** The answer to a sign request. A dry run, or a request that needs approval, gets no credential and no serial. */
export interface SignResponse {
  /** One authorized_keys line without comment, with its newline. */
  readonly certificate?: string | undefined;
  /** The serial of the certificate or token: unsigned, 64 bits. */
  readonly serial?: bigint | undefined;
  /** The prefix that the broker puts before the commands of an elevated session. */
  readonly elevation_prefix?: string | undefined;
  /** A token of the ServiceAccount, a secret. */
  readonly k8s_token?: string | undefined;
  /** The expiry of the token, RFC 3339. */
  readonly k8s_token_expiry?: string | undefined;
  /** What an apply would change, for the approver of a control plane, if a human has to approve. */
  readonly k8s_diff?: K8sDiff | undefined;
  /** The decision of the policy. */
  readonly decision?: WireDecision | undefined;
  /** The sealed command, which the broker passes on unread. */
  readonly envelope?: unknown;
  /** Account and address, for the approver of a control plane: if a human has to approve, and in a dry run. */
  readonly target?: SignTarget | undefined;
  /** For the control plane, if the request needs signed approvals. */
  readonly signed_approval?: SignedApproval | undefined;
}

/** The account and address that a command runs at, before any elevation. */
export interface SignTarget {
  /** The account on the host, or the ServiceAccount of the cluster. */
  readonly user: string;
  /** The address of the host, or the URL of the API server. */
  readonly addr: string;
}

/** Decodes a {@linkcode SignResponse}. */
export const signResponse: z.ZodType<SignResponse> = z.object({
  // In the order of the signer's answer, which a control plane passes on.
  ...each(optional.text, "certificate"),
  serial: wideInteger.optional(),
  ...each(optional.text, "elevation_prefix", "k8s_token", "k8s_token_expiry"),
  k8s_diff: k8sDiff.optional(),
  decision: z.object({
    allowed: z.boolean(),
    ...each(optional.text, "reason"),
    ...each(optional.flag, "require_approval"),
    ...each(optional.text, "matched_rule", "force_command"),
    ttl_seconds: optional.count,
    ...each(optional.text, "elevation"),
    enforcement: z.enum(ENFORCEMENTS).optional(),
    ...each(optional.text, "warning"),
    ...each(optional.flag, "would_deny", "would_require_approval", "reveal", "force"),
  }).optional(),
  envelope: z.unknown().optional(),
  target: z.object(each(z.string(), "user", "addr")).optional(),
  signed_approval: signedApproval.optional(),
});

/**
 * The fields that become words of the KeyId and of audit records. A space or a control character would add
 * words.
 */
const TOKEN_FIELDS = [
  ...["host", "end_user", "role", "purpose", "session_mode", "session_id", "sudo_user"] as const,
  ...["k8s_verb", "k8s_resource", "k8s_group", "k8s_namespace", "k8s_name"] as const,
];

/**
 * Rejects unsafe characters, texts that are too long, and features that this version does not support.
 *
 * @param maxCommandBytes the limit of the command in UTF-8; a file transfer may always have 16 KiB
 * @throws {AppError} `invalid_request` with the field; `not_supported`
 */
export function checkSignFields(request: SignRequest, maxCommandBytes: number = MAX_COMMAND_BYTES): void {
  for (const field of TOKEN_FIELDS) checkWord(request[field], field);
  checkCaller(request.on_behalf_of);
  for (const group of request.end_user_groups ?? []) checkWord(group, "end_user_groups");
  const { command, k8s_manifest, target_type } = request;
  if (command.includes("\0")) throw invalid("command", "NUL not allowed");
  const maxBytes = request.file_transfer ? Math.max(maxCommandBytes, MAX_TRANSFER_BYTES) : maxCommandBytes;
  if (Buffer.byteLength(command) > maxBytes) {
    throw invalid("command", `longer than ${maxBytes} bytes (max_command_bytes)`);
  }
  if (!["", "ssh", "k8s"].includes(target_type)) {
    throw new AppError("not_supported", `target_type ${JSON.stringify(target_type)} is not supported yet`);
  }
  if (request.learn_ttl_seconds < 0) throw invalid("learn_ttl_seconds", "must not be negative");
  for (const field of ["learn_approver", "learn_approval_id"] as const) checkWord(request[field], field);
  if (target_type === "k8s" && k8s_manifest !== "" && request.k8s_verb !== "apply") {
    throw invalid("k8s_manifest", "it goes with the verb apply alone");
  }
  if (request.k8s_force_fields.length > 0 && k8s_manifest === "") {
    throw invalid("k8s_force_fields", "they go with a k8s_manifest alone");
  }
  if (Buffer.byteLength(k8s_manifest) > MAX_K8S_MANIFEST_BYTES) {
    throw invalid("k8s_manifest", `longer than ${MAX_K8S_MANIFEST_BYTES} bytes`);
  }
  checkReason(request.reason, "reason");
  if (!/^(?:[0-9a-f]{64})?$/.test(request.content_sha256)) {
    throw invalid("content_sha256", "must be 64 lowercase hex digits");
  }
  if (request.content_head.length > MAX_CONTENT_HEAD_LENGTH) {
    throw invalid("content_head", `longer than ${MAX_CONTENT_HEAD_LENGTH}`);
  }
}

/**
 * Rejects a reason or a comment that is too long.
 *
 * @throws {AppError} `invalid_request` with the field
 */
export function checkReason(text: string, field: string): void {
  // A character has at most two units, so most texts need not be counted.
  if (text.length <= MAX_REASON_CHARACTERS || [...text].length <= MAX_REASON_CHARACTERS) return;
  throw invalid(field, `more than ${MAX_REASON_CHARACTERS} characters`);
}

/**
 * Rejects a caller whose name would forge a field of a record.
 *
 * @throws {AppError} `invalid_request`
 */
export function checkCaller(caller: string): void {
  checkWord(caller, "caller identity");
}

function checkWord(value: string, field: string): void {
  if (isUnsafe(value)) throw invalid(field, "control or whitespace characters not allowed");
}

function invalid(field: string, fault: string): AppError {
  return new AppError("invalid_request", `invalid ${field}: ${fault}`);
}

/** The end of the names of hosts that fetch the revocation list. */
export const HOST_IDENTITY_SUFFIX = ".krl";

/** The answer of a service to a host that requests anything but the revocation list. */
export const LIST_ONLY = "a host's identity is for the revocation list alone";

/**
 * Whether a CN is the identity of a host. Its certificate is stored on the host for years and comes from the CA of all
 * callers, so an attacker who compromises the host must not become a caller with it.
 */
export function isHostIdentity(caller: string): boolean {
  return caller.endsWith(HOST_IDENTITY_SUFFIX);
}
