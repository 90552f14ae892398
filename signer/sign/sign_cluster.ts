import type { AuditEntry } from "@gateway/shared/audit";
import { randomSerial } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import type { IssuedToken, TokenWish } from "@gateway/shared/kubernetes";
import { toWireClusterDecision } from "@gateway/shared/policy";
import { quoteText } from "@gateway/shared/text";
import type { K8sDiff, SignTarget } from "@gateway/shared/wire";
import { issueToken, previewApply } from "../kubernetes/api.ts";
import { describeAction, learnWaiver, refuse, release } from "./answer.ts";
import { type AllowedAction, isForwarder, type SignContext } from "./judge.ts";

/** Less than what control planes and brokers wait for a signer: a token that nobody waits for any more is lost. */
const ISSUE_MS = 8_000;
/** With what the preview itself takes at most, no more than that either. */
const PREVIEW_TOKEN_MS = 4_000;

/** Answers a Kubernetes action that passes every gate. */
export async function actOnCluster(context: SignContext, allowed: AllowedAction): Promise<Response> {
  if (context.request.dry_run) return await answerDryRun(context, allowed);
  if (allowed.needsApproval) return await askApproval(context, allowed);
  return await issue(context, allowed);
}

async function answerDryRun(context: SignContext, allowed: AllowedAction): Promise<Response> {
  // A preflight: a control plane asks before it asks a human for reasons of its own.
  const previewed = context.request.preflight ? await preview(context, allowed) : undefined;
  await context.authority.recordOutcome(
    entryOf(context, allowed, { outcome: "dry_run_allowed", jti: previewed?.jti ?? "" }),
  );
  return await release(context, allowed, {
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
  await context.authority.recordOutcome(
    entryOf(context, allowed, { outcome: "approval-required", jti: previewed?.jti ?? "" }),
  );
  return await release(context, allowed, {
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
  const { authority, snapshot, request } = context;
  const { cluster, decision: { action } } = allowed;
  const { k8s_manifest: manifest } = request;
  if (action.verb !== "apply" || manifest === "" || !isForwarder(context)) return undefined;
  let jti = "";
  try {
    const issued = await issueToken(authority, wishOf(context, allowed, PREVIEW_TOKEN_MS));
    jti = issued.jti;
    const ca = snapshot.clusterCas.get(cluster.name) ?? "";
    return {
      diff: await previewApply(authority, {
        ...{ cluster, ca, action, manifest, token: issued.token },
        forceFields: request.k8s_force_fields,
      }),
      jti,
    };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    if (error.code === "conflict") {
      const outcome = request.dry_run ? "dry_run_denied" : "denied";
      await authority.recordOutcome({ ...entryOf(context, allowed, { outcome, jti }), err: error.message });
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
  const { authority, request, caller } = context;
  const { decision } = allowed;
  const serial = randomSerial(authority.random);
  const issued = await mint(context, allowed, serial);
  await authority.recordOutcome(entryOf(context, allowed, { outcome: "issued", serial, jti: issued.jti }));
  if (decision.requireApproval && !isForwarder(context)) {
    await authority.gate.bestEffort({
      ...{ caller, host: request.host, host_name: request.host, addr: allowed.cluster.apiServer, serial },
      outcome: "self_approved",
    });
  }
  if (request.learn_ttl_seconds > 0 && isForwarder(context) && !decision.force) {
    await learnWaiver(context, decision, decision.gated);
  }
  return await release(context, allowed, {
    k8s_token: issued.token,
    k8s_token_expiry: issued.expiry,
    serial,
    decision: toWireClusterDecision(decision),
  }, { serial, takeBack: () => authority.leases.revoke({ kind: "serial", value: serial.toString() }) });
}

/** @throws {AppError} once that is recorded: `denied` where the API server refuses, `upstream_failure` else */
async function mint(context: SignContext, allowed: AllowedAction, serial: bigint): Promise<IssuedToken> {
  const { cluster, decision } = allowed;
  try {
    return await issueToken(context.authority, { ...wishOf(context, allowed, ISSUE_MS), serial });
  } catch (error) {
    if (error instanceof AppError) {
      await refuse(context, {
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
    ...describeAction({
      ...request,
      k8s_group: decision.action.resource.group,
      k8s_namespace: decision.action.namespace,
    }),
    policy_rule: decision.matchedRule,
    ...(decision.force && { warning: `force_fields=${quoteText(request.k8s_force_fields.join(","))}` }),
    ...facts,
  };
}
