import { issueUserCertificate } from "@gateway/shared/ca";
import { mintEnvelope } from "@gateway/shared/envelope";
import { AppError, AUDIT_UNAVAILABLE } from "@gateway/shared/errors";
import { type Peer, readJsonBody, type TakeResult } from "@gateway/shared/http";
import { intentOf, toWireClusterDecision, toWireDecision } from "@gateway/shared/policy";
import {
  checkSignFields,
  MAX_SIGN_BODY_BYTES,
  type SignRequest,
  signRequest,
  type SignTarget,
} from "@gateway/shared/wire";
import {
  allowedEntry,
  decisionOf,
  learnWaiver,
  makeToken,
  preview,
  recordingRefusal,
  refuse,
  refuseFrozen,
  release,
  respond,
  type Unreleased,
} from "./answer.ts";
import { type Authority, type Call, requireTaken, type SignSource } from "./authority.ts";
import {
  type Allowed,
  type AllowedCommand,
  authorize,
  type Denied,
  isForwarder,
  judge,
  recordOutcome,
  requireKnown,
  type SignContext,
} from "./judge.ts";
import type { SignedState } from "./signed_approval.ts";

/**
 * `POST /v1/sign`: decides about one request, and issues an SSH certificate or a Kubernetes token. A request that needs
 * an approval, and a dry run, get the decision alone. Callers: brokers, and `trusted_forwarders` for them.
 *
 * @throws {AppError} `invalid_request` if a field is invalid, or an apply conflicts with other managers
 * @throws {AppError} `not_supported` if `target_type` is unknown
 * @throws {AppError} `denied` if the policy denies the request; `detail` names the reason
 * @throws {AppError} `frozen` if the caller, the end user or the forwarder is frozen
 * @throws {AppError} `rate_limited` if the caller has sent too many requests, or too many of its certificates are valid
 * @throws {AppError} `upstream_failure` if the API server of the cluster issued no token
 */
export function handleSign(authority: Authority, { request, peer }: Call): Promise<Response> {
  return authority.timings.sign.measure(async () => {
    try {
      return await sign(authority, request, peer);
    } catch (error) {
      // This also applies to a certificate that was issued and recorded, because it was not released.
      if (error instanceof AppError && error.code === "state_stale") {
        await recordOutcome(authority, { caller: peer.caller, outcome: "stale_denied", err: error.message });
      }
      throw error;
    }
  });
}

async function sign(authority: Authority, httpRequest: Request, peer: Peer): Promise<Response> {
  const snapshot = authority.state.current;
  const received = await readLimited(authority, httpRequest, {
    peer: peer.caller,
    isForwarder: isForwarder({ snapshot, peer }),
    perMinute: snapshot.config.sign_rate_limit_per_min,
  });
  checkSignFields(received, snapshot.config.max_command_bytes);
  const context = await authorize(authority, snapshot, received, peer);
  const verdict = await judge(context);
  switch (verdict.kind) {
    case "frozen":
      return await refuseFrozen(context, verdict.reason);
    case "closed":
      await refuse(context, { outcome: "denied", err: verdict.reason, decision: verdict.decision });
      throw new AppError("denied", verdict.reason);
    case "mismatch":
      throw new AppError("invalid_request", verdict.reason);
    case "denied":
      return await deny(context, verdict);
    case "action":
    case "command":
      return await answerAllowed(context, verdict, httpRequest);
    default:
      return verdict satisfies never;
  }
}

/** Reads the request within the caller's limits. The body is not read if the caller has no tokens left. */
async function readLimited(authority: Authority, request: Request, source: SignSource): Promise<SignRequest> {
  requireToken(authority, source, authority.signLimit.check(source));
  let received: SignRequest;
  try {
    received = await readJsonBody(request, {
      maxBytes: MAX_SIGN_BODY_BYTES.ssh,
      schema: signRequest,
      larger: { maxBytes: MAX_SIGN_BODY_BYTES.k8s, mayBe: ({ target_type }) => target_type === "k8s" },
    });
  } catch (error) {
    requireToken(authority, source, authority.signLimit.takeUnread(source));
    throw error;
  }
  requireToken(authority, source, authority.signLimit.take(source, received));
  return received;
}

function requireToken({ requests }: Authority, { perMinute }: SignSource, taken: TakeResult): void {
  if (!taken.ok) requests.inc({ outcome: "rate-limited" });
  requireTaken(taken, `sign requests exceed ${perMinute} a minute`);
}

async function deny(context: SignContext, { decision, cluster }: Denied): Promise<Response> {
  const isDryRun = context.request.dry_run;
  await refuse(context, {
    outcome: isDryRun ? "dry_run_denied" : "denied",
    err: decision.reason,
    decision,
    // Readers of the log expect no rule in the record of a denied SSH request. The caller of a cluster never
    // sees the rule.
    rule: isDryRun || cluster !== undefined ? decision.matchedRule : "",
    ...(cluster === undefined ? { host: decision.host } : { cluster }),
  });
  if (!isDryRun) throw new AppError("denied", decision.reason);
  return respond({
    decision: cluster === undefined ? toWireDecision(decision) : toWireClusterDecision(decision),
  });
}

/**
 * Answers a request that passed every gate: a dry run, a request that needs an approval, or a request for a
 * credential.
 */
