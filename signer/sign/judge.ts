import type { AuditEntry } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http";
import {
  type AllowedCluster,
  type AllowedSsh,
  CALLER_DENIALS,
  clusterIntentOf,
  type CompiledCluster,
  type CompiledHost,
  decideCluster,
  decideSshSteps,
  type DeniedCluster,
  type DeniedSsh,
  factsOfRequest,
  findCluster,
  intentOf,
  mayComeFrom,
  mayUseHost,
  ownRowOf,
} from "@gateway/shared/policy";
import { parseEd25519PublicKey } from "@gateway/shared/ssh";
import { isUnsafe, quoteText } from "@gateway/shared/text";
import { checkCaller, isHostIdentity, type SignRequest } from "@gateway/shared/wire";
import { createHash } from "node:crypto";
import { formatSubject } from "../live/freezes.ts";
import type { LiveState } from "../live/live_state.ts";
import type { Authority } from "./authority.ts";
import { judgeProofs, type SignedState } from "./signed_approval.ts";
import { namesOf, type Snapshot } from "../config/snapshot.ts";

export interface SignContext {
  readonly authority: Authority;
  readonly snapshot: Snapshot;
  readonly peer: Peer;
  /** The request without the end user's token. */
  readonly request: SignRequest;
  /** The effective caller: the peer, or the broker that a trusted forwarder names. */
  readonly caller: string;
  /** Whether the end user and the groups of the request come from a verified token. */
  readonly hasVerifiedEndUser: boolean;
}

interface Passed {
  readonly needsApproval: boolean;
  /** The signed decisions, if the approval needs signatures. */
  readonly signed: SignedState | undefined;
  /** The policy, grants and freezes that {@linkcode judge} read. */
  readonly basis: { readonly snapshot: Snapshot; readonly view: LiveState["view"] };
}

export interface AllowedCommand extends Passed {
  readonly kind: "command";
  readonly decision: AllowedSsh;
  readonly publicKey: Uint8Array;
}

export interface AllowedAction extends Passed {
  readonly kind: "action";
  readonly decision: AllowedCluster;
  readonly cluster: CompiledCluster;
}

export type Allowed = AllowedCommand | AllowedAction;

interface Stopped {
  readonly kind: "frozen" | "closed" | "mismatch";
  readonly reason: string;
  /** The denial of the policy; absent: another gate stopped the request. */
  readonly decision?: { readonly kind: "denied" };
}

export type Denied =
  | { readonly kind: "denied"; readonly decision: DeniedSsh; readonly cluster?: undefined }
  | { readonly kind: "denied"; readonly decision: DeniedCluster; readonly cluster: CompiledCluster };

type Verdict = Allowed | Stopped | Denied;

/**
 * Applies every gate to a request: forwarder, freezes, verified end user, caller, host or cluster, rules, approval. The
 * handler calls it before it signs, and `release()` calls it again after the last wait before the answer leaves.
 *
 * @throws {AppError} `state_stale` if this signer may have missed a freeze or a policy version, `invalid_request` for
 * a malformed public key
 */
export async function judge(context: SignContext): Promise<Verdict> {
  const { authority, snapshot, peer, request, caller } = context;
  if (!mayForward(context)) return closed(CALLER_DENIALS.notForwarder);
  requireKnown(authority);
  const basis = { snapshot, view: authority.live.view };
  // Check the peer too, because the freeze of a forwarder applies to all requests that it forwards (K6).
  const freeze = authority.live.findFreeze({ caller, endUser: request.end_user, peer: peer.caller });
  if (freeze !== undefined) return { kind: "frozen", reason: `frozen: ${formatSubject(freeze)}` };
  if (needsVerifiedEndUser(context) && !context.hasVerifiedEndUser) {
    return closed("its end users must now be verified");
  }
  const whyNot = findCallerDenial(snapshot, caller, peer);
  if (whyNot !== undefined) return closed(whyNot);
  if (request.target_type === "k8s") return judgeAction(context, basis);
  const publicKey = parseEd25519PublicKey(request.public_key);
  if (mayUseHost(snapshot.policy, caller, request.host) !== "ok") {
    return closed("host not authorised", BY_POLICY);
  }
  const decided = authority.timings.decision.start();
  const steps = decideSshSteps(snapshot.policy, intentOf(request, caller), authority.live.grants);
  const decision = await authority.turns.run(caller, steps);
  decided(decision.kind);
  if (decision.kind === "denied") return { kind: "denied", decision };
  const approval = judgeApproval(context, decision, decision.host);
  return "reason" in approval ? approval : { ...approval, kind: "command", decision, publicKey, basis };
}

