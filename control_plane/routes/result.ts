import { AppError, describeFault, errorText } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http";
import { parseEd25519PublicKey } from "@gateway/shared/ssh";
import type { ApprovalWaiting, SignRequest, SignResponse } from "@gateway/shared/wire";
import type { ControlPlanePorts } from "./ports.ts";
import type { Approval } from "../approvals/approval.ts";
import type { Claim, ClaimOutcome } from "../approvals/outcomes.ts";
import { answer, requireSigner } from "./roles.ts";
import { entryOf, waitedSeconds } from "./decide.ts";
import { approvedRequest, faultOf, outcomeOf } from "./signer_client.ts";
import { behaviorOf } from "../guardrails/tracker.ts";

/** The longest that a poll is held, in seconds; less than the time after which clients give up. */
const MAX_WAIT_SECONDS = 8;
/** Between two attempts to collect what another control plane is collecting. */
const ELSEWHERE_PAUSE_MS = 500;

/** `GET /v1/sign/result/{id}`: what was approved, once, to whoever asked for it. */
export async function handleResult(
  ports: ControlPlanePorts,
  request: Request,
  peer: Peer,
  id: string,
): Promise<Response> {
  await requireSigner(ports, peer, "GET /v1/sign/result/{id}");
  const { publicKey, waitMs } = parseQuery(new URL(request.url).searchParams);
  const owner = { caller: peer.caller, ...(publicKey !== undefined && { publicKey }) };
  const end = ports.clock.now() + waitMs;
  const signal = waitMs > 0 ? AbortSignal.any([request.signal, ports.stopping]) : undefined;
  for (;;) {
    const claimed = ports.registry.claim(id, owner);
    switch (claimed.kind) {
      case "claimed": {
        if (await claimed.claim.enter()) return await collect(ports, claimed.claim, request.signal);
        const ms = Math.min(end - ports.clock.now(), ELSEWHERE_PAUSE_MS);
        if (ms > 0) await ports.clock.sleep(ms, signal).catch(() => {});
        if (ms <= 0 || signal?.aborted !== false) {
          return answer({ status: "issuing" } satisfies ApprovalWaiting, 202);
        }
        break;
      }
      case "pending":
      case "issuing": {
        const ms = end - ports.clock.now();
        if (signal === undefined || ms <= 0 || signal.aborted) {
          return answer({ status: claimed.kind } satisfies ApprovalWaiting, 202);
        }
        await ports.registry.waitForDecision(id, { ms, signal });
        break;
      }
      default:
        return await refuse(ports, claimed);
    }
  }
}

type Refusal = Exclude<ClaimOutcome, { readonly kind: "claimed" | "pending" | "issuing" }>;

async function refuse(ports: ControlPlanePorts, refusal: Refusal): Promise<never> {
  switch (refusal.kind) {
    case "unknown":
      throw new AppError("not_found", "unknown request");
    case "not_owner":
      throw new AppError("forbidden", "not authorised");
    case "wrong_key":
      throw new AppError("invalid_request", "invalid pubkey");
    case "denied":
      // On record since the decision.
      throw new AppError("denied", "approval denied");
    case "expired":
      if (refusal.isFirst) await recordExpiry(ports, refusal.approval);
      throw new AppError("timeout", "approval expired");
    case "consumed":
      throw new AppError("gone", "approval already used");
    default:
      return refusal satisfies never;
  }
}

async function recordExpiry(ports: ControlPlanePorts, approval: Approval): Promise<void> {
  const by = approval.state.kind === "pending" ? "" : approval.state.by;
  if (by === "") ports.timings.approval.observe(waitedSeconds(approval, ports.clock.now()), "expired");
  await ports.record({ ...entryOf(approval, by), outcome: "approval-timeout" });
}

function parseQuery(
  query: URLSearchParams,
): { readonly publicKey: string | undefined; readonly waitMs: number } {
  const publicKey = query.get("pubkey") ?? undefined;
  if (publicKey !== undefined) parseEd25519PublicKey(publicKey);
  const wait = query.get("wait") ?? "0";
  if (!/^\d{1,9}$/.test(wait)) throw new AppError("invalid_request", "invalid wait: expected whole seconds");
  return { publicKey, waitMs: Math.min(Number(wait), MAX_WAIT_SECONDS) * 1000 };
}

const FAILED = "signing after approval failed";

/**
 * Signs what was approved and serves it. Only then the approval is used up: whatever fails leaves it as it was, to
 * be collected by a later poll.
 */
async function collect(
  ports: ControlPlanePorts,
  claim: Claim,
  signal: AbortSignal,
): Promise<Response> {
  try {
    const { approval } = claim;
    const by = approverOf(approval);
    const request = approvedRequest(claim.request, { id: approval.id, ...by });
    const entry = entryOf(approval, by.approver);
    const response = await sign(ports, request, signal).catch(async (error) => {
      await ports.record({ ...entry, outcome: "error", err: errorText(error) });
      throw error;
    });
    let isRecorded = false;
    await claim.consume(async () => {
      await ports.require({
        ...entry,
        outcome: "approval-granted",
        ...(response.serial !== undefined && { serial: response.serial }),
        ...(request.dry_run && { dry_run: true }),
        warning: response.decision?.warning ?? "",
      });
      isRecorded = true;
    }).catch(async (error) => {
      const err = `withheld, in spite of the record: ${describeFault(error)}`;
      if (isRecorded) await ports.record({ ...entry, outcome: "error", err });
      await revokeWithheld(ports, response, approval);
      throw error;
    });
    ports.guardrails.learn(behaviorOf(ports.config, { caller: approval.caller, request }));
    return answer(response);
  } finally {
    claim.release();
  }
}

/** Another instance was first: nobody gets this certificate. */
async function revokeWithheld(
  { signer, instances, logger }: ControlPlanePorts,
  { serial }: SignResponse,
  { caller }: Approval,
): Promise<void> {
  if (!instances.isShared || serial === undefined) return;
  const body = { serials: [serial], reason: "collected-elsewhere" };
  const revoked = await signer.revokeSerials(caller, body);
  if (revoked.kind !== "answered") {
    logger.warn("a certificate that was withheld is not revoked", { serial: `${serial}` });
  }
}

function approverOf({ state }: Approval): { readonly approver: string; readonly learnTtlSeconds: number } {
  if (state.kind !== "approved") throw new TypeError(`a claim on an approval that is ${state.kind}`);
  return { approver: state.by, learnTtlSeconds: state.learnTtlSeconds };
}

async function sign(
  ports: ControlPlanePorts,
  request: SignRequest,
  signal: AbortSignal,
): Promise<SignResponse> {
  const answered = await ports.signer.sign(request, { signal });
  if (answered.kind !== "answered") {
    const fault = faultOf(answered);
    // Whatever the signer says, the approval stands; but who waits is told whether a later poll may have more luck.
    const isFinal = answered.kind === "refused" && fault.code !== "rate_limited";
    throw new AppError(isFinal ? "signing_refused" : "upstream_failure", `${FAILED}: ${fault.message}`, {
      cause: fault,
    });
  }
  const outcome = outcomeOf(request, answered.value);
  switch (outcome.kind) {
    case "issued":
      break;
    case "decided":
      if (outcome.allowed) break;
      throw new AppError("signing_refused", `${FAILED}: the policy has changed`);
    case "needs_approval":
      throw new AppError("signing_refused", `${FAILED}: the signer does not accept our approvals`);
    case "broken":
      throw new AppError("upstream_failure", FAILED);
    default:
      outcome satisfies never;
  }
  // What needed approval is decided again for every command: no envelope.
  return { ...outcome.response, envelope: undefined };
}
