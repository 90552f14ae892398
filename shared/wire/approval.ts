// Approvals: the answers of a control plane while a human decides, `GET /v1/approvals` and `POST
// /v1/approvals/{id}`.
import * as z from "@zod/zod";
import { type ApprovalProof, approvalProof, type SignedApproval, signedApproval } from "./proof.ts";
import { each, type K8sDiff, k8sDiff, optional, wideInteger } from "./sign.ts";

/** The states of an approval. A collected approval stays `approved` until it is purged. */
export const APPROVAL_STATUSES = ["pending", "approved", "denied", "expired"] as const;
/** One of {@linkcode APPROVAL_STATUSES}. */
export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];

/** `decided_at` of an undecided approval: a zero time, for clients that expect the key. */
export const UNDECIDED_AT = "0001-01-01T00:00:00Z";

/** An approval as approvers and webhooks see it. Fields that are empty or false are absent. */
export interface ApprovalRecord {
  /** 32 lowercase hex characters. */
  readonly id: string;
  /** The broker that requested. */
  readonly caller: string;
  /** The end user. Only from brokers that are trusted to name it. */
  readonly end_user?: string | undefined;
  /** The host, or the cluster if `target_type` is `k8s`. */
  readonly host: string;
  /** The exact command without its sudo prefix, or the action on a cluster. */
  readonly command: string;
  /** The command runs with sudo. */
  readonly sudo?: boolean | undefined;
  /** The account for sudo. Absent with `sudo`: root. */
  readonly sudo_user?: string | undefined;
  /** Why an approval is needed: `require_approval:<regex>`, or `behavior` for an anomaly. */
  readonly rule?: string | undefined;
  /** A collected approval stays `approved` until it is purged. */
  readonly status: ApprovalStatus;
  /** RFC 3339, UTC, with a fraction of up to nine digits. */
  readonly created_at: string;
  /** RFC 3339, or {@linkcode UNDECIDED_AT}. */
  readonly decided_at: string;
  /** The approver. */
  readonly decided_by?: string | undefined;
  /** In nanoseconds; present if the approver let the signer learn. */
  readonly learn_ttl?: bigint | undefined;
  /** What is unusual: `new-host:<host>`, `new-command:<program>`. */
  readonly anomalies?: readonly string[] | undefined;
  /** Access beyond one command on the host itself: `bastion`, `session:<mode>`, `pty`, `file_transfer`. */
  readonly access?: readonly string[] | undefined;
  /** RFC 3339: the expiry of an undecided or an uncollected approval. */
  readonly expires_at?: string | undefined;
  /** The account on the host, before any elevation. */
  readonly account?: string | undefined;
  /** The address of the host, or the URL of the API server. */
  readonly addr?: string | undefined;
  /** The lifetime of the certificate. */
  readonly life_seconds?: number | undefined;
  /** The time after which the broker closes the session, by its own words. */
  readonly session_max_seconds?: number | undefined;
  /** The requester's words: untrusted text. */
  readonly reason?: string | undefined;
  /** The request is a preflight of a session, which runs nothing. */
  readonly dry_run?: boolean | undefined;
  /** SHA-256 of the content that a transfer writes. */
  readonly content_sha256?: string | undefined;
  /** The length of the transferred content. */
  readonly content_bytes?: number | undefined;
  /** The first lines of the transferred content, if it is text. */
  readonly content_head?: string | undefined;
  /** `k8s` for a cluster; absent for a host. */
  readonly target_type?: "k8s" | undefined;
  /** One JSON document; values of Secrets are masked. */
  readonly k8s_manifest?: string | undefined;
  /** SHA-256 of the unmasked manifest. */
  readonly k8s_manifest_sha256?: string | undefined;
  /** What the apply changes, at the time of the request. */
  readonly k8s_diff?: K8sDiff | undefined;
  /** The fields that the apply takes from other managers. */
  readonly k8s_force_fields?: readonly string[] | undefined;
  /** The approver's words. */
  readonly comment?: string | undefined;
  /** The IDs of the identical requests that are decided with this one. */
  readonly joined?: readonly string[] | undefined;
  /** The number of them, this one included, that have collected the approval. */
  readonly collected?: number | undefined;
  /** Present if approvers must sign their decisions. Such a request is never decided with others. */
  readonly signed_approval?: SignedApproval | undefined;
}

/** Decodes an {@linkcode ApprovalRecord}; unknown fields are dropped. */
export const approvalRecord: z.ZodType<ApprovalRecord> = z.object({
  ...each(z.string(), "id", "caller", "host", "command", "created_at", "decided_at"),
  ...each(optional.text, "end_user", "sudo_user", "rule", "decided_by", "expires_at", "account", "addr"),
  ...each(optional.text, "reason", "comment", "content_sha256", "content_head"),
  ...each(optional.text, "k8s_manifest", "k8s_manifest_sha256"),
  ...each(optional.flag, "sudo", "dry_run"),
  ...each(optional.texts, "anomalies", "access", "k8s_force_fields", "joined"),
  ...each(optional.count, "life_seconds", "session_max_seconds", "content_bytes", "collected"),
  status: z.enum(APPROVAL_STATUSES),
  learn_ttl: wideInteger.optional(),
  target_type: z.literal("k8s").optional(),
  k8s_diff: k8sDiff.optional(),
  signed_approval: signedApproval.optional(),
});

/** Decodes the list of approvals. */
export const approvalList: z.ZodType<readonly ApprovalRecord[]> = z.array(approvalRecord);

/** The longest lifetime of a learned waiver, in seconds. */
export const LONGEST_LEARN_TTL_SECONDS: number = 100 * 366 * 86_400;

/** The decision of an approver. */
export interface ApprovalDecision {
  /** `true` approves, `false` denies. */
  readonly approve: boolean;
  /** The signer runs the same without approval for a time; counts only with `approve`. */
  readonly learn: boolean;
  /** The lifetime of what the signer learns; required and positive with `learn`. */
  readonly ttl_seconds: number;
  /**
   * The IDs of the identical requests that the approver saw. The decision is about these and the addressed request.
   * Older clients send none: their decision is about the addressed request alone.
   */
  readonly shown_ids?: readonly string[] | undefined;
  /** The approver's words, at most 500 characters. */
  readonly comment: string;
  /** The signed decision; required to approve a request with `signed_approval`. */
  readonly proof?: ApprovalProof | undefined;
}

/** Decodes an {@linkcode ApprovalDecision}, whose comment may be called `reason`; unknown fields are dropped. */
export const approvalDecision: z.ZodType<ApprovalDecision> = z.object({
  ...each(z.boolean().default(false), "approve", "learn"),
  ttl_seconds: z.int().max(LONGEST_LEARN_TTL_SECONDS).default(0),
  shown_ids: optional.texts,
  comment: z.string().default(""),
  proof: approvalProof.optional(),
  reason: z.string().default("").describe("Earlier name of comment"),
}).transform(({ comment, reason, ...decision }) => ({ ...decision, comment: comment || reason }));

/** The answer to a sign request that a human has to approve, status 202. */
export interface ApprovalParked {
  /** For `GET /v1/sign/result/{approval_id}`. */
  readonly approval_id: string;
  /** A human has not decided yet. */
  readonly status: "pending";
}

/** The answer to a poll that has no result yet, status 202. */
export interface ApprovalWaiting {
  /** `issuing`: another poll is collecting the approval now. */
  readonly status: "pending" | "issuing";
}
