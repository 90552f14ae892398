import { createHash } from "node:crypto";
import type { Clock } from "@gateway/shared/clock";
import { maskText } from "@gateway/shared/kubernetes";
import { parseDocument } from "@gateway/shared/proofs";
import { parseEd25519PublicKey } from "@gateway/shared/ssh";
import { isSameIdentity } from "@gateway/shared/text";
import {
  type ApprovalProof,
  type ApprovalRecord,
  type ApprovalStatus,
  type K8sDiff,
  type SignedApproval,
  type SignRequest,
  UNDECIDED_AT,
} from "@gateway/shared/wire";

interface Decision {
  readonly by: string;
  /** Milliseconds since the epoch. */
  readonly at: number;
  readonly comment?: string | undefined;
}

/** The stored state. Expiry is not stored, because it follows from the time. */
export type ApprovalState =
  | { readonly kind: "pending"; readonly proofs?: readonly ApprovalProof[] | undefined }
  | Decision & {
    readonly kind: "approved" | "consumed";
    /** The signed decisions for the signer, in the order in which they arrived. */
    readonly proofs?: readonly ApprovalProof[] | undefined;
    /** How long the signer may sign identical requests without approval. */
    readonly learnTtlSeconds: number;
  }
  | Decision & { readonly kind: "denied" };

/** The account, the address and the certificate's life, as the signer reports them; life 0: not reported. */
interface ApprovalTarget {
  readonly user: string;
  readonly addr: string;
  readonly lifeSeconds: number;
}

/** The rule of a request that no policy rule gates: the guardrails found the request unusual. */
export const BEHAVIOR_RULE = "behavior";

/** A request without the end user's token, which is never stored. */
export type StoredRequest = Omit<SignRequest, "bearer_token">;

/** A sign request that waits for a human, or that a human has decided. */
export interface Approval {
  /** 32 lowercase hex characters. */
  readonly id: string;
  readonly caller: string;
  /** Empty if the broker names no end user, or is not trusted to name one. */
  readonly endUser: string;
  readonly host: string;
  readonly command: string;
  readonly sudo: boolean;
  readonly sudoUser: string;
  /** `require_approval:<regex>`, or {@linkcode BEHAVIOR_RULE}. */
  readonly rule: string;
  readonly anomalies: readonly string[];
  /** Milliseconds since the epoch. */
  readonly createdAt: number;
  /** Absent if an earlier version parked the request. The timeout of the answering instance then applies. */
  readonly timeoutMs?: number | undefined;
  readonly state: ApprovalState;
  readonly request: StoredRequest;
  readonly target?: ApprovalTarget | undefined;
  readonly k8sDiff?: K8sDiff | undefined;
  /** The signer's demand for signed decisions; absent if the control plane's word suffices. */
  readonly signed?: SignedApproval | undefined;
  /** The ID of the first identical request; this request is decided with it. */
  readonly lead?: string | undefined;
}

export type ApprovalDraft = Omit<Approval, "id" | "createdAt" | "timeoutMs" | "state" | "lead"> & {
  /** The end user's token: in memory only, never stored and never listed. */
  readonly bearerToken: string;
};

/** The time, and the time that a request waits for its decision and a decision for its collection. */
export interface Timing {
  readonly now: number;
  readonly timeoutMs: number;
}

/** The status of an approval, which is still valid at exactly the timeout. */
export function statusOf({ createdAt, state }: Approval, { now, timeoutMs }: Timing): ApprovalStatus {
  if (state.kind === "consumed") return "approved";
  if (state.kind === "denied") return "denied";
  return now - (state.kind === "pending" ? createdAt : state.at) > timeoutMs ? "expired" : state.kind;
}

/** The last moment of a decision or collection; `undefined` if the approval cannot expire. */
export function expiresAt({ createdAt, state }: Approval, timeoutMs: number): number | undefined {
  if (state.kind === "pending") return createdAt + timeoutMs;
  return state.kind === "approved" ? state.at + timeoutMs : undefined;
}

/** Twice the timeout: a decision in time can always be collected in time. */
export function isPurgeable({ createdAt }: Approval, { now, timeoutMs }: Timing): boolean {
  return now - createdAt > 2 * timeoutMs;
}

/** True for the requesting broker and for its end user, in every spelling of the name. */
export function isRequester(
  { caller, endUser }: Pick<Approval, "caller" | "endUser">,
  name: string,
): boolean {
  return isSameIdentity(name, caller) || isSameIdentity(name, endUser);
}

export interface Verdict {
  readonly approver: string;
  readonly approve: boolean;
  /** Ignored for a denial. */
  readonly learnTtlSeconds: number;
  /** The IDs of the identical requests on the approver's page; by default only the decided request. */
  readonly shown?: readonly string[] | undefined;
  readonly comment?: string | undefined;
  /** The signed decisions that the signer has accepted, the new one last; `isEnough`: no more are needed. */
  readonly signed?: { readonly proofs: readonly ApprovalProof[]; readonly isEnough: boolean } | undefined;
}

