import type { AuditEntry } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import { type Peer, readJsonBody } from "@gateway/shared/http";
import { elevationLabel } from "@gateway/shared/policy";
import {
  type ApprovalParked,
  MAX_SIGN_BODY_BYTES,
  type SignRequest,
  signRequest,
  type SignResponse,
} from "@gateway/shared/wire";
import { BEHAVIOR_RULE, sha256Of, type StoredRequest } from "../approvals/approval.ts";
import type { Verdict } from "../guardrails/guardrails.ts";
import { behaviorOf } from "../guardrails/tracker.ts";
import type { ControlPlanePorts } from "./ports.ts";
import { answer, requireSigner } from "./roles.ts";
import { forwardedRequest, outcomeOf } from "./signer_client.ts";

type Entry = Omit<AuditEntry, "outcome">;

/** One request of a broker, as it is sent to the signer. */
interface Asked {
  readonly ports: ControlPlanePorts;
  readonly caller: string;
  readonly request: SignRequest;
}

/**
 * `POST /v1/sign`: forwards a broker's request to the signer. It parks the request for an approval (202) if a rule of
 * the signer requires one, or if the request is unusual and `behavior.mode` is `enforce`. Callers: brokers
 * (`sign_callers`).
 *
 * @throws {AppError} `invalid_request` if a field is invalid
 * @throws {AppError} `not_supported` if `target_type` is unknown
 * @throws {AppError} `denied` if the policy denies the request; `detail` names the reason
 * @throws {AppError} `frozen` if the broker or the end user is frozen
 * @throws {AppError} `rate_limited` if the broker has sent too many requests, or too many wait for approval
 * @throws {AppError} `upstream_failure` if the signer could not be reached or answered incorrectly
 * @throws {AppError} `answer_lost` if the connection to the signer was lost; send the request again with another key
 */
export async function handleSign(
  ports: ControlPlanePorts,
  httpRequest: Request,
  { caller }: Peer,
): Promise<Response> {
  await requireSigner(ports, caller, "POST /v1/sign");
  const received = await readJsonBody(httpRequest, {
    maxBytes: MAX_SIGN_BODY_BYTES.ssh,
    schema: signRequest,
    // The manifest of an apply is in the body.
    larger: { maxBytes: MAX_SIGN_BODY_BYTES.k8s, mayBe: ({ target_type }) => target_type === "k8s" },
  });
  const request = forwardedRequest(received, caller);
  const asked: Asked = { ports, caller, request };
  if (request.dry_run && !request.preflight) {
    // A pure dry run issues nothing, so it is judged and recorded by the signer alone.
    const outcome = outcomeOf(request, await ports.signer.sign(request));
    if (outcome.kind !== "decided") throw missingCredential();
    return answer(outcome.response);
  }
  const behavior = behaviorOf(ports.config, caller, request);
  await ports.guardrails.loadBaseline(behavior);
  const verdict = ports.guardrails.check(behavior);
  if (verdict.kind === "anomalous") {
    if (ports.config.behavior.mode === "enforce") return await escalate(asked, verdict);
    const anomaly = verdict.anomalies.join(",");
    await ports.record({ ...entryOf(caller, request), outcome: "anomaly", anomaly });
  }
  return await forward(asked, verdict);
}

async function forward(asked: Asked, verdict: Verdict): Promise<Response> {
  const { ports, caller, request } = asked;
  const response = await ask(ports, request, entryOf(caller, request));
  const { decision, target } = response;
  const entry: Entry = {
    ...entryOf(caller, request),
    addr: target?.addr ?? "",
    policy_rule: decision?.matched_rule ?? "",
    warning: decision?.warning ?? "",
  };
  const outcome = outcomeOf(request, response);
  switch (outcome.kind) {
    case "issued":
      // A baseline holds only issued requests, never attempts.
      verdict.learn();
      await ports.recordSoon({ ...entry, outcome: "forwarded", serial: outcome.serial });
      return answer(outcome.response);
    case "decided":
      if (outcome.allowed) {
        // After a gated preflight the broker runs nothing, so there is nothing to learn.
        if (decision?.require_approval !== true) verdict.learn();
        await ports.recordSoon({ ...entry, outcome: "forwarded", dry_run: true });
      } else {
        await ports.record({ ...entry, outcome: "denied", dry_run: true, err: decision?.reason ?? "" });
      }
      return answer(outcome.response);
    case "needs_approval":
      return await park(asked, response, { rule: outcome.rule, anomalies: verdict.anomalies });
    case "broken":
      return await fail(ports, entry, missingCredential());
    default:
      return outcome satisfies never;
  }
}

