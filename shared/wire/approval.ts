/**
 * Approvals: what the control plane answers while a human decides, `GET /v1/approvals` and
 * `POST /v1/approvals/{id}`. The JSON itself, snake_case.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { approvalDecision, UNDECIDED_AT } from "@gateway/shared/wire";
 *
 * assert.deepEqual(approvalDecision.parse({}), { approve: false, learn: false, ttl_seconds: 0, comment: "" });
 * assert.equal(UNDECIDED_AT, "0001-01-01T00:00:00Z");
 * ```
 *
 * @module
 */
import * as z from "@zod/zod";
import { type K8sDiff, k8sDiff } from "./k8s_diff.ts";

/** Where an approval stands. One that was collected stays `approved` until it is purged. */
export const APPROVAL_STATUSES = ["pending", "approved", "denied", "expired"] as const;
/** One of {@linkcode APPROVAL_STATUSES}. */
export type ApprovalStatus = (typeof APPROVAL_STATUSES)[number];

/** `decided_at` of an approval that is not decided: a zero time, for clients that expect the key. */
export const UNDECIDED_AT = "0001-01-01T00:00:00Z";

/** One approval as approvers and webhooks see it; what is empty or false is absent. */
export interface ApprovalRecord {
  /** 32 lowercase hex characters. */
  readonly id: string;
  readonly caller: string;
  /** The person it asks for; only from brokers that are trusted to say so. */
  readonly end_user?: string | undefined;
  readonly host: string;
  /** The exact command, without its sudo prefix. */
  readonly command: string;
  /** Whether it is to run elevated. */
  readonly sudo?: boolean | undefined;
  /** Absent with `sudo`: root. */
  readonly sudo_user?: string | undefined;
  /** `require_approval:<regex>`, or `behavior` for an anomaly. */
  readonly rule?: string | undefined;
  readonly status: ApprovalStatus;
  /** RFC 3339, UTC, with a fraction of up to nine digits. */
  readonly created_at: string;
  readonly decided_by?: string | undefined;
  /** RFC 3339; {@linkcode UNDECIDED_AT} while nobody has decided. */
  readonly decided_at: string;
  /** Nanoseconds; present when the approver let the signer learn. */
  readonly learn_ttl?: bigint | undefined;
  /** What the guardrails found: `new-host:<host>`, `new-command:<program>`. */
  readonly anomalies?: readonly string[] | undefined;
  /**
   * What is asked for beyond one command on the host itself: `bastion` (to connect through it), `session:<mode>`
   * (commands that come later), `pty`, `file_transfer`.
   */
  readonly access?: readonly string[] | undefined;
  /** RFC 3339: when it expires if nobody decides, or if nobody collects what was decided. */
  readonly expires_at?: string | undefined;
  /** The account on the host, before any elevation. */
  readonly account?: string | undefined;
  readonly addr?: string | undefined;
  /** The life of the certificate, within the signer's caps. */
  readonly life_seconds?: number | undefined;
  /** After how long the broker says that it closes the session. */
  readonly session_max_seconds?: number | undefined;
  /** It is only asked whether it may run: nothing is signed. */
  readonly dry_run?: boolean | undefined;
  /** Why, in the words of whoever asks: untrusted text. */
  readonly reason?: string | undefined;
  /** SHA-256 of what is written, as the broker says. */
  readonly content_sha256?: string | undefined;
  /** How many bytes are written, as the broker says. */
  readonly content_bytes?: number | undefined;
  /** The first lines of what is written, where it is text. */
  readonly content_head?: string | undefined;
  /** Present where it is an action on a cluster: `host` names the cluster then, `command` the action. */
  readonly target_type?: "k8s" | undefined;
  /** Of an apply: the object as it is to be, one JSON document; values of Secrets are masked. */
  readonly k8s_manifest?: string | undefined;
  /** SHA-256 of the manifest as it is to be sent. */
  readonly k8s_manifest_sha256?: string | undefined;
  /** Of an apply: what it would change, as the signer found it when it was asked. */
  readonly k8s_diff?: K8sDiff | undefined;
  /** Of an apply: the fields that it takes over from other managers. */
  readonly k8s_force_fields?: readonly string[] | undefined;
  /** What the approver said to it. */
  readonly comment?: string | undefined;
  /** The ids of the identical requests that are decided with this one. */
  readonly joined?: readonly string[] | undefined;
  /** How many of them, this one included, have collected what was approved; absent: none. */
  readonly collected?: number | undefined;
}

