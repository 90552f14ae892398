import { AppError } from "@gateway/shared/errors";
import { currentRequestId } from "@gateway/shared/service";
import type { Peer } from "@gateway/shared/http";
import { stringifyJson } from "@gateway/shared/json";
import { type AllowedSsh, factsOfRequest } from "@gateway/shared/policy";
import { within } from "@gateway/shared/clock";
import type { SignRequest, SignResponse } from "@gateway/shared/wire";
import { formatSubject, type Freeze } from "../freezes.ts";
import type { CertificateNames } from "../krl/listed.ts";
import type { SignerPorts } from "../ports.ts";
import type { Snapshot } from "../snapshot.ts";
import { SUBJECT_IS_FROZEN } from "./hosts.ts";

/** A decision that a certificate can be made of. */
export type Allowed = AllowedSsh;

/** What one request is judged by. */
export interface SignContext {
  readonly ports: SignerPorts;
  readonly snapshot: Snapshot;
  readonly peer: Peer;
  readonly request: SignRequest;
  /** The broker this is for: the peer, or whom a trusted forwarder names. */
  readonly caller: string;
  /**
   * Decides again by the policy and grants in force now: resolves to the reason of a denial. `undefined` (no promise)
   * when neither has changed since the last decision.
   */
  readonly judgeAgain: () => Promise<string | undefined> | undefined;
}

/**
 * The effective caller, the end user, and the peer: freezing a forwarder stops all that it forwards (K6).
 *
 * @throws {AppError} `state_stale` when that is not known at the moment
 */
export function findFreeze({ ports, request, peer, caller }: SignContext): Freeze | undefined {
  ports.instances.requireFresh();
  ports.policySource.requireCurrent(ports.state.current);
  return ports.live.findFreeze({ caller, endUser: request.end_user, peer: peer.caller });
}

/** @throws {AppError} `frozen`, once that is recorded */
export async function refuseFrozen(
  { ports, request, caller }: SignContext,
  { why, serial }: { readonly why: string; readonly serial?: bigint | undefined },
): Promise<never> {
  const entry = {
    caller,
    host: request.host,
    ...factsOfRequest(request),
    outcome: "frozen_denied",
    err: why,
    ...(serial !== undefined && { serial }),
  };
  await ports.recordOutcome(entry, "frozen-denied");
  throw new AppError("frozen", SUBJECT_IS_FROZEN);
}

/** Why nothing is done for a frozen subject, for the audit log. */
export function describeFreeze(freeze: Freeze): string {
  return `frozen: ${formatSubject(freeze)}`;
}

/** What was made for a request and has not left yet. */
interface Made extends CertificateNames {
  /** Makes it worthless: it will not leave. Never rejects. */
  readonly takeBack: () => Promise<unknown>;
}

const TAKE_BACK_MS = 1_000;

/**
 * The answer that lets something happen, after a last look: a freeze or revocation may have been acknowledged while
 * records were written. Wait for nothing between it and the end of the handler.
 *
 * @throws {AppError} `frozen`, `denied` or `state_stale`, once what was made is taken back
 */
export async function release(context: SignContext, body: SignResponse, made?: Made): Promise<Response> {
  try {
    const letsSomethingHappen = made !== undefined || body.decision?.require_approval !== true;
    for (;;) {
      const why = whyWithheld(context, made);
      if (why !== undefined) return await refuseFrozen(context, { why, serial: made?.serial });
      const isGivenUp = context.ports.krl.isGivenUp(context.caller, currentRequestId());
      if (isGivenUp) return await refuseMeanwhile(context, "nobody waits for it any more", made?.serial);
      const judged = letsSomethingHappen ? context.judgeAgain() : undefined;
      if (judged === undefined) return respond(body);
      // Freezes and policy may change again while this waits for its turn: check all from the start.
      const denied = await judged;
      if (denied !== undefined) return await refuseMeanwhile(context, denied, made?.serial);
    }
  } catch (error) {
    // It goes on by itself. While the database hangs, the caller must not wait for it: nothing has left.
    await within({ clock: context.ports.clock, ms: TAKE_BACK_MS }, made?.takeBack() ?? Promise.resolve())
      .catch(() => {});
    throw error;
  }
}

async function refuseMeanwhile(
  { ports, request, caller }: SignContext,
  err: string,
  serial: bigint | undefined,
): Promise<never> {
  await ports.recordOutcome({
    ...{ caller, host: request.host, ...factsOfRequest(request), outcome: "denied", err },
    ...(serial !== undefined && { serial }),
  });
  throw new AppError("denied", err);
}

function whyWithheld(context: SignContext, made: Made | undefined): string | undefined {
  const frozen = findFreeze(context);
  if (frozen !== undefined) return describeFreeze(frozen);
  // By its serial or key id, or with a caller that is no longer frozen: what is listed stays so.
  return made !== undefined && context.ports.krl.isListed(made) ? "revoked before it left" : undefined;
}

/** What was waived is not any more. */
export const NEEDS_APPROVAL_NOW = "it needs an approval now";

/** `approved` counts only from a forwarder, or from a caller that is listed by its own name as self-approving. */
export function isApproved(context: SignContext): boolean {
  return context.request.approved && (isForwarder(context) || isSelfApproving(context));
}

/** Whether what the peer says of others is believed. */
export function isForwarder({ snapshot, peer }: SignContext): boolean {
  return snapshot.trustedForwarders.has(peer.caller);
}

function isSelfApproving({ snapshot, peer }: SignContext): boolean {
  // Never inherited: `_default` would waive four-eyes for everyone.
  return peer.caller !== "_default" && snapshot.policy.callers.get(peer.caller)?.selfApprove === true;
}

/** Status 200, of what lets nothing happen: what does goes through {@linkcode release}. */
export function respond(body: SignResponse): Response {
  return new Response(stringifyJson(body) + "\n", { headers: { "content-type": "application/json" } });
}