type Decided =
  | { readonly kind: "decided"; readonly approval: Approval }
  | { readonly kind: "self" }
  /** Another approver has signed meanwhile. */
  | { readonly kind: "outdated" }
  | { readonly kind: "not_pending"; readonly status: ApprovalStatus };

/** Decides a pending approval. Requesters are rejected first, regardless of the status. */
export function decide(
  approval: Approval,
  { approver, approve, learnTtlSeconds, comment, signed, ...timing }: Verdict & Timing,
): Decided {
  if (isRequester(approval, approver)) return { kind: "self" };
  const status = statusOf(approval, timing);
  if (status !== "pending") return { kind: "not_pending", status };
  const proofs = signed?.proofs;
  if (approve && (proofs?.length ?? 0) !== proofsOf(approval).length + (proofs === undefined ? 0 : 1)) {
    return { kind: "outdated" };
  }
  if (approve && signed?.isEnough === false) {
    return { kind: "decided", approval: { ...approval, state: { kind: "pending", proofs } } };
  }
  const decision = {
    by: approver,
    at: timing.now,
    ...(comment !== undefined && comment !== "" && { comment }),
  };
  const state: ApprovalState = approve
    ? { kind: "approved", ...decision, learnTtlSeconds, ...(proofs !== undefined && { proofs }) }
    : { kind: "denied", ...decision };
  return { kind: "decided", approval: { ...approval, state } };
}

/** The signed decisions about an approval so far. */
export function proofsOf({ state }: Pick<Approval, "state">): readonly ApprovalProof[] {
  return state.kind === "denied" ? [] : state.proofs ?? [];
}

/** The reason why the signer cannot learn a waiver from an approval; `undefined` if it can. */
export function nothingToLearn(
  { rule, request, target }: Pick<Approval, "rule" | "request" | "target">,
): string | undefined {
  if (request.dry_run) return "it only asks whether the command is allowed";
  if (rule === BEHAVIOR_RULE) return "no policy rule requires approval";
  if (request.target_type === "k8s") {
    if (request.k8s_force_fields.length > 0) return "it overwrites fields of other managers";
    // A waiver that is bound only to the object's name would permit every later change of the object.
    const isUnsaid = request.k8s_verb === "apply" && request.k8s_manifest === "";
    return isUnsaid ? "it changes an object without a manifest" : undefined;
  }
  if (!request.file_transfer) return undefined;
  // A waiver that is bound only to the path would permit every later content of the file.
  if (request.content_sha256 === "") return "it transfers a file of unknown content";
  // A signer that does not return the target is of an earlier version, which binds a waiver only to the path.
  return target === undefined ? "it transfers a file, and the signer would learn only its path" : undefined;
}

/**
 * Equal for requests that look the same to an approver and may be decided as one. Only the key, the token and the
 * session's ID differ.
 */
export function identityOf(approval: Omit<ApprovalDraft, "bearerToken">): string {
  const { caller, endUser, rule, anomalies, target, k8sDiff } = approval;
  const { public_key: _key, session_id: _session, ...request } = withoutToken(approval.request);
  const asked = Object.entries(request).sort(([a], [b]) => a < b ? -1 : 1);
  // A signed decision is about one request, so the request is never decided with others.
  const own = approval.signed === undefined ? [] : ["id" in approval ? approval.id : ""];
  const parts = [caller, endUser, rule, anomalies, target ?? null, k8sDiff ?? null, asked, ...own];
  return digestOf(JSON.stringify(parts));
}

/** Removes the token from a request, which may have one in spite of its type. */
export function withoutToken(request: StoredRequest): StoredRequest {
  const { bearer_token: _token, ...stored } = { bearer_token: "", ...request };
  return stored;
}

/** A digest of 43 characters. Lone surrogates are escaped first, because UTF-8 would make them all equal. */
export function digestOf(text: string): string {
  return createHash("sha256").update(JSON.stringify(text)).digest("base64url");
}

/** SHA-256 of a text in UTF-8 as hex, as other programs compute it. */
export function sha256Of(text: string): string {
  return createHash("sha256").update(text).digest("hex");
}

const NANOSECONDS = 1_000_000_000n;

/**
 * An approval as approvers see it: without the request and its key.
 *
 * @param others the identical requests that are decided with it
 */
