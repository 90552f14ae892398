import type { AuditEntry } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import { type Peer, readJsonBody } from "@gateway/shared/http";
import { elevationLabel } from "@gateway/shared/policy";
import {
  type ApprovalParked,
  type K8sDiff,
  MAX_SIGN_BODY_BYTES,
  type SignRequest,
  signRequest,
} from "@gateway/shared/wire";
import type { ControlPlanePorts } from "./ports.ts";
import { type ApprovalDraft, type ApprovalTarget, BEHAVIOR_RULE, sha256Of } from "../approvals/approval.ts";
import type { Verdict } from "../guardrails/guardrails.ts";
import { faultOf, forwardedRequest, outcomeOf, type SignerAnswer, targetOf } from "./signer_client.ts";
import { answer, requireSigner } from "./roles.ts";
import { behaviorOf } from "../guardrails/tracker.ts";

/** The text that clients know for an answer of the signer that holds nothing. */
const NO_CREDENTIAL = "signer response missing credential";

/** One request of a broker, as it goes to the signer. */
interface Asked {
  readonly ports: ControlPlanePorts;
  readonly caller: string;
  readonly request: SignRequest;
}

type Anomalous = Extract<Verdict, { kind: "anomalous" }>;
type NoAnswer = Exclude<SignerAnswer<never>, { kind: "answered" }>;

/** `POST /v1/sign`. */
export async function handleSign(
  ports: ControlPlanePorts,
  httpRequest: Request,
  peer: Peer,
): Promise<Response> {
  await requireSigner(ports, peer, "POST /v1/sign");
  const received = await readJsonBody(httpRequest, {
    maxBytes: MAX_SIGN_BODY_BYTES.ssh,
    schema: signRequest,
    // The manifest of an apply comes along.
    larger: { maxBytes: MAX_SIGN_BODY_BYTES.k8s, mayBe: ({ target_type }) => target_type === "k8s" },
  });
  const request = forwardedRequest(received, peer.caller);
  const asked: Asked = { ports, caller: peer.caller, request };
  // Nothing comes of a pure dry run: it is neither judged nor recorded here, but by the signer.
  if (request.dry_run && !request.preflight) return await answerDryRun(asked);
  const behavior = behaviorOf(ports.config, asked);
  await ports.guardrails.meet(behavior);
  const verdict = ports.guardrails.check(behavior);
  if (verdict.kind === "anomalous") {
    if (ports.config.behavior.mode === "enforce") return await escalate(asked, verdict);
    await ports.record({ ...entryOf(asked), outcome: "anomaly", anomaly: verdict.anomalies.join(",") });
  }
  return await forward(asked, verdict);
}

async function answerDryRun({ ports, request }: Asked): Promise<Response> {
  const answered = await ports.signer.sign(request);
  if (answered.kind !== "answered") throw faultOf(answered);
  const outcome = outcomeOf(request, answered.value);
  if (outcome.kind !== "decided") throw new AppError("upstream_failure", NO_CREDENTIAL);
  return answer(outcome.response);
}

async function forward(asked: Asked, verdict: Verdict): Promise<Response> {
  const { ports, request } = asked;
  const answered = await ports.signer.sign(request);
  if (answered.kind !== "answered") return await fail(asked, answered);
  const outcome = outcomeOf(request, answered.value);
  const { decision } = answered.value;
  const entry: Omit<AuditEntry, "outcome"> = {
    ...entryOf(asked),
    addr: answered.value.target?.addr ?? "",
    policy_rule: decision?.matched_rule ?? "",
    warning: decision?.warning ?? "",
  };
  switch (outcome.kind) {
    case "issued":
      // A baseline holds what the signer let happen, never what was merely tried.
      verdict.learn();
      await ports.recordSoon({ ...entry, outcome: "forwarded", serial: outcome.serial });
      return answer(outcome.response);
    case "decided":
      if (outcome.allowed) {
        // A broker runs nothing that a human would have to approve first.
        if (decision?.require_approval !== true) verdict.learn();
        await ports.recordSoon({ ...entry, outcome: "forwarded", dry_run: true });
      } else {
        const err = decision?.reason ?? "";
        await ports.record({ ...entry, outcome: "denied", dry_run: true, err });
      }
      return answer(outcome.response);
    case "needs_approval":
      return await park(asked, {
        rule: outcome.rule,
        anomalies: verdict.kind === "anomalous" ? verdict.anomalies : [],
        target: targetOf(answered.value),
        k8sDiff: answered.value.k8s_diff,
      });
    case "broken":
      await ports.record({ ...entry, outcome: "error", err: NO_CREDENTIAL });
      throw new AppError("upstream_failure", NO_CREDENTIAL);
    default:
      return outcome satisfies never;
  }
}

