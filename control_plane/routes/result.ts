import { AppError, describeFault, type ErrorCode, errorText } from "@gateway/shared/errors";
import { parseEd25519PublicKey } from "@gateway/shared/ssh";
import type { ApprovalWaiting, SignRequest, SignResponse } from "@gateway/shared/wire";
import type { Approval } from "../approvals/approval.ts";
import type { Claim } from "../approvals/outcomes.ts";
import { behaviorOf } from "../guardrails/tracker.ts";
import { approvalEntryOf, observeWait, unknownApproval } from "./decide.ts";
import type { ControlPlanePorts, Handler } from "./ports.ts";
import { answer, requireSigner } from "./roles.ts";
import { approvedRequest, isFinal, outcomeOf } from "./signer_client.ts";

/** The longest time that a poll is held. Shorter than the timeout of clients. */
const MAX_WAIT_SECONDS = 8;
/** The pause between two attempts to collect an approval that another control plane is collecting. */
const ELSEWHERE_PAUSE_MS = 500;

const REJECTIONS = {
  not_owner: ["forbidden", "not authorised"],
  wrong_key: ["invalid_request", "invalid pubkey"],
  denied: ["denied", "approval denied"],
  expired: ["timeout", "approval expired"],
  consumed: ["gone", "approval already used"],
} as const satisfies Record<string, readonly [ErrorCode, string]>;

/**
 * `GET /v1/sign/result/{id}`: returns the certificate or token of an approved request, once, and 202 while it waits.
 * Callers: the broker that sent the request.
 *
 * @throws {AppError} `invalid_request` if `pubkey` is not the key of the request, or `wait` is not a whole number
 * @throws {AppError} `forbidden` if the caller is no broker, or another broker sent the request
 * @throws {AppError} `denied` if the approver denied the request
 * @throws {AppError} `not_found` if the approval is unknown
 * @throws {AppError} `timeout` if the approval expired
 * @throws {AppError} `gone` if the result was collected before
 * @throws {AppError} `signing_refused` if the signer rejected the approved request; a later poll gets the same answer
 * @throws {AppError} `upstream_failure` if the signer could not be reached; a later poll can succeed
 * @throws {AppError} `canceled` if the broker disconnected
 */
export const handleResult: Handler<"id"> = async (ports, { request, peer: { caller }, param }) => {
  await requireSigner(ports, caller, "GET /v1/sign/result/{id}");
  const { registry, clock, stopping } = ports;
  const { publicKey, waitMs } = parseQuery(new URL(request.url).searchParams);
  const id = param("id");
  const end = clock.now() + waitMs;
  const signal = waitMs > 0 ? AbortSignal.any([request.signal, stopping]) : AbortSignal.abort();
  const waiting = (status: ApprovalWaiting["status"]) => answer({ status } satisfies ApprovalWaiting, 202);
  for (;;) {
    const claimed = registry.claim(id, { caller, publicKey });
    const left = end - clock.now();
    switch (claimed.kind) {
      case "claimed": {
        if (await claimed.claim.enter()) return await collect(ports, claimed.claim, request.signal);
        const ms = Math.min(end - clock.now(), ELSEWHERE_PAUSE_MS);
        if (ms > 0) await clock.sleep(ms, signal).catch(() => {});
        if (ms <= 0 || signal.aborted) return waiting("issuing");
        break;
      }
      case "pending":
      case "issuing":
        if (left <= 0 || signal.aborted) return waiting(claimed.kind);
        await registry.waitForDecision(id, { ms: left, signal });
        break;
      default: {
        if (claimed.kind === "expired" && claimed.isFirst) await recordExpiry(ports, claimed.approval);
        if (claimed.kind === "unknown") throw new AppError("not_found", unknownApproval(id));
        const [code, message] = REJECTIONS[claimed.kind];
        throw new AppError(code, message);
      }
    }
  }
};

async function recordExpiry(ports: ControlPlanePorts, approval: Approval): Promise<void> {
  const by = approval.state.kind === "pending" ? "" : approval.state.by;
  if (by === "") observeWait(ports, approval, "expired");
  await ports.record({ ...approvalEntryOf(approval, by), outcome: "approval-timeout" });
}

function parseQuery(query: URLSearchParams) {
  const publicKey = query.get("pubkey") ?? undefined;
  if (publicKey !== undefined) parseEd25519PublicKey(publicKey);
  const wait = query.get("wait") ?? "0";
  if (!/^\d{1,9}$/.test(wait)) throw new AppError("invalid_request", "invalid wait: expected whole seconds");
  return { publicKey, waitMs: Math.min(Number(wait), MAX_WAIT_SECONDS) * 1000 };
}

/** Signs an approved request and serves it. After a failure, a later poll can still collect the approval. */
async function collect(ports: ControlPlanePorts, claim: Claim, signal: AbortSignal): Promise<Response> {
  try {
    const { approval } = claim;
    const { state, caller, id } = approval;
    if (state.kind !== "approved") throw new TypeError(`a claim on an approval that is ${state.kind}`);
    const { by: approver, learnTtlSeconds, proofs } = state;
    const request = approvedRequest(claim.request, { id, approver, learnTtlSeconds, proofs });
    const entry = approvalEntryOf(approval, approver);
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
      const err = `withheld, despite the earlier record: ${describeFault(error)}`;
      if (isRecorded) await ports.record({ ...entry, outcome: "error", err });
      await revokeWithheld(ports, response, caller);
      throw error;
    });
    ports.guardrails.learn(behaviorOf(ports.config, caller, request));
    return answer(response);
  } finally {
    claim.release();
  }
}

/** Revokes a certificate whose approval another instance has collected first. */
async function revokeWithheld(
  { signer, instances, logger }: ControlPlanePorts,
  { serial }: SignResponse,
  caller: string,
): Promise<void> {
  if (!instances.isShared || serial === undefined) return;
  await signer.revokeSerials(caller, { serials: [serial], reason: "collected-elsewhere" }).catch(() =>
    logger.warn("revocation of a withheld certificate failed", { serial: `${serial}` })
  );
}

const FAILED = "signing after approval failed";

async function sign(
  { signer }: ControlPlanePorts,
  request: SignRequest,
  signal: AbortSignal,
): Promise<SignResponse> {
  const response = await signer.sign(request, { signal }).catch((fault: AppError) => {
    if (fault.code === "canceled") throw fault;
    // The approval stays in any case. The code shows the broker whether a later poll can succeed.
    const code = isFinal(fault) ? "signing_refused" : "upstream_failure";
    throw new AppError(code, `${FAILED}: ${fault.message}`, { cause: fault });
  });
  const outcome = outcomeOf(request, response);
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
  // A sealed host would accept the envelope without another approval, so remove it.
  return { ...outcome.response, envelope: undefined };
}
