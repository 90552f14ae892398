import { createHash } from "node:crypto";
import type { AuditEntry } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import {
  type AllowedCluster,
  clusterIntentOf,
  type CompiledCluster,
  decideCluster,
  type DeniedCluster,
  describeClusterRequest,
  factsOfRequest,
  findCluster,
  toWireClusterDecision,
} from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import { randomSerial } from "@gateway/shared/clock";
import type { K8sDiff, SignRequest, SignTarget } from "@gateway/shared/wire";
import type { IssuedToken, TokenWish } from "@gateway/shared/kubernetes";
import { learnWaiver } from "./learn.ts";
import {
  isApproved,
  isForwarder,
  NEEDS_APPROVAL_NOW,
  release,
  respond,
  type SignContext,
} from "./sign_context.ts";

/** Less than what control planes and brokers wait for a signer: a token that nobody waits for any more is lost. */
const ISSUE_MS = 8_000;
/** With what the preview itself takes at most, no more than that either. */
const PREVIEW_TOKEN_MS = 4_000;

/** A decision that a token can be made of, and where. */
interface AllowedAction {
  readonly cluster: CompiledCluster;
  readonly decision: AllowedCluster;
}

/** `POST /v1/sign` for a cluster, from the point where caller and end user are known and not frozen. */
export async function handleClusterSign(context: SignContext): Promise<Response> {
  const { ports, snapshot, request, caller } = context;
  const gate = findCluster(snapshot.policy, caller, request.host);
  if (gate.kind === "closed") {
    await refuseAction(context, { outcome: "denied", err: gate.reason });
    throw new AppError("denied", gate.reason);
  }
  const { cluster } = gate;
  const decided = ports.timings.decision.start();
  const intent = clusterIntentOf(request, caller, manifestDigest(request));
  const decision = decideCluster(cluster, intent, ports.live.grants);
  decided(decision.kind);
  switch (decision.kind) {
    case "mismatch":
      throw new AppError("invalid_request", "command is not the canonical form of the k8s action");
    case "denied":
      return await deny(context, cluster, decision);
    case "allowed":
      break;
    default:
      return decision satisfies never;
  }
  const allowed: AllowedAction = { cluster, decision };
  if (request.dry_run) return await answerDryRun(context, allowed);
  if (decision.requireApproval && !isApproved(context)) return await askApproval(context, allowed);
  return await issue(context, allowed);
}

/** Decides again on an action that was allowed. */
export function findActionDenial(context: SignContext): string | undefined {
  const { ports, snapshot, request, caller } = context;
  const gate = findCluster(snapshot.policy, caller, request.host);
  if (gate.kind === "closed") return gate.reason;
  const intent = clusterIntentOf(request, caller, manifestDigest(request));
  const decision = decideCluster(gate.cluster, intent, ports.live.grants);
  switch (decision.kind) {
    case "mismatch":
      return "command is not the canonical form of the k8s action";
    case "denied":
      return decision.reason;
    case "allowed":
      return decision.requireApproval && !isApproved(context) ? NEEDS_APPROVAL_NOW : undefined;
    default:
      return decision satisfies never;
  }
}

async function deny(
  context: SignContext,
  cluster: CompiledCluster,
  decision: DeniedCluster,
): Promise<Response> {
  const isDryRun = context.request.dry_run;
  await refuseAction(context, {
    outcome: isDryRun ? "dry_run_denied" : "denied",
    err: decision.reason,
    // The caller is not told: without it here nobody could explain the denial.
    rule: decision.matchedRule,
    cluster,
  });
  if (isDryRun) return respond({ decision: toWireClusterDecision(decision) });
  throw new AppError("denied", decision.reason);
}

async function answerDryRun(context: SignContext, allowed: AllowedAction): Promise<Response> {
  // A preflight: a control plane asks before it asks a human for reasons of its own.
  const previewed = context.request.preflight ? await preview(context, allowed) : undefined;
  await context.ports.recordOutcome(
    entryOf(context, allowed, { outcome: "dry_run_allowed", jti: previewed?.jti ?? "" }),
  );
  return await release(context, {
    decision: toWireClusterDecision(allowed.decision),
    target: context.request.preflight ? targetOf(context, allowed) : undefined,
    k8s_diff: previewed?.diff,
  });
}

/** For approvers: whose rights the action would be done with, and where. */
function targetOf(context: SignContext, { cluster, decision }: AllowedAction): SignTarget | undefined {
  const { namespace, serviceAccount } = decision.binding;
  return isForwarder(context)
    ? { user: `system:serviceaccount:${namespace}:${serviceAccount}`, addr: cluster.apiServer }
    : undefined;
}

async function askApproval(context: SignContext, allowed: AllowedAction): Promise<Response> {
  const previewed = await preview(context, allowed);
  await context.ports.recordOutcome(
    entryOf(context, allowed, { outcome: "approval-required", jti: previewed?.jti ?? "" }),
  );
  return await release(context, {
    decision: toWireClusterDecision(allowed.decision),
    target: targetOf(context, allowed),
    k8s_diff: previewed?.diff,
  });
}