/** What is unusual needs a human, unless the signer would refuse it anyway; what is too much is refused. */
async function escalate(asked: Asked, verdict: Anomalous): Promise<Response> {
  const { ports, request } = asked;
  const anomaly = verdict.anomalies.join(",");
  if (verdict.rateExceeded) {
    await ports.record({ ...entryOf(asked), outcome: "rate-limited", anomaly });
    throw new AppError("rate_limited", "rate limit exceeded", {
      retryAfterSeconds: verdict.retryAfterSeconds,
    });
  }
  // Of a cluster the signer then says what would change: a human is going to be asked.
  const dryRun: SignRequest = { ...request, dry_run: true, preflight: request.target_type === "k8s" };
  const answered = await ports.signer.sign(dryRun);
  if (answered.kind !== "answered") return await fail(asked, answered, anomaly);
  const outcome = outcomeOf(dryRun, answered.value);
  if (outcome.kind !== "decided") {
    await ports.record({ ...entryOf(asked), outcome: "error", anomaly, err: NO_CREDENTIAL });
    throw new AppError("upstream_failure", NO_CREDENTIAL);
  }
  if (!outcome.allowed) {
    const err = answered.value.decision?.reason ?? "";
    await ports.record({ ...entryOf(asked), outcome: "denied", anomaly, err });
    throw new AppError("denied", "command not allowed");
  }
  const { require_approval: isGated = false, matched_rule = "" } = answered.value.decision ?? {};
  if (request.dry_run && isGated) {
    // The broker runs in no session what a human has to approve: nobody is asked in vain.
    await ports.recordSoon({
      ...entryOf(asked),
      policy_rule: matched_rule,
      anomaly,
      outcome: "forwarded",
      dry_run: true,
    });
    return answer(outcome.response);
  }
  // One approval serves both: who gives it must not overlook that the policy asks for it too.
  const rule = isGated && matched_rule !== "" ? matched_rule : BEHAVIOR_RULE;
  return await park(asked, {
    rule,
    anomalies: verdict.anomalies,
    target: targetOf(answered.value),
    k8sDiff: answered.value.k8s_diff,
  });
}

async function fail(asked: Asked, answered: NoAnswer, anomaly = ""): Promise<never> {
  const fault = faultOf(answered);
  await asked.ports.record({ ...entryOf(asked), outcome: failureOf(fault), anomaly, err: fault.message });
  throw fault;
}

function failureOf({ code }: AppError): string {
  if (code === "rate_limited") return "rate-limited";
  return code === "upstream_failure" || code === "audit_unavailable" ? "error" : "denied";
}

/** What all records of a request say. */
function entryOf({ caller, request }: Asked): Omit<AuditEntry, "outcome"> {
  const { host, command, session_id, sudo, sudo_user } = request;
  return {
    ...{ caller, host, host_name: host, session_id, command, elevation: elevationLabel(sudo, sudo_user) },
    ...describeTarget(request),
  };
}

/** Why a request waits for a human. */
interface ParkReason {
  readonly rule: string;
  readonly anomalies: readonly string[];
  /** Where it would run, as the signer says. */
  readonly target?: ApprovalTarget | undefined;
  /** What it would change on a cluster, as the signer says. */
  readonly k8sDiff?: K8sDiff | undefined;
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
    host_name: request.host,
    addr: reason.target?.addr ?? "",
    session_id: request.session_id,
    reason: request.reason,
    command: request.command,
    elevation: elevationLabel(request.sudo, request.sudo_user),
    ...describeTarget(request),
    policy_rule: reason.rule,
    anomaly: reason.anomalies.join(","),
  };
  const created = await createFresh(ports, draftOf(ports, { caller, request }, reason)).catch(
    async (cause) => {
      const err = "could not create approval request";
      await ports.record({ ...entry, outcome: "error", err });
      // Another control plane, or a moment later, may have more luck.
      if (cause instanceof AppError && cause.code === "state_stale") throw cause;
      throw new AppError("internal", err, { cause });
    },
  );
  if (created.kind === "too_many") {
    const err = `${created.limit} requests of this ${created.of} wait for approval`;
    await ports.record({ ...entry, outcome: "rate-limited", err });
    throw new AppError("rate_limited", err, { retryAfterSeconds: ports.config.approval.timeout_seconds });
  }
  const { approval, hasJoined, notifyUntil } = created;
  await ports.record({
    ...entry,
    outcome: "approval-required",
    approval_id: approval.id,
    warning: hasJoined ? `decided with ${approval.lead}` : "",
  });
  // Whoever was told of the first decides this one with it.
  if (!hasJoined) ports.notifier.notify(ports.registry.describe(approval), notifyUntil);
  return answer({ approval_id: approval.id, status: "pending" } satisfies ApprovalParked, 202);
}

/** What was asked of the database before, as of the caller's habits, may have waited for it in vain: once is enough. */
async function createFresh({ instances, registry }: ControlPlanePorts, draft: ApprovalDraft) {
  instances.requireFresh();
  return await registry.create(draft);
}

function draftOf(
  { config }: Pick<ControlPlanePorts, "config">,
  { caller, request }: { readonly caller: string; readonly request: SignRequest },
  { rule, anomalies, target, k8sDiff }: ParkReason,
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
    ...(k8sDiff !== undefined && { k8sDiff }),
  };
}

/** What records say of a request that is for a cluster. */
export function describeTarget(
  { target_type, k8s_manifest }: Pick<SignRequest, "target_type" | "k8s_manifest">,
): Pick<AuditEntry, "target_type" | "body_sha256"> {
  if (target_type !== "k8s") return {};
  return { target_type, ...(k8s_manifest === "" ? {} : { body_sha256: sha256Of(k8s_manifest) }) };
}
