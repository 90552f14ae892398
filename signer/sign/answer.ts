import type { AuditEntry } from "@gateway/shared/audit";
import { randomSerial, within } from "@gateway/shared/clock";
import { AppError, describeFault } from "@gateway/shared/errors";
import { stringifyJson } from "@gateway/shared/json";
import {
  type CompiledCluster,
  type Decided,
  type DeniedSsh,
  describeClusterRequest,
  describeSignRequest,
  factsOfRequest,
  type GatedCommand,
  recordDecision,
  requiredApprovals,
  toWireClusterDecision,
  toWireDecision,
} from "@gateway/shared/policy";
import { currentRequestId } from "@gateway/shared/service";
import { quoteText } from "@gateway/shared/text";
import type { K8sDiff, SignRequest, SignResponse } from "@gateway/shared/wire";
import { approvalFacts, approverNames } from "./signed_approval.ts";
import type { CertificateNames } from "../live/krl/certificates.ts";
import { namesOf, type Snapshot } from "../config/snapshot.ts";
import {
  type Allowed,
  type AllowedAction,
  isForwarder,
  judge,
  manifestDigest,
  recordOutcome,
  requireKnown,
  type SignContext,
  SUBJECT_IS_FROZEN,
} from "./judge.ts";
import type { TokenSpec } from "@gateway/shared/kubernetes";
import { issueToken, previewApply } from "../kubernetes/api.ts";

/** A certificate or token that was issued but not released. */
export interface Unreleased extends CertificateNames {
  readonly jti: string;
  readonly learnable: GatedCommand | undefined;
  readonly body: Partial<SignResponse>;
  /** Remembers the credential, so that a later freeze finds it. */
  readonly remember: () => void;
  /** Revokes the credential. Never rejects. */
  readonly takeBack: () => Promise<unknown>;
}

const TAKE_BACK_MS = 1_000;

/**
 * Creates the answer that releases a credential or permission. Judges the request again if policy, grants or
 * freezes have changed. The handler must return the answer without another wait.
 *
 * @throws {AppError} `frozen`, `denied` or `state_stale`, after it has revoked the issued credential
 */
export async function release(
  context: SignContext,
  judged: Allowed,
  body: SignResponse,
  made?: Unreleased,
): Promise<Response> {
  const { authority } = context;
  const { serial } = made ?? {};
  let { basis } = judged;
  try {
    for (;;) {
      requireKnown(authority);
      // A revocation stays in force after the freeze that caused it is lifted.
      if (made !== undefined && authority.krl.listed.has(made)) {
        return await refuseFrozen(context, "revoked before it left", serial);
      }
      if (authority.krl.isGivenUp(context.caller, currentRequestId())) {
        return await refuseLate(context, "the caller has given up this request", serial);
      }
      if (authority.state.current === basis.snapshot && authority.live.view === basis.view) {
        return respond(body);
      }
      const again = await judge({ ...context, snapshot: authority.state.current });
      switch (again.kind) {
        case "command":
        case "action":
          if (again.needsApproval && !judged.needsApproval) {
            return await refuseLate(context, "it now requires an approval", serial);
          }
          // These documents are not marked as used, and the record does not contain them.
          if (again.signed !== undefined && made !== undefined && judged.signed === undefined) {
            return await refuseLate(context, "its approval must now be signed", serial);
          }
          // Policy and freezes may have changed during the last check, so check everything again.
          basis = again.basis;
          break;
        case "frozen":
          return await refuseFrozen(context, again.reason, serial);
        case "closed":
        case "mismatch":
          return await refuseLate(context, again.reason, serial);
        case "denied":
          return await refuseLate(context, again.decision.reason, serial);
        default:
          return again satisfies never;
      }
    }
  } catch (error) {
    // The revocation continues after the response: the caller must not wait while the database hangs.
    await within({ clock: authority.clock, ms: TAKE_BACK_MS }, made?.takeBack() ?? Promise.resolve())
      .catch(() => {});
    throw error;
  }
}

export async function refuseFrozen(context: SignContext, err: string, serial?: bigint): Promise<never> {
  await recordOutcome(context.authority, lateEntry(context, "frozen_denied", err, serial), "frozen-denied");
  throw new AppError("frozen", SUBJECT_IS_FROZEN);
}