async function answerAllowed(
  context: SignContext,
  allowed: Allowed,
  httpRequest: Request,
): Promise<Response> {
  const { authority, request } = context;
  if (!request.dry_run && !allowed.needsApproval) return await issue(context, allowed, httpRequest);
  // A control plane sends a preflight before it asks for an approval that only the control plane requires.
  const isForApprover = !request.dry_run || request.preflight || allowed.kind === "command";
  const previewed = allowed.kind === "action" && isForApprover ? await preview(context, allowed) : undefined;
  const outcome = request.dry_run ? "dry_run_allowed" : "approval-required";
  await recordOutcome(authority, allowedEntry(context, allowed, { outcome, jti: previewed?.jti ?? "" }));
  // Seal the command after the record: requests that share a write of the log then sign their envelopes
  // together, which is cheaper.
  const envelope = allowed.kind === "command" && request.dry_run ? sealCommand(context, allowed) : undefined;
  return await release(context, allowed, {
    decision: decisionOf(allowed),
    envelope,
    target: isForApprover && isForwarder(context) ? targetOf(allowed) : undefined,
    signed_approval: isForwarder(context) ? allowed.signed?.view : undefined,
    k8s_diff: previewed?.diff,
  });
}

/**
 * The account and address for an approver. A caller without a forwarder knows the address from the list of
 * hosts.
 */
function targetOf(allowed: Allowed): SignTarget {
  if (allowed.kind === "command") {
    const { user, addr } = allowed.decision.host;
    return { user, addr };
  }
  const { namespace, serviceAccount } = allowed.decision.binding;
  return {
    user: `system:serviceaccount:${namespace}:${serviceAccount}`,
    addr: allowed.cluster.apiServer,
  };
}

/**
 * Creates the envelope of a command in a session on a sealed host. A command that needs approval gets no envelope,
 * because the host does not check for the approval.
 *
 * @throws {AppError} `denied` without a key; a config without one fails to load
 */
function sealCommand(
  { authority, snapshot, request }: SignContext,
  { decision: { host, sealedCommand, sealedStdin, requireApproval } }: AllowedCommand,
): string | undefined {
  if (!request.preflight || requireApproval || host.seal === undefined || sealedCommand === "") {
    return undefined;
  }
  const { envelopeKey: key } = snapshot;
  if (key === undefined) throw new AppError("denied", "the signer has no envelope key");
  return mintEnvelope(
    { host: host.name, command: sealedCommand, stdin: sealedStdin },
    { key, format: host.seal.format, now: authority.clock.now(), random: authority.random },
  );
}

async function issue(context: SignContext, allowed: Allowed, httpRequest: Request): Promise<Response> {
  const { authority, request, caller } = context;
  const documents = allowed.signed?.decisions.map(({ documentSha256 }) => documentSha256) ?? [];
  // A repeated document must cause no work at an API server.
  if (authority.krl.listed.hasDocument(...documents)) await refuseUsed(context);
  const made = allowed.kind === "command"
    ? await certify(context, allowed)
    : await makeToken(context, allowed);
  if (allowed.signed !== undefined) await useProofs(context, allowed.signed, httpRequest);
  const { serial, jti } = made;
  await recordOutcome(authority, allowedEntry(context, allowed, { outcome: "issued", serial, jti }));
  // Remember the certificate before the request is judged again, so that a later freeze finds it.
  made.remember();
  if (allowed.decision.requireApproval && allowed.signed === undefined && !isForwarder(context)) {
    await authority.gate.bestEffort({
      ...{ caller, host: request.host, host_name: request.host, addr: targetOf(allowed).addr, serial },
      outcome: "self_approved",
    });
  }
  if (request.learn_ttl_seconds > 0 && isForwarder(context) && made.learnable !== undefined) {
    await learnWaiver(context, allowed, made.learnable);
  }
  return await release(context, allowed, { ...made.body, serial, decision: decisionOf(allowed) }, made);
}

/**
 * Marks the documents as used: after the steps that can fail, and before the record, because two issued records of one
 * document look like an attack. If the record fails, the documents stay used.
 */
async function useProofs(
  context: SignContext,
  { decisions }: SignedState,
  { signal }: Request,
): Promise<void> {
  const { authority } = context;
  signal.throwIfAborted();
  requireKnown(authority);
  if (!authority.gate.isOpen) throw new AppError("audit_unavailable", AUDIT_UNAVAILABLE);
  const documents = decisions.map(({ documentSha256: sha256, expiresAt }) => ({ sha256, expiresAt }));
  if (!await authority.krl.useDocuments(documents)) await refuseUsed(context);
}

async function refuseUsed(context: SignContext): Promise<never> {
  const err = "signed approval: a decision has been used before";
  await refuse(context, { outcome: "denied", err });
  throw new AppError("denied", err);
}

async function certify(context: SignContext, { decision, publicKey }: AllowedCommand): Promise<Unreleased> {
  const { authority, snapshot: { caKeys }, request, caller, peer } = context;
  const { krl, clock, random } = authority;
  if (!krl.issued.hasRoomFor(caller)) {
    authority.requests.inc({ outcome: "rate-limited" });
    const message = "too many certificates of this caller are still valid";
    throw new AppError("rate_limited", message, { retryAfterSeconds: 30 });
  }
  const wish = { decision, caller, endUser: request.end_user, publicKey };
  const { certificate, serial, keyId, validBefore } = await recordingRefusal(
    context,
    { decision },
    () => issueUserCertificate(wish, { caKeys, clock, random }),
  );
  return {
    ...{ serial, keyId, jti: "", learnable: intentOf(request, caller) },
    body: {
      certificate,
      ...(decision.elevationPrefix !== "" && { elevation_prefix: decision.elevationPrefix }),
    },
    remember() {
      const { issuedAt, ...holder } = keyId;
      krl.add({ ...holder, peer: peer.caller }, { serial, issuedAt, validBefore });
    },
    takeBack: () => krl.revoke([{ kind: "serial", value: serial.toString() }]),
  };
}
