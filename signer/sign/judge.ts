import type { Peer } from "@gateway/shared/http";
import {
  type AllowedCluster,
  type AllowedSsh,
  clusterIntentOf,
  type CompiledCluster,
  decideCluster,
  decideSshSteps,
  type DeniedCluster,
  type DeniedSsh,
  findCluster,
  intentOf,
  mayUseHost,
} from "@gateway/shared/policy";
import { parseEd25519PublicKey } from "@gateway/shared/ssh";
import type { SignRequest } from "@gateway/shared/wire";
import { createHash } from "node:crypto";
import { formatSubject } from "../live/freezes.ts";
import type { LiveState } from "../live/live_state.ts";
import type { SignerPorts } from "./ports.ts";
import type { Snapshot } from "../config/snapshot.ts";
import { whyNotBy } from "./on_behalf_of.ts";

/** One sign request, and the policy that judges it. */
export interface SignContext {
  readonly ports: SignerPorts;
  readonly snapshot: Snapshot;
  readonly peer: Peer;
  /** Without the end user's token. */
  readonly request: SignRequest;
  /** The effective caller: the peer, or the broker that a trusted forwarder names. */
  readonly caller: string;
  /** The end user and groups of the request come from a verified token. */
  readonly hasVerifiedEndUser: boolean;
}

interface Passed {
  /** A human has to approve the request first. */
  readonly needsApproval: boolean;
  /** The policy, grants and freezes that {@linkcode judge} read. */
  readonly basis: { readonly snapshot: Snapshot; readonly view: LiveState["view"] };
}

/** An SSH request that passes every gate. */
export interface AllowedCommand extends Passed {
  readonly kind: "command";
  readonly decision: AllowedSsh;
  readonly publicKey: Uint8Array;
}

/** A Kubernetes action that passes every gate. */
export interface AllowedAction extends Passed {
  readonly kind: "action";
  readonly decision: AllowedCluster;
  readonly cluster: CompiledCluster;
}

interface Stopped {
  readonly kind: "frozen" | "closed" | "mismatch";
  readonly reason: string;
}

/** The command rules or the cluster rules deny the request. */
export type Denied =
  | { readonly kind: "denied"; readonly decision: DeniedSsh; readonly cluster?: undefined }
  | { readonly kind: "denied"; readonly decision: DeniedCluster; readonly cluster: CompiledCluster };

type Verdict = AllowedCommand | AllowedAction | Stopped | Denied;

/**
 * Applies every gate to a request: forwarder, freezes, verified end user, caller, host or cluster, rules, approval. The
 * handler calls it before it signs, and `release()` calls it again after the last wait before the answer leaves.
 *
 * @throws {AppError} `state_stale` if this signer may have missed a freeze or a policy version, `invalid_request` for
 * a malformed public key
 */
export async function judge(context: SignContext): Promise<Verdict> {
  const { ports, snapshot, peer, request, caller } = context;
  if (!mayForward(context)) return closed("on_behalf_of not allowed for this caller");
  requireKnown(ports);
  const basis = { snapshot, view: ports.live.view };
  // The peer too: a freeze of a forwarder stops all that it forwards (K6).
  const freeze = ports.live.findFreeze({ caller, endUser: request.end_user, peer: peer.caller });
  if (freeze !== undefined) return { kind: "frozen", reason: `frozen: ${formatSubject(freeze)}` };
  if (needsVerifiedEndUser(context) && !context.hasVerifiedEndUser) {
    return closed("its end users have to be verified now");
  }
  const whyNot = whyNotBy(snapshot, caller, peer);
  if (whyNot !== undefined) return closed(whyNot);
  if (request.target_type === "k8s") return judgeAction(context, basis);
  const publicKey = parseEd25519PublicKey(request.public_key);
  if (mayUseHost(snapshot.policy, caller, request.host) !== "ok") return closed("host not authorised");
  const decided = ports.timings.decision.start();
  const steps = decideSshSteps(snapshot.policy, intentOf(request, caller), ports.live.grants);
  const decision = await ports.turns.run(caller, steps);
  decided(decision.kind);
  if (decision.kind === "denied") return { kind: "denied", decision };
  return { kind: "command", decision, publicKey, needsApproval: needsApproval(context, decision), basis };
}

function judgeAction(context: SignContext, basis: Passed["basis"]): Verdict {
  const { ports, snapshot, request, caller } = context;
  const gate = findCluster(snapshot.policy, caller, request.host);
  if (gate.kind === "closed") return closed(gate.reason);
  const { cluster } = gate;
  const decided = ports.timings.decision.start();
  const intent = clusterIntentOf(request, caller, manifestDigest(request));
  const decision = decideCluster(cluster, intent, ports.live.grants);
  decided(decision.kind);
  switch (decision.kind) {
    case "mismatch":
      return { kind: "mismatch", reason: "command is not the canonical form of the k8s action" };
    case "denied":
      return { kind: "denied", decision, cluster };
    case "allowed":
      return { kind: "action", decision, cluster, needsApproval: needsApproval(context, decision), basis };
    default:
      return decision satisfies never;
  }
}

function closed(reason: string): Stopped {
  return { kind: "closed", reason };
}

/** @throws {AppError} `state_stale` */
export function requireKnown({ instances, policySource, state }: SignerPorts): void {
  instances.requireFresh();
  policySource.requireCurrent(state.current);
}

/** Whether the peer may send the request for the caller that it names. */
export function mayForward(context: Pick<SignContext, "request" | "snapshot" | "peer">): boolean {
  return context.request.on_behalf_of === "" || isForwarder(context);
}

/** Whether the signer trusts what the peer reports about others. */
export function isForwarder({ snapshot, peer }: Pick<SignContext, "snapshot" | "peer">): boolean {
  return snapshot.trustedForwarders.has(peer.caller);
}

/** Whether the caller's own entry has `require_verified_end_user`; `_default` never counts. */
export function needsVerifiedEndUser(
  { snapshot, caller }: Pick<SignContext, "snapshot" | "caller">,
): boolean {
  return caller !== "_default" && snapshot.policy.callers.get(caller)?.requireVerifiedEndUser === true;
}

/** `approved` counts from a forwarder, or from a peer whose own entry has `self_approve`. A dry run approves nothing. */
function needsApproval(context: SignContext, decision: { readonly requireApproval: boolean }): boolean {
  const { snapshot, peer, request } = context;
  if (!decision.requireApproval || request.dry_run || !request.approved) return decision.requireApproval;
  // `_default` would let every caller approve its own requests.
  const approvesItself = peer.caller !== "_default" &&
    snapshot.policy.callers.get(peer.caller)?.selfApprove === true;
  return !isForwarder(context) && !approvesItself;
}

/** SHA-256 of the request's manifest; empty without a manifest. */
export function manifestDigest({ k8s_manifest }: SignRequest): string {
  return k8s_manifest === "" ? "" : createHash("sha256").update(k8s_manifest, "utf8").digest("hex");
}