/** What an approver of a control plane sees; whoever asks a signer itself gets no further anyway. */
async function preview(
  context: SignContext,
  allowed: AllowedAction,
): Promise<{ readonly diff: K8sDiff; readonly jti: string } | undefined> {
  const { ports, snapshot, request } = context;
  const { cluster, decision: { action } } = allowed;
  const { k8s_manifest: manifest } = request;
  if (action.verb !== "apply" || manifest === "" || !isForwarder(context)) return undefined;
  let jti = "";
  try {
    const issued = await ports.tokens.issue(wishOf(context, allowed, PREVIEW_TOKEN_MS));
    jti = issued.jti;
    const ca = snapshot.clusterCas.get(cluster.name) ?? "";
    return {
      diff: await ports.previewer.preview({
        ...{ cluster, ca, action, manifest, token: issued.token },
        forceFields: request.k8s_force_fields,
      }),
      jti,
    };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    if (error.code === "conflict") {
      const outcome = request.dry_run ? "dry_run_denied" : "denied";
      await ports.recordOutcome({ ...entryOf(context, allowed, { outcome, jti }), err: error.message });
      // An approver would be asked in vain.
      throw new AppError(
        "invalid_request",
        `${error.message}; leave these fields out of the manifest, or name all of them in force_fields`,
      );
    }
    // The human may still decide by the manifest; what fails here is told again when the token is made.
    return { diff: { kind: "unknown", reason: error.message }, jti };
  }
}

async function issue(context: SignContext, allowed: AllowedAction): Promise<Response> {
  const { ports, request, caller } = context;
  const { decision } = allowed;
  const serial = randomSerial(ports.random);
  const issued = await mint(context, allowed, serial);
  await ports.recordOutcome(entryOf(context, allowed, { outcome: "issued", serial, jti: issued.jti }));
  if (decision.requireApproval && !isForwarder(context)) {
    await ports.gate.bestEffort({
      ...{ caller, host: request.host, host_name: request.host, addr: allowed.cluster.apiServer, serial },
      outcome: "self_approved",
    });
  }
  if (request.learn_ttl_seconds > 0 && isForwarder(context) && !decision.force) {
    await learnWaiver(context, decision, decision.gated);
  }
  return await release(context, {
    k8s_token: issued.token,
    k8s_token_expiry: issued.expiry,
    serial,
    decision: toWireClusterDecision(decision),
  }, { serial, takeBack: () => ports.leases.revoke({ kind: "serial", value: serial.toString() }) });
}

/** @throws {AppError} once that is recorded: `denied` where the API server refuses, `upstream_failure` else */
async function mint(context: SignContext, allowed: AllowedAction, serial: bigint): Promise<IssuedToken> {
  const { cluster, decision } = allowed;
  try {
    return await context.ports.tokens.issue({ ...wishOf(context, allowed, ISSUE_MS), serial });
  } catch (error) {
    if (error instanceof AppError) {
      await refuseAction(context, {
        outcome: "denied",
        err: error.message,
        rule: decision.matchedRule,
        cluster,
      });
    }
    throw error;
  }
}

function wishOf(
  { snapshot, request, caller, peer }: SignContext,
  { cluster, decision }: AllowedAction,
  waitMs: number,
): TokenWish {
  return {
    cluster,
    ca: snapshot.clusterCas.get(cluster.name) ?? "",
    account: decision.binding,
    holder: { caller, endUser: request.end_user, peer: peer.caller },
    waitMs,
  };
}

/** Records a refusal; where there is such a cluster, its API server replaces the requested name. */
export function refuseAction(
  { ports, request, caller }: SignContext,
  { outcome, err, rule = "", cluster }: {
    readonly outcome: string;
    readonly err: string;
    readonly rule?: string;
    readonly cluster?: CompiledCluster;
  },
): Promise<void> {
  return ports.recordOutcome({
    caller,
    host: cluster?.apiServer ?? request.host,
    addr: cluster?.apiServer ?? "",
    ...describeAskedAction(request),
    outcome,
    err,
    policy_rule: rule,
  });
}

function entryOf(
  { request, caller }: SignContext,
  { cluster, decision }: AllowedAction,
  facts: { readonly outcome: string; readonly serial?: bigint; readonly jti?: string },
): AuditEntry {
  return {
    caller,
    host: cluster.apiServer,
    addr: cluster.apiServer,
    // As the API server names it, also where the caller left the group to us.
    ...describeAskedAction({
      ...request,
      k8s_group: decision.action.resource.group,
      k8s_namespace: decision.action.namespace,
    }),
    policy_rule: decision.matchedRule,
    ...(decision.force && { warning: `force_fields=${quoteText(request.k8s_force_fields.join(","))}` }),
    ...facts,
  };
}

/** What every record says of an action. */
export function describeAskedAction(
  request: SignRequest,
): Pick<AuditEntry, "command" | "command_line" | "target_type" | "body_sha256"> {
  const digest = manifestDigest(request);
  return {
    command: describeClusterRequest(request),
    ...factsOfRequest(request),
    target_type: "k8s",
    ...(digest !== "" && { body_sha256: digest }),
  };
}

function manifestDigest({ k8s_manifest }: SignRequest): string {
  return k8s_manifest === "" ? "" : createHash("sha256").update(k8s_manifest, "utf8").digest("hex");
}
