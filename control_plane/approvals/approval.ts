import { isSameIdentity } from "@gateway/shared/text";
import type { ApprovalStatus, K8sDiff, SignRequest } from "@gateway/shared/wire";
import type { Asker } from "./pending_count.ts";
import { createHash } from "node:crypto";

/** What became of an approval so far; that it expires is not kept but follows from the time. */
export type ApprovalState =
  | { readonly kind: "pending" }
  | {
    readonly kind: "approved" | "consumed";
    readonly by: string;
    /** When, in milliseconds since the epoch. */
    readonly at: number;
    /** For how long the signer may do the same without approval; 0: not at all. */
    readonly learnTtlSeconds: number;
    /** What the approver said to it. */
    readonly comment?: string | undefined;
  }
  | {
    readonly kind: "denied";
    readonly by: string;
    readonly at: number;
    readonly comment?: string | undefined;
  };

/** What the signer said of a request that an approver has to know: where it would run, and for how long. */
export interface ApprovalTarget {
  readonly user: string;
  readonly addr: string;
  /** The life of the certificate, within the signer's caps; 0: not said. */
  readonly lifeSeconds: number;
}

/** The rule of an approval that no rule of the policy asks for: the guardrails found the request unusual. */
export const BEHAVIOR_RULE = "behavior";

/** The request that is signed once it is approved, without the end user's token: that is never kept. */
export type StoredRequest = Omit<SignRequest, "bearer_token">;

/** A sign request that waits for a human, or has been decided by one. */
export interface Approval {
  /** 32 lowercase hex characters. */
  readonly id: string;
  /** The broker that asked, by the CN of its certificate. */
  readonly caller: string;
  /** The person it asks for; empty when there is none, or the broker is not trusted to say so. */
  readonly endUser: string;
  readonly host: string;
  readonly command: string;
  readonly sudo: boolean;
  /** Empty with `sudo`: root. */
  readonly sudoUser: string;
  /** `require_approval:<regex>`, or {@linkcode BEHAVIOR_RULE}. */
  readonly rule: string;
  readonly anomalies: readonly string[];
  /** In milliseconds since the epoch. */
  readonly createdAt: number;
  /**
   * How long it waits for its decision, and a decision for its collection, as the control plane that parked it says;
   * absent where an earlier version parked it: as long as the instance that answers says.
   */
  readonly timeoutMs?: number | undefined;
  readonly state: ApprovalState;
  readonly request: StoredRequest;
  /** Absent where the signer did not say. */
  readonly target?: ApprovalTarget | undefined;
  /** What it would change on a cluster, as the signer found it; absent where the signer did not say. */
  readonly k8sDiff?: K8sDiff | undefined;
  /** The id of the identical request that was first, with which it is decided; absent: it is the first. */
  readonly lead?: string | undefined;
}

/** What an approval is made of. */
export type ApprovalDraft = Omit<Approval, "id" | "createdAt" | "timeoutMs" | "state" | "lead"> & {
  /** The end user's token for the signer, or empty: kept in memory only, never stored and never listed. */
  readonly bearerToken: string;
};

/** Where an approval stands. At exactly the timeout it is still valid. */
export function statusOf({ createdAt, state }: Approval, now: number, timeoutMs: number): ApprovalStatus {
  switch (state.kind) {
    case "pending":
      return now - createdAt > timeoutMs ? "expired" : "pending";
    case "approved":
      return now - state.at > timeoutMs ? "expired" : "approved";
    case "consumed":
      return "approved";
    case "denied":
      return "denied";
    default:
      return state satisfies never;
  }
}

/** The last moment at which an approval can still be decided or collected; `undefined` when it can't expire. */
export function expiresAt({ createdAt, state }: Approval, timeoutMs: number): number | undefined {
  if (state.kind === "pending") return createdAt + timeoutMs;
  return state.kind === "approved" ? state.at + timeoutMs : undefined;
}

/** Whether somebody has asked for it: by the own certificate, or as the person behind a trusted broker, however the name is written. */
export function hasAskedFor(
  { caller, endUser }: Pick<Approval, "caller" | "endUser">,
  name: string,
): boolean {
  return isSameIdentity(name, caller) || isSameIdentity(name, endUser);
}

/** Why there is nothing that the signer could learn from an approval; `undefined` when there is. */
export function nothingToLearn(
  { rule, request, target }: {
    readonly rule: string;
    readonly request: Pick<
      StoredRequest,
      | "dry_run"
      | "file_transfer"
      | "content_sha256"
      | "target_type"
      | "k8s_verb"
      | "k8s_manifest"
      | "k8s_force_fields"
    >;
    readonly target?: ApprovalTarget | undefined;
  },
): string | undefined {
  if (request.dry_run) return "it is asked whether the command may run, and nothing is signed";
  if (rule === BEHAVIOR_RULE) return "no rule wants it approved, it was only unusual";
  if (request.target_type === "k8s") {
    if (request.k8s_force_fields.length > 0) return "it takes fields over from other managers";
    // Learned by its name alone, it would let every later change through.
    const isUnsaid = request.k8s_verb === "apply" && request.k8s_manifest === "";
    return isUnsaid ? "it changes an object, and nobody says how" : undefined;
  }
  if (!request.file_transfer) return undefined;
  // Learned by its path alone, it would let every later content through.
  if (request.content_sha256 === "") return "it moves a file, and nobody says with what content";
  // A signer that does not name the target is of an earlier version, which learns the path alone.
  return target === undefined ? "it moves a file, and the signer would learn its path alone" : undefined;
}

/**
 * Whom an approval counts for while it is pending. An untrusted broker's word about its end user counts too: all
 * that it can do is to divide that broker's own share.
 */
export function askerOf({ caller, request }: Pick<Approval, "caller" | "request">): Asker {
  return { caller, endUser: request.end_user };
}

/**
 * Equal for two requests that an approver can't tell apart and may decide as one: of the same asker, for the same, with
 * the same reason, for the same cause. Only the key to be certified, the token and the session's ID differ, and they stay each one's own.
 */
export function identityOf(approval: Omit<ApprovalDraft, "bearerToken">): string {
  const { caller, endUser, rule, anomalies, target, k8sDiff } = approval;
  const { public_key: _key, session_id: _session, ...request } = withoutToken(approval.request);
  const asked = Object.entries(request).sort(([a], [b]) => a < b ? -1 : 1);
  return digestOf(JSON.stringify([caller, endUser, rule, anomalies, target ?? null, k8sDiff ?? null, asked]));
}

/** A request as it may be kept. Whatever the type says: a token that came along stays behind. */
export function withoutToken(request: StoredRequest): StoredRequest {
  const { bearer_token: _token, ...stored } = { bearer_token: "", ...request };
  return stored;
}

/**
 * 43 characters that stand for a text of any length, and for no other. Lone surrogates count: they are
 * escaped first, where encoding them as UTF-8 would make them all one.
 */
export function digestOf(text: string): string {
  return createHash("sha256").update(JSON.stringify(text)).digest("base64url");
}

/** SHA-256 of a text as UTF-8, 64 lowercase hex digits, as other programs compute it. */
export function sha256Of(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}