const nanoseconds = z.union([z.bigint(), z.int()]).transform((value) => BigInt(value));

/** Decodes an {@linkcode ApprovalRecord}; unknown fields are dropped. */
export const approvalRecord: z.ZodType<ApprovalRecord> = z.object({
  id: z.string(),
  caller: z.string(),
  end_user: z.string().optional(),
  host: z.string(),
  command: z.string(),
  sudo: z.boolean().optional(),
  sudo_user: z.string().optional(),
  rule: z.string().optional(),
  status: z.enum(APPROVAL_STATUSES),
  created_at: z.string(),
  decided_by: z.string().optional(),
  decided_at: z.string(),
  learn_ttl: nanoseconds.optional(),
  anomalies: z.array(z.string()).optional(),
  access: z.array(z.string()).optional(),
  expires_at: z.string().optional(),
  account: z.string().optional(),
  addr: z.string().optional(),
  life_seconds: z.int().optional(),
  session_max_seconds: z.int().optional(),
  dry_run: z.boolean().optional(),
  reason: z.string().optional(),
  content_sha256: z.string().optional(),
  content_bytes: z.int().optional(),
  content_head: z.string().optional(),
  target_type: z.literal("k8s").optional(),
  k8s_manifest: z.string().optional(),
  k8s_manifest_sha256: z.string().optional(),
  k8s_diff: k8sDiff.optional(),
  k8s_force_fields: z.array(z.string()).optional(),
  comment: z.string().optional(),
  joined: z.array(z.string()).optional(),
  collected: z.int().optional(),
});

/** Decodes the list of approvals. */
export const approvalList: z.ZodType<readonly ApprovalRecord[]> = z.array(approvalRecord);

/** The longest life of a learned waiver that can be asked for, in seconds. */
export const LONGEST_LEARN_TTL_SECONDS: number = 100 * 366 * 86_400;

/** What an approver decides. */
export interface ApprovalDecision {
  /** Absent is a denial. */
  readonly approve: boolean;
  /** Let the signer run the same without approval for a time; counts only with `approve`. */
  readonly learn: boolean;
  /** For how long; has to be positive with `learn`. */
  readonly ttl_seconds: number;
  /**
   * The ids of the identical requests that the approver was shown: the decision is about these and the addressed one.
   * Absent, as from clients of before: about the addressed one alone.
   */
  readonly shown_ids?: readonly string[] | undefined;
  /** What the approver has to say, for the audit log and whoever looks at the request; empty: nothing. */
  readonly comment: string;
}

/** Decodes an {@linkcode ApprovalDecision}, whose comment may be called `reason`; unknown fields are dropped. */
export const approvalDecision: z.ZodType<ApprovalDecision> = z.object({
  approve: z.boolean().default(false),
  learn: z.boolean().default(false),
  ttl_seconds: z.int().max(LONGEST_LEARN_TTL_SECONDS).default(0),
  shown_ids: z.array(z.string()).optional(),
  comment: z.string().default(""),
  reason: z.string().default(""),
}).transform(({ comment, reason, ...decision }) => ({
  ...decision,
  comment: comment === "" ? reason : comment,
}));

/** The answer to a sign request that a human has to approve, status 202. */
export interface ApprovalParked {
  /** Where to poll: `GET /v1/sign/result/{approval_id}`. */
  readonly approval_id: string;
  readonly status: "pending";
}

/** The answer to a poll that has no result yet, status 202. */
export interface ApprovalWaiting {
  /** `issuing`: another poll is collecting it at this moment. */
  readonly status: "pending" | "issuing";
}