/** Parks an unusual request unless the signer would deny it, and rejects a request beyond the rate. */
async function escalate({ ports, caller, request }: Asked, verdict: Verdict): Promise<Response> {
  const { anomalies, rateExceeded, retryAfterSeconds } = verdict;
  const entry: Entry = { ...entryOf(caller, request), anomaly: anomalies.join(",") };
  if (rateExceeded) {
    await ports.record({ ...entry, outcome: "rate-limited" });
    throw new AppError("rate_limited", "rate limit exceeded", { retryAfterSeconds });
  }
  // For a cluster, a preflight makes the signer compute the changes that the approver will see.
  const dryRun: SignRequest = { ...request, dry_run: true, preflight: request.target_type === "k8s" };
  const response = await ask(ports, dryRun, entry);
  const outcome = outcomeOf(dryRun, response);
  if (outcome.kind !== "decided") return await fail(ports, entry, missingCredential());
  if (!outcome.allowed) {
    await ports.record({ ...entry, outcome: "denied", err: response.decision?.reason ?? "" });
    throw new AppError("denied", "command not allowed");
  }
  const { require_approval: isGated = false, matched_rule = "" } = response.decision ?? {};
  if (request.dry_run && isGated) {
    // After a gated preflight the broker runs nothing, so no human is asked.
    await ports.recordSoon({ ...entry, policy_rule: matched_rule, outcome: "forwarded", dry_run: true });
    return answer(outcome.response);
  }
  // One approval serves both reasons, so the approver must see that the policy gates the request too.
  const rule = isGated && matched_rule !== "" ? matched_rule : BEHAVIOR_RULE;
  return await park({ ports, caller, request }, response, { rule, anomalies });
}

/** Keeps a request until an approver has decided. */
async function park(
  { ports, caller, request }: Asked,
  { target: signed, decision, k8s_diff: k8sDiff, signed_approval }: SignResponse,
  { rule, anomalies }: { readonly rule: string; readonly anomalies: readonly string[] },
): Promise<Response> {
  const { config, instances, registry, notifier } = ports;
  const target = signed && { ...signed, lifeSeconds: decision?.ttl_seconds ?? 0 };
  const entry: Entry = {
    ...entryOf(caller, request),
    addr: target?.addr ?? "",
    reason: request.reason,
    policy_rule: rule,
    anomaly: anomalies.join(","),
  };
  // The token is taken out, because the request is stored.
  const { bearer_token: bearerToken, ...stored } = request;
  const create = async () => {
    instances.requireFresh();
    return await registry.create({
      caller,
      // Approvers must not see a person that an untrusted broker names.
      endUser: config.trusted_forwarders.includes(caller) ? request.end_user : "",
      host: request.host,
      command: request.command,
      sudo: request.sudo,
      sudoUser: request.sudo_user,
      ...{ rule, anomalies, request: stored, bearerToken },
      ...(target !== undefined && { target }),
      ...(k8sDiff !== undefined && { k8sDiff }),
      ...(signed_approval !== undefined && { signed: signed_approval }),
    });
  };
  const created = await create().catch(async (cause) => {
    const err = "could not create approval request";
    await ports.record({ ...entry, outcome: "error", err });
    // Another control plane, or this one a moment later, may succeed.
    if (cause instanceof AppError && cause.code === "state_stale") throw cause;
    throw new AppError("internal", err, { cause });
  });
  if (created.kind === "too_many") {
    const err = `${created.limit} requests of this ${created.of} wait for approval`;
    await ports.record({ ...entry, outcome: "rate-limited", err });
    throw new AppError("rate_limited", err, { retryAfterSeconds: config.approval.timeout_seconds });
  }
  const { approval, hasJoined, notifyUntil } = created;
  await ports.record({
    ...entry,
    outcome: "approval-required",
    approval_id: approval.id,
    warning: hasJoined ? `decided with ${approval.lead}` : "",
  });
  if (!hasJoined) notifier.notify(registry.describe(approval), notifyUntil);
  return answer({ approval_id: approval.id, status: "pending" } satisfies ApprovalParked, 202);
}

function missingCredential(): AppError {
  return new AppError("upstream_failure", "signer response missing credential");
}

async function ask(ports: ControlPlanePorts, request: SignRequest, entry: Entry): Promise<SignResponse> {
  return await ports.signer.sign(request).catch((fault: AppError) => fail(ports, entry, fault));
}

async function fail(ports: ControlPlanePorts, entry: Entry, fault: AppError): Promise<never> {
  await ports.record({ ...entry, outcome: failureOf(fault), err: fault.message });
  throw fault;
}

function failureOf({ code }: AppError): string {
  if (code === "rate_limited") return "rate-limited";
  return code === "upstream_failure" || code === "audit_unavailable" ? "error" : "denied";
}

/** The fields that all records of a request have. */
export function entryOf(caller: string, request: StoredRequest): Entry {
  const { host, command, end_user, session_id, sudo, sudo_user, target_type, k8s_manifest } = request;
  return {
    ...{ caller, host, host_name: host, end_user, session_id, command },
    elevation: elevationLabel(sudo, sudo_user),
    ...(target_type === "k8s" && {
      target_type,
      ...(k8s_manifest !== "" && { body_sha256: sha256Of(k8s_manifest) }),
    }),
  };
}
