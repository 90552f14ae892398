import type { AuditEntry } from "@gateway/shared/audit";
import { within } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { stringifyJson } from "@gateway/shared/json";
import {
  type CompiledCluster,
  type DeniedSsh,
  describeClusterRequest,
  describeSignRequest,
  factsOfRequest,
} from "@gateway/shared/policy";
import { currentRequestId } from "@gateway/shared/service";
import type { SignRequest, SignResponse } from "@gateway/shared/wire";
import type { CertificateNames } from "../live/krl/listed.ts";
import type { Snapshot } from "../config/snapshot.ts";
import { SUBJECT_IS_FROZEN } from "./on_behalf_of.ts";
import {
  type AllowedAction,
  type AllowedCommand,
  judge,
  manifestDigest,
  requireKnown,
  type SignContext,
} from "./judge.ts";

/** A certificate or token that has not left yet. */
interface Made extends CertificateNames {
  /** Revokes it. Never rejects. */
  readonly takeBack: () => Promise<unknown>;
}

const TAKE_BACK_MS = 1_000;

/**
 * The answer that allows something, once the request is judged again if policy, grants or freezes have changed. Do not
 * wait between this and the end of the handler.
 *
 * @throws {AppError} `frozen`, `denied` or `state_stale`, after it has revoked what was made
 */
export async function release(
  context: SignContext,
  judged: AllowedCommand | AllowedAction,
  body: SignResponse,
  made?: Made,
): Promise<Response> {
  const { ports } = context;
  const { serial } = made ?? {};
  let { basis } = judged;
  try {
    for (;;) {
      requireKnown(ports);
      // A revocation outlives the freeze that caused it.
      if (made !== undefined && ports.krl.isListed(made)) {
        return await refuseFrozen(context, "revoked before it left", serial);
      }
      if (ports.krl.isGivenUp(context.caller, currentRequestId())) {
        return await refuseLate(context, "nobody waits for it any more", serial);
      }
      if (ports.state.current === basis.snapshot && ports.live.view === basis.view) return respond(body);
      const again = await judge({ ...context, snapshot: ports.state.current });
      switch (again.kind) {
        case "command":
        case "action":
          if (again.needsApproval && !judged.needsApproval) {
            return await refuseLate(context, "it needs an approval now", serial);
          }
          // Policy and freezes may have changed while it was judged: check everything again.
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
    // The revocation goes on after the answer: the caller must not wait while the database hangs.
    await within({ clock: ports.clock, ms: TAKE_BACK_MS }, made?.takeBack() ?? Promise.resolve())
      .catch(() => {});
    throw error;
  }
}

/** @throws {AppError} `frozen`, after the refusal is recorded */
export async function refuseFrozen(context: SignContext, err: string, serial?: bigint): Promise<never> {
  await context.ports.recordOutcome(lateEntry(context, "frozen_denied", err, serial), "frozen-denied");
  throw new AppError("frozen", SUBJECT_IS_FROZEN);
}

async function refuseLate(context: SignContext, err: string, serial?: bigint): Promise<never> {
  await context.ports.recordOutcome(lateEntry(context, "denied", err, serial));
  throw new AppError("denied", err);
}

function lateEntry(
  { request, caller }: SignContext,
  outcome: string,
  err: string,
  serial?: bigint,
): AuditEntry {
  const facts = { caller, host: request.host, ...factsOfRequest(request), outcome, err };
  return serial === undefined ? facts : { ...facts, serial };
}

/** Records a refusal. The address of a known host or cluster replaces the requested name. */
export function refuse(
  { ports, snapshot, request, caller }: SignContext,
  { outcome, err, rule = "", host, cluster }: {
    readonly outcome: string;
    readonly err: string;
    readonly rule?: string;
    readonly host?: DeniedSsh["host"];
    readonly cluster?: CompiledCluster | undefined;
  },
): Promise<void> {
  const address = cluster?.apiServer ?? host?.addr;
  return ports.recordOutcome({
    caller,
    host: address ?? request.host,
    addr: address ?? "",
    user: host?.user ?? "",
    principal: host?.principal ?? "",
    ...(request.target_type === "k8s" ? describeAction(request) : describeCommand(request, snapshot)),
    outcome,
    err,
    policy_rule: rule,
  });
}

/** The request in an audit record, with the command that is certified and the policy version that decided. */
export function describeCommand(
  request: SignRequest,
  { policyVersion }: Snapshot,
): Pick<AuditEntry, "command" | "command_line" | "policy_version"> {
  return {
    command: describeSignRequest(request),
    ...factsOfRequest(request),
    policy_version: policyVersion?.version,
  };
}

/** A Kubernetes action in an audit record. */
export function describeAction(
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

/** Status 200, for answers that allow nothing; all others go through {@linkcode release}. */
export function respond(body: SignResponse): Response {
  return new Response(stringifyJson(body) + "\n", { headers: { "content-type": "application/json" } });
}