function judgeAction(context: SignContext, basis: Passed["basis"]): Verdict {
  const { authority, snapshot, request, caller } = context;
  const gate = findCluster(snapshot.policy, caller, request.host);
  if (gate.kind === "closed") return closed(gate.reason, BY_POLICY);
  const { cluster } = gate;
  const decided = authority.timings.decision.start();
  const intent = clusterIntentOf(request, caller, manifestDigest(request));
  const decision = decideCluster(cluster, intent, authority.live.grants);
  decided(decision.kind);
  switch (decision.kind) {
    case "mismatch":
      return { kind: "mismatch", reason: "command is not the canonical form of the k8s action" };
    case "denied":
      return { kind: "denied", decision, cluster };
    case "allowed": {
      const approval = judgeApproval(context, decision, cluster);
      return "reason" in approval ? approval : { ...approval, kind: "action", decision, cluster, basis };
    }
    default:
      return decision satisfies never;
  }
}

const BY_POLICY = { decision: { kind: "denied" } } as const;

function closed(reason: string, decided: Pick<Stopped, "decision"> = {}): Stopped {
  return { kind: "closed", reason, ...decided };
}

/**
 * Makes the record of a sign request durable, then counts the request, under another label if there is one.
 *
 * @throws {AppError} `audit_unavailable` in fail mode closed: the result must be withheld
 */
export async function recordOutcome(
  { gate, requests }: Authority,
  entry: AuditEntry,
  outcome = entry.outcome,
): Promise<void> {
  await gate.require(entry);
  requests.inc({ outcome });
}

export function requireKnown({ instances, policySource, state }: Authority): void {
  instances.requireFresh();
  policySource.requireCurrent(state.current);
}

/** Whether the peer may send the request for the caller that it names. */
function mayForward(context: Pick<SignContext, "request" | "snapshot" | "peer">): boolean {
  return context.request.on_behalf_of === "" || isForwarder(context);
}

/** Whether the signer trusts the peer's claims about callers and approvals. */
export function isForwarder({ snapshot, peer }: Pick<SignContext, "snapshot" | "peer">): boolean {
  return snapshot.trustedForwarders.has(peer.caller);
}

function needsVerifiedEndUser(
  { snapshot, caller }: Pick<SignContext, "snapshot" | "caller">,
): boolean {
  return ownRowOf(snapshot.policy, caller)?.require_verified_end_user === true;
}

/**
 * Judges the approval of an allowed request. If the config requires signatures, only the proofs count, whoever sent the
 * request: a claim without enough of them is denied.
 */
function judgeApproval(
  context: SignContext,
  decision: { readonly requireApproval: boolean },
  target: CompiledHost | CompiledCluster,
): Stopped | Pick<Passed, "needsApproval" | "signed"> {
  const { approved, dry_run } = context.request;
  const signed = decision.requireApproval ? judgeProofs(context, target) : undefined;
  if (signed === undefined) {
    return { signed, needsApproval: needsApproval(context, decision) };
  }
  if (!approved || dry_run) return { signed, needsApproval: true };
  if (signed.missing !== undefined) return closed(`signed approval: ${signed.missing}`);
  return { signed, needsApproval: false };
}

/**
 * Whether the request still needs an approval. `approved` is accepted from a forwarder, or from a peer whose
 * own entry has `self_approve`. In a dry run it has no effect.
 */
function needsApproval(context: SignContext, decision: { readonly requireApproval: boolean }): boolean {
  const { snapshot, peer, request } = context;
  if (!decision.requireApproval || request.dry_run || !request.approved) return decision.requireApproval;
  const approvesItself = ownRowOf(snapshot.policy, peer.caller)?.self_approve === true;
  return !isForwarder(context) && !approvesItself;
}