async function refuseLate(context: SignContext, err: string, serial?: bigint): Promise<never> {
  await recordOutcome(context.authority, lateEntry(context, "denied", err, serial));
  throw new AppError("denied", err);
}

function lateEntry(
  { request, caller, snapshot }: SignContext,
  outcome: string,
  err: string,
  serial?: bigint,
): AuditEntry {
  const names = namesOf(snapshot, request.host);
  const facts = { caller, host: request.host, ...factsOfRequest(request), ...names, outcome, err };
  return serial === undefined ? facts : { ...facts, serial };
}

/** Records a refusal. The address of a known host or cluster replaces the requested name. */
export function refuse(
  context: SignContext,
  { outcome, err, rule = "", host, cluster, decision }: {
    readonly outcome: string;
    readonly err: string;
    readonly rule?: string;
    readonly host?: DeniedSsh["host"];
    readonly cluster?: CompiledCluster | undefined;
    /** What the policy decided; absent: another gate stopped the request. */
    readonly decision?: Decided | undefined;
  },
): Promise<void> {
  const { authority, snapshot, request, caller } = context;
  const address = cluster?.apiServer ?? host?.addr;
  return recordOutcome(authority, {
    caller,
    host: address ?? request.host,
    ...namesOf(snapshot, request.host),
    user: host?.user ?? "",
    principal: host?.principal ?? "",
    ...(request.target_type === "k8s" ? describeAction(request) : describeCommand(request, snapshot)),
    outcome,
    err,
    policy_rule: rule,
    ...(decision && recordContext(context, decision)),
  });
}

function recordContext({ request, peer, hasVerifiedEndUser: verified }: SignContext, decision: Decided) {
  return recordDecision(decision, request, {
    via: request.on_behalf_of === "" ? "" : peer.caller,
    verified,
  });
}

export async function recordingRefusal<T>(
  context: SignContext,
  facts: Partial<Parameters<typeof refuse>[1]>,
  action: () => Promise<T>,
): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof AppError) await refuse(context, { outcome: "denied", err: error.message, ...facts });
    throw error;
  }
}

export function allowedEntry(
  context: SignContext,
  allowed: Allowed,
  { jti, ...result }: { readonly outcome: string; readonly serial?: bigint; readonly jti: string },
): AuditEntry {
  const { request, snapshot, caller } = context;
  const facts = { ...result, ...recordContext(context, allowed.decision) };
  const policy_rule = allowed.decision.matchedRule;
  const approval = allowed.signed && facts.serial !== undefined ? approvalFacts(allowed.signed) : {};
  if (allowed.kind === "command") {
    const { host, warning } = allowed.decision;
    const { addr, user, principal } = host;
    const command = describeCommand(request, snapshot);
    return {
      caller,
      host: addr,
      addr,
      user,
      principal,
      ...command,
      policy_rule,
      warning,
      ...approval,
      ...facts,
    };
  }
  const { cluster: { apiServer: addr }, decision: { action, force } } = allowed;
  // Record the group that the API server uses, even if the request omitted the group.
  const asked = { ...request, k8s_group: action.resource.group, k8s_namespace: action.namespace };
  const warning = `force_fields=${quoteText(request.k8s_force_fields.join(","))}`;
  return {
    ...{ caller, host: addr, addr, ...describeAction(asked), policy_rule, ...(force && { warning }) },
    ...approval,
    ...facts,
    jti,
  };
}

export function decisionOf(allowed: Allowed): SignResponse["decision"] {
  return allowed.kind === "command"
    ? toWireDecision(allowed.decision)
    : toWireClusterDecision(allowed.decision);
}

function describeCommand(request: SignRequest, { policyVersion }: Snapshot) {
  return {
    command: describeSignRequest(request),
    ...factsOfRequest(request),
    policy_version: policyVersion?.version,
  };
}

function describeAction(request: SignRequest) {
  const digest = manifestDigest(request);
  return {
    command: describeClusterRequest(request),
    ...factsOfRequest(request),
    target_type: "k8s",
    ...(digest !== "" && { body_sha256: digest }),
  };
}

/** Status 200 for answers that permit nothing. All other answers need {@linkcode release}. */
export function respond(body: SignResponse): Response {
  return new Response(stringifyJson(body) + "\n", { headers: { "content-type": "application/json" } });
}

