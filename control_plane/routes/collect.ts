import { AppError, describeFault, errorText } from "@gateway/shared/errors";
import type { SignRequest, SignResponse } from "@gateway/shared/wire";
import type { ControlPlanePorts } from "./ports.ts";
import type { Approval } from "../approvals/approval.ts";
import type { Claim } from "../approvals/claim.ts";
import { approvedRequest, outcomeOf } from "./forward.ts";
import { faultOf } from "./signer_client.ts";
import { answer } from "./answer.ts";
import { behaviorOf } from "./behavior.ts";
import { entryOf } from "./decide.ts";

const FAILED = "signing after approval failed";

/**
 * Signs what was approved and serves it. Only then the approval is used up: whatever fails leaves it as it was, to
 * be collected by a later poll.
 */
export async function collect(
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