export function manifestDigest({ k8s_manifest }: SignRequest): string {
  return k8s_manifest === "" ? "" : createHash("sha256").update(k8s_manifest, "utf8").digest("hex");
}

/**
 * Finds the effective caller and the end user. The end user's token is removed from the request.
 *
 * @throws {AppError} `denied` if the caller needs a verified end user and the token does not verify one
 */
export async function authorize(
  authority: Authority,
  snapshot: Snapshot,
  { bearer_token: token, ...received }: SignRequest,
  peer: Peer,
): Promise<SignContext> {
  const request: SignRequest = { ...received, bearer_token: "" };
  const asked = { authority, snapshot, peer, request, caller: peer.caller, hasVerifiedEndUser: false };
  // The judge rejects this request, so do not read the names in it.
  if (!mayForward(asked)) return asked;
  const caller = request.on_behalf_of === "" ? peer.caller : request.on_behalf_of;
  // A client certificate may contain a caller with a space. Such a caller can read lists, but gets no
  // certificate.
  checkCaller(caller);
  const named = { ...asked, caller };
  const context = needsVerifiedEndUser(named) ? await verifyEndUser(named, token) : named;
  authority.knownSubjects.add("caller", peer.caller);
  if (caller !== peer.caller) authority.knownSubjects.add("caller", caller);
  authority.knownSubjects.add("end_user", context.request.end_user);
  return context;
}

async function verifyEndUser(context: SignContext, token: string): Promise<SignContext> {
  const { snapshot: { endUsers }, request } = context;
  if (endUsers === undefined) return await refuseEndUser(context, "no end_user_oidc is configured");
  if (token === "") return await refuseEndUser(context, "no bearer token");
  const result = await endUsers.verify(token);
  if (result.kind === "refused") return await refuseEndUser(context, result.reason);
  // Reject groups that the token does not confirm, because they could only extend the rights.
  if (result.groups === null && request.end_user_groups !== null) {
    return await refuseEndUser(context, "groups were sent, and no groups_claim is configured");
  }
  const verified = { ...request, end_user: result.endUser, end_user_groups: result.groups };
  return { ...context, request: verified, hasVerifiedEndUser: true };
}

async function refuseEndUser(context: SignContext, err: string): Promise<never> {
  const { authority, request, caller } = context;
  const names = namesOf(context.snapshot, request.host);
  const facts = { caller, host: request.host, ...factsOfRequest(request), ...names };
  await recordOutcome(authority, { ...facts, outcome: "end_user_unverified", err }, "end-user-unverified");
  throw new AppError("denied", "end-user identity could not be verified");
}

/** The answer to a frozen caller. Only admins see which freeze applies. */
export const SUBJECT_IS_FROZEN = "subject is frozen";

/** The identity of a host is stored on that host, so it must give access only to the list. */
export function isListReader({ krlCallers }: Pick<Snapshot, "krlCallers">, caller: string): boolean {
  return krlCallers.has(caller) || isHostIdentity(caller);
}

/**
 * The reason why the signer denies the caller on this connection, whatever its groups are; `undefined` if
 * there is none.
 */
export function findCallerDenial(snapshot: Snapshot, caller: string, peer: Peer): string | undefined {
  if (isListReader(snapshot, caller)) return CALLER_DENIALS.readsOnly;
  return mayComeFrom(snapshot.policy, caller, peer.caller) ? undefined : CALLER_DENIALS.notDirect;
}

/**
 * The broker that a trusted forwarder names in `X-On-Behalf-Of`, else the peer.
 *
 * @throws {AppError} `forbidden` if the peer is no forwarder, `invalid_request` if the name is invalid
 */
export function readEffectiveCaller(snapshot: Snapshot, request: Request, peer: Peer): string {
  const onBehalfOf = request.headers.get("x-on-behalf-of") ?? "";
  if (onBehalfOf === "") return peer.caller;
  if (!snapshot.trustedForwarders.has(peer.caller)) {
    throw new AppError("forbidden", "X-On-Behalf-Of not allowed for this caller");
  }
  if (!isUnsafe(onBehalfOf)) return onBehalfOf;
  const problem = `X-On-Behalf-Of ${quoteText(onBehalfOf)} contains disallowed characters`;
  throw new AppError("invalid_request", problem);
}
