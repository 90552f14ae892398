import { AppError } from "@gateway/shared/errors";
import { elevationLabel } from "@gateway/shared/policy/sudo_user";
import { quoteText } from "@gateway/shared/quote";
import type { ApprovalParked } from "@gateway/shared/wire/approval";
import type { SignRequest } from "@gateway/shared/wire/sign";
import type { ControlPlanePorts } from "../ports.ts";
import type { ApprovalDraft, ApprovalTarget } from "../approval/approval.ts";
import { answer } from "./answer.ts";

/** Why a request waits for a human. */
export interface ParkReason {
  /** The policy's rule, or `behavior`. */
  readonly rule: string;
  readonly anomalies: readonly string[];
  /** Where it would run, as the signer says. */
  readonly target?: ApprovalTarget | undefined;
}

/** Keeps a request until a human has decided, and tells where to ask: status 202. */
export async function park(
  { ports, caller, request }: {
    readonly ports: ControlPlanePorts;
    readonly caller: string;
    readonly request: SignRequest;
  },
  reason: ParkReason,
): Promise<Response> {
  const entry = {
    caller,
    host: request.host,
    command: request.command,
    elevation: elevationLabel(request.sudo, request.sudo_user),
    policy_rule: reason.rule,
    anomaly: reason.anomalies.join(","),
  };
  const created = await ports.registry.create(draftOf(ports, { caller, request }, reason)).catch(
    async (cause) => {
      const err = "could not create approval request";
      await ports.record({ ...entry, outcome: "error", err });
      throw new AppError("internal", err, { cause });
    },
  );
  if (created.kind === "too_many") {
    const err = `${created.limit} requests of this ${created.of} wait for approval`;
    await ports.record({ ...entry, outcome: "rate-limited", err });
    throw new AppError("rate_limited", err, { retryAfterSeconds: ports.config.approval.timeout_seconds });
  }
  const { approval, hasJoined } = created;
  await ports.record({
    ...entry,
    outcome: "approval-required",
    approval_id: approval.id,
    warning: [
      ...(request.reason === "" ? [] : [`reason=${quoteText(request.reason)}`]),
      ...(hasJoined ? [`decided with ${approval.lead}`] : []),
    ].join(" "),
  });
  // Whoever was told of the first decides this one with it.
  if (!hasJoined) ports.notifier.notify(ports.registry.describe(approval));
  return answer({ approval_id: approval.id, status: "pending" } satisfies ApprovalParked, 202);
}

function draftOf(
  { config }: Pick<ControlPlanePorts, "config">,
  { caller, request }: { readonly caller: string; readonly request: SignRequest },
  { rule, anomalies, target }: ParkReason,
): ApprovalDraft {
  // Taken out here: what is in the request is stored.
  const { bearer_token: bearerToken, ...stored } = request;
  return {
    caller,
    // An approver must not take a stranger's word about a person for the truth.
    endUser: config.trusted_forwarders.includes(caller) ? request.end_user : "",
    host: request.host,
    command: request.command,
    sudo: request.sudo,
    sudoUser: request.sudo_user,
    rule,
    anomalies,
    request: stored,
    bearerToken,
    ...(target !== undefined && { target }),
  };
}