/**
 * Learns a waiver from an approval. The certificate stays valid even if the waiver is not learned, and the
 * log contains the result.
 */
export async function learnWaiver(
  { authority, snapshot, peer, request, caller }: SignContext,
  allowed: Allowed,
  gated: GatedCommand,
): Promise<void> {
  const { decision, signed } = allowed;
  const target = allowed.kind === "command" ? allowed.decision.host : allowed.cluster;
  // The control plane could otherwise extend a waiver whose lifetime people have signed.
  const mayRenew = decision.approvalWaived && requiredApprovals(snapshot.config.approvals, target) === 0;
  const approver = signed === undefined ? request.learn_approver : approverNames(signed.decisions);
  const facts = {
    caller,
    host: request.host,
    ...namesOf(snapshot, request.host),
    approval_id: request.learn_approval_id,
    approved_by: approver,
  };
  let recorded = "";
  try {
    // A freeze that another signer acknowledged permanently removes the subject's waivers.
    authority.instances.requireFresh();
    const outcome = await authority.live.learnWaiver({
      ...gated,
      peer: peer.caller,
      gate: decision.requireApproval ? "approved" : mayRenew ? "waived" : "none",
      ttlSeconds: request.learn_ttl_seconds,
      maxTtlSeconds: snapshot.config.max_grant_ttl_seconds,
      approver,
      approvalId: request.learn_approval_id,
    }, {
      async made({ id, waiveApproval, contentSha256 }) {
        await authority.gate.require({
          ...facts,
          command: `approval-waiver ${id}`,
          ...(contentSha256 !== "" && { body_sha256: contentSha256 }),
          policy_rule: `waive_approval:${waiveApproval.join(",")}`,
          outcome: "approval-waiver-created",
        });
        recorded = id;
      },
      // The error is recorded below, like every other failure.
      notStored: () => Promise.resolve(),
    });
    if (outcome.kind === "skipped") {
      await authority.gate.bestEffort({
        ...facts,
        command: "approval-waiver ",
        outcome: "approval-waiver-skipped",
        err: outcome.reason,
      });
    }
  } catch (error) {
    await authority.gate.bestEffort({
      ...facts,
      command: `approval-waiver ${recorded}`,
      outcome: "approval-waiver-failed",
      err: describeFault(error),
    });
  }
}

/** Shorter than the timeout of control planes and brokers: a token that arrives after it is lost. */
const ISSUE_MS = 8_000;
/** The time for the token of a preview. Together with the preview it stays within {@linkcode ISSUE_MS}. */
const PREVIEW_TOKEN_MS = 4_000;

/** Describes to the approver the changes of an apply. A caller without a forwarder has no approver. */
export async function preview(
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
      await recordOutcome(authority, {
        ...allowedEntry(context, allowed, { outcome, jti }),
        err: error.message,
      });
      // An approval cannot resolve the conflict.
      throw new AppError(
        "invalid_request",
        `${error.message}; remove these fields from the manifest, or list all of them in force_fields`,
      );
    }
    // The approver can still decide by the manifest. The failure is reported when the token is issued.
    return { diff: { kind: "unknown", reason: error.message }, jti };
  }
}

/** @throws {AppError} `denied` if the API server rejects the request, else `upstream_failure` */
export async function makeToken(context: SignContext, allowed: AllowedAction): Promise<Unreleased> {
  const { authority } = context;
  const { cluster, decision } = allowed;
  const serial = randomSerial(authority.random);
  const { token, expiry, jti } = await recordingRefusal(
    context,
    { rule: decision.matchedRule, cluster, decision },
    () => issueToken(authority, { ...wishOf(context, allowed, ISSUE_MS), serial }),
  );
  return {
    ...{ serial, jti, learnable: decision.force ? undefined : decision.gated },
    body: { k8s_token: token, k8s_token_expiry: expiry },
    remember() {},
    takeBack: () => authority.leases.revoke({ kind: "serial", value: serial.toString() }),
  };
}

function wishOf(
  { snapshot, request, caller, peer }: SignContext,
  { cluster, decision }: AllowedAction,
  waitMs: number,
): TokenSpec {
  return {
    cluster,
    ca: snapshot.clusterCas.get(cluster.name) ?? "",
    account: decision.binding,
    holder: { caller, endUser: request.end_user, peer: peer.caller },
    waitMs,
  };
}