export function toRecord(
  approval: Approval,
  timing: Timing,
  others: readonly Approval[] = [],
): ApprovalRecord {
  const { state, request, target } = approval;
  const status = statusOf(approval, timing);
  const access = accessOf(request);
  const learnTtlSeconds = "learnTtlSeconds" in state ? state.learnTtlSeconds : 0;
  const group = [approval, ...others];
  const collected = group.filter((each) => each.state.kind === "consumed").length;
  const ends = status === "expired" ? [] : group.map((each) => expiresAt(each, timing.timeoutMs));
  const end = ends.find((each) => each !== undefined);
  return {
    id: approval.id,
    caller: approval.caller,
    ...(approval.endUser !== "" && { end_user: approval.endUser }),
    host: approval.host,
    command: approval.command,
    ...(approval.sudo && { sudo: true }),
    ...(approval.sudoUser !== "" && { sudo_user: approval.sudoUser }),
    ...(approval.rule !== "" && { rule: approval.rule }),
    status,
    created_at: toTimestamp(approval.createdAt),
    ...(state.kind !== "pending" && { decided_by: state.by }),
    decided_at: state.kind === "pending" ? UNDECIDED_AT : toTimestamp(state.at),
    ...(learnTtlSeconds > 0 && { learn_ttl: BigInt(learnTtlSeconds) * NANOSECONDS }),
    ...(approval.anomalies.length > 0 && { anomalies: approval.anomalies }),
    ...(access.length > 0 && { access }),
    ...(end !== undefined && { expires_at: toTimestamp(end) }),
    ...(target !== undefined && { account: target.user, addr: target.addr }),
    ...(target !== undefined && target.lifeSeconds > 0 && { life_seconds: target.lifeSeconds }),
    ...(request.session_max_seconds > 0 && { session_max_seconds: request.session_max_seconds }),
    ...(request.dry_run && { dry_run: true }),
    ...(request.reason !== "" && { reason: request.reason }),
    ...(request.content_sha256 !== "" && {
      content_sha256: request.content_sha256,
      content_bytes: request.content_bytes,
      ...(request.content_head !== "" && { content_head: request.content_head }),
    }),
    ...describeAction(approval),
    ...("comment" in state && state.comment !== undefined && { comment: state.comment }),
    ...(others.length > 0 && { joined: others.map(({ id }) => id) }),
    ...(collected > 0 && { collected }),
    ...(approval.signed !== undefined && {
      signed_approval: { ...approval.signed, approved_by: signersOf(approval) },
    }),
  };
}

/** The people whose signed decisions the signer has accepted. */
function signersOf(approval: Approval): readonly string[] {
  return proofsOf(approval).map(({ document }) => parseDocument(document)?.approver ?? "");
}

/** The action on a cluster, with the secrets of its manifest masked. */
function describeAction({ request, k8sDiff }: Approval): Partial<ApprovalRecord> {
  const { target_type, k8s_resource, k8s_group, k8s_manifest: manifest, k8s_force_fields } = request;
  if (target_type !== "k8s") return {};
  const isSecret = k8s_resource === "secrets" && k8s_group === "";
  const withheld = `[masked: ${new TextEncoder().encode(manifest).length} bytes that can't be read as JSON]`;
  return {
    target_type: "k8s",
    ...(manifest !== "" && {
      k8s_manifest: maskText(manifest, { isSecret }) ?? withheld,
      k8s_manifest_sha256: sha256Of(manifest),
    }),
    ...(k8sDiff !== undefined && { k8s_diff: k8sDiff }),
    ...(k8s_force_fields.length > 0 && { k8s_force_fields }),
  };
}

/** A bastion and an interactive session both have an empty command. Only their access differs. */
function accessOf({ role, purpose, session_mode, pty, file_transfer }: StoredRequest): readonly string[] {
  return [
    ...(role === "bastion" ? ["bastion"] : []),
    ...(purpose === "session" ? [session_mode === "" ? "session" : `session:${session_mode}`] : []),
    ...(pty ? ["pty"] : []),
    ...(file_transfer ? ["file_transfer"] : []),
  ];
}

function toTimestamp(ms: number): string {
  return new Date(ms).toISOString();
}

/**
 * Time that never goes back. If the clock is set back, this time continues from the same moment, so that no limit lasts
 * until the clock has caught up, and nothing is removed or allowed early.
 */
export class MonotonicTime {
  readonly #clock: Clock;
  #readAt: number;
  #now: number;

  constructor(clock: Clock) {
    this.#clock = clock;
    this.#readAt = this.#now = clock.now();
  }

  /** Milliseconds; equal to the clock until the clock is set back. */
  now(): number {
    const readAt = this.#clock.now();
    this.#now += Math.max(0, readAt - this.#readAt);
    this.#readAt = readAt;
    return this.#now;
  }

  /** The clock's time that corresponds to a moment of this time. */
  onClock(moment: number): number {
    return this.#readAt - (this.#now - moment);
  }

  /** The moment of this time when the clock showed a time. For a time in the future it is now. */
  at(shown: number): number {
    return Math.min(this.#now, this.#now - (this.#readAt - shown));
  }
}

/** True if two authorized_keys lines contain the same Ed25519 key. Comments are ignored. */
export function isSameKey(a: string, b: string): boolean {
  try {
    return parseEd25519PublicKey(a).toHex() === parseEd25519PublicKey(b).toHex();
  } catch {
    return false;
  }
}
