// Signed approvals: the request that an approver signs for, and the proof that a control plane passes on to the
// signer unread. `docs/reference/signed-approvals.md` specifies the bytes.
import * as z from "@zod/zod";

/**
 * Everything of a sign request that an approval is about, as the signer sees it. Every field is present, and the
 * digest of a request is over all of them.
 */
export interface ApprovalSubject {
  /** The effective caller. */
  readonly caller: string;
  /** The end user; if the signer verifies end users, the name in the token. */
  readonly end_user: string;
  /** The groups of the end user; `null`: not reported. */
  readonly end_user_groups: readonly string[] | null;
  /** The host, or the cluster. */
  readonly host: string;
  /** `k8s` for a cluster. */
  readonly target_type: string;
  /** `target` or `bastion`. */
  readonly role: string;
  /** `oneshot` or `session`. */
  readonly purpose: string;
  /** `exec`, `shell` or `pty`. */
  readonly session_mode: string;
  /** The time after which the broker closes the session. */
  readonly session_max_seconds: number;
  /** The exact command, or the action on a cluster. */
  readonly command: string;
  /** The command runs with sudo. */
  readonly sudo: boolean;
  /** The account for sudo. */
  readonly sudo_user: string;
  /** The command gets a terminal. */
  readonly pty: boolean;
  /** The command transfers a file. */
  readonly file_transfer: boolean;
  /** SHA-256 of the transferred content. */
  readonly content_sha256: string;
  /** The length of the transferred content. */
  readonly content_bytes: number;
  /** The first lines of the content, for the approver. */
  readonly content_head: string;
  /** The requested lifetime. */
  readonly ttl_seconds: number;
  /** The broker's ephemeral key without its comment. */
  readonly public_key: string;
  /** The action on a cluster. */
  readonly k8s_verb: string;
  /** The kind of object. */
  readonly k8s_resource: string;
  /** The API group. */
  readonly k8s_group: string;
  /** The namespace. */
  readonly k8s_namespace: string;
  /** The name of the object. */
  readonly k8s_name: string;
  /** SHA-256 of the manifest, hex; empty without a manifest. */
  readonly k8s_manifest_sha256: string;
  /** The fields that an apply takes from other managers. */
  readonly k8s_force_fields: readonly string[];
  /** The requester's words: untrusted text. */
  readonly reason: string;
}

const text = z.string();
const flag = z.boolean();

/** Decodes an {@linkcode ApprovalSubject}. A missing field is an error, because it would change the digest. */
const approvalSubject: z.ZodType<ApprovalSubject> = z.object({
  caller: text,
  end_user: text,
  end_user_groups: z.array(text).nullable(),
  host: text,
  target_type: text,
  role: text,
  purpose: text,
  session_mode: text,
  session_max_seconds: z.int(),
  command: text,
  sudo: flag,
  sudo_user: text,
  pty: flag,
  file_transfer: flag,
  content_sha256: text,
  content_bytes: z.int(),
  content_head: text,
  ttl_seconds: z.int(),
  public_key: text,
  k8s_verb: text,
  k8s_resource: text,
  k8s_group: text,
  k8s_namespace: text,
  k8s_name: text,
  k8s_manifest_sha256: text,
  k8s_force_fields: z.array(text),
  reason: text,
});

/** The ways to sign a decision. */
const PROOF_KINDS = ["ssh", "passkey"] as const;
/** One of {@linkcode PROOF_KINDS}. */
export type ProofKind = (typeof PROOF_KINDS)[number];

/** A signed decision. Binary fields are base64url without padding. */
export type ApprovalProof =
  | {
    readonly kind: "ssh";
    /** The decision document, byte for byte as it was signed. */
    readonly document: string;
    /** The binary SSHSIG (PROTOCOL.sshsig). */
    readonly signature: string;
  }
  | {
    readonly kind: "passkey";
    readonly document: string;
    /** The signature of the authenticator; for ECDSA in DER (WebAuthn, section 6.5.5). */
    readonly signature: string;
    readonly credential_id: string;
    readonly authenticator_data: string;
    /** The JSON text `clientDataJSON`. */
    readonly client_data: string;
  };

const document = z.string().max(2_000);
const bytes = z.string().max(8_000).regex(/^[A-Za-z0-9_-]+$/);

/** Decodes an {@linkcode ApprovalProof}. */
export const approvalProof: z.ZodType<ApprovalProof> = z.discriminatedUnion("kind", [
  z.object({ kind: z.literal("ssh"), document, signature: bytes }),
  z.object({
    kind: z.literal("passkey"),
    document,
    signature: bytes,
    credential_id: bytes,
    authenticator_data: bytes,
    client_data: bytes,
  }),
]);

/** The most proofs of one request. */
export const MAX_PROOFS = 16;

/** The signer's view of an approval that needs signatures, in its decision. */
export interface SignedApproval {
  /** The number of different people who have to sign. */
  readonly required: number;
  /** The installation that the documents must name. */
  readonly installation: string;
  /** The request that they sign for. */
  readonly subject: ApprovalSubject;
  /** The people whose proofs in this request are valid. */
  readonly approved_by: readonly string[];
  /** The reason why the signer rejects a proof of this request. */
  readonly problem?: string | undefined;
}

/** Decodes a {@linkcode SignedApproval}. */
export const signedApproval: z.ZodType<SignedApproval> = z.object({
  required: z.int().positive(),
  installation: text,
  subject: approvalSubject,
  approved_by: z.array(text),
  problem: text.optional(),
});
