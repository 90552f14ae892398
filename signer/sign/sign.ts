import type { AuditEntry } from "@gateway/shared/audit";
import { type IssuedCertificate, issueUserCertificate } from "@gateway/shared/ca";
import { mintEnvelope } from "@gateway/shared/envelope";
import { AppError } from "@gateway/shared/errors";
import { type Peer, readJsonBody, type TakeResult } from "@gateway/shared/http";
import { intentOf, toWireClusterDecision, toWireDecision } from "@gateway/shared/policy";
import {
  checkSignFields,
  MAX_SIGN_BODY_BYTES,
  type SignRequest,
  signRequest,
  type SignTarget,
} from "@gateway/shared/wire";
import type { Authority, Call } from "./authority.ts";
import type { SignSource } from "./limits.ts";
import { describeCommand, learnWaiver, refuse, refuseFrozen, release, respond } from "./answer.ts";
import {
  type AllowedCommand,
  authorize,
  type Denied,
  isForwarder,
  judge,
  type SignContext,
} from "./judge.ts";
import { actOnCluster } from "./sign_cluster.ts";

/** `POST /v1/sign`. */
export function handleSign(authority: Authority, { request, peer }: Call): Promise<Response> {
  return authority.timings.sign.measure(async () => {
    try {
      return await sign(authority, request, peer);
    } catch (error) {
      // Also if a certificate was made and recorded: it did not leave.
      if (error instanceof AppError && error.code === "state_stale") {
        await authority.recordOutcome({ caller: peer.caller, outcome: "stale_denied", err: error.message });
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
      await refuse(context, { outcome: "denied", err: verdict.reason });
      throw new AppError("denied", verdict.reason);
    case "mismatch":
      throw new AppError("invalid_request", verdict.reason);
    case "denied":
      return await deny(context, verdict);
    case "action":
      return await actOnCluster(context, verdict);
    case "command":
      if (context.request.dry_run) return await answerDryRun(context, verdict);
      if (verdict.needsApproval) return await askApproval(context, verdict);
      return await issue(context, verdict);
    default:
      return verdict satisfies never;
  }
}

/** Reads the request within the caller's limits. A caller without tokens has its body left unread. */
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

function requireToken(authority: Authority, { perMinute }: SignSource, taken: TakeResult): void {
  if (taken.ok) return;
  authority.countOutcome("rate-limited");
  throw new AppError("rate_limited", `sign requests exceed ${perMinute} a minute`, {
    retryAfterSeconds: taken.retryAfterSeconds,
  });
}

async function deny(context: SignContext, { decision, cluster }: Denied): Promise<Response> {
  const isDryRun = context.request.dry_run;
  await refuse(context, {
    outcome: isDryRun ? "dry_run_denied" : "denied",
    err: decision.reason,
    // Readers of the log expect no rule in a denied SSH request. A cluster's caller is not told the rule.
    rule: isDryRun || cluster !== undefined ? decision.matchedRule : "",
    ...(cluster === undefined ? { host: decision.host } : { cluster }),
  });
  if (!isDryRun) throw new AppError("denied", decision.reason);
  return respond({
    decision: cluster === undefined ? toWireDecision(decision) : toWireClusterDecision(decision),
  });
}

async function answerDryRun(context: SignContext, allowed: AllowedCommand): Promise<Response> {
  await context.authority.recordOutcome(allowedEntry(context, allowed, { outcome: "dry_run_allowed" }));
  // After the record: requests whose records share a write sign their envelopes in one go, which is cheaper.
  const envelope = sealCommand(context, allowed);
  // A session runs the command of a preflight without another request.
  return await release(context, allowed, {
    decision: toWireDecision(allowed.decision),
    envelope,
    target: targetOf(context, allowed),
  });
}

/**
 * The envelope of a command that a session on a sealed host is about to run. A command that waits for a human has no
 * envelope, because the host asks nobody again.
 *
 * @throws {AppError} `denied` without a key, which loading the config refuses
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

async function askApproval(context: SignContext, allowed: AllowedCommand): Promise<Response> {
  await context.authority.recordOutcome(allowedEntry(context, allowed, { outcome: "approval-required" }));
  return await release(context, allowed, {
    decision: toWireDecision(allowed.decision),
    target: targetOf(context, allowed),
  });
}

/** The address for an approver. A caller without a forwarder has the address from the list of hosts. */
function targetOf(context: SignContext, { decision: { host } }: AllowedCommand): SignTarget | undefined {
  return isForwarder(context) ? { user: host.user, addr: host.addr } : undefined;
}

async function issue(context: SignContext, allowed: AllowedCommand): Promise<Response> {
  const { authority, snapshot, request, caller } = context;
  const { decision, publicKey } = allowed;
  if (!authority.krl.issued.hasRoomFor(caller)) {
    authority.countOutcome("rate-limited");
    throw new AppError("rate_limited", "too many certificates of this caller are still valid", {
      retryAfterSeconds: 30,
    });
  }
  let issued: IssuedCertificate;
  try {
    const { caKeys } = snapshot;
    issued = await issueUserCertificate(
      { decision, caller, endUser: request.end_user, publicKey },
      { caKeys, clock: authority.clock, random: authority.random },
    );
  } catch (error) {
    if (error instanceof AppError) await refuse(context, { outcome: "denied", err: error.message });
    throw error;
  }
  const { certificate, serial, keyId } = issued;
  await authority.recordOutcome(allowedEntry(context, allowed, { outcome: "issued", serial }));
  const { issuedAt, ...holder } = keyId;
  // Before the request is judged again: a later freeze finds the certificate here.
  authority.krl.add({ ...holder, peer: context.peer.caller }, {
    serial,
    issuedAt,
    validBefore: issued.validBefore,
  });
  if (decision.requireApproval && !isForwarder(context)) {
    await authority.gate.bestEffort({
      ...{ caller, host: request.host, host_name: request.host, addr: decision.host.addr, serial },
      outcome: "self_approved",
    });
  }
  if (request.learn_ttl_seconds > 0 && isForwarder(context)) {
    await learnWaiver(context, decision, intentOf(request, caller));
  }
  return await release(context, allowed, {
    certificate,
    serial,
    elevation_prefix: decision.elevationPrefix === "" ? undefined : decision.elevationPrefix,
    decision: toWireDecision(decision),
  }, { serial, keyId, takeBack: () => authority.krl.revoke([{ kind: "serial", value: serial.toString() }]) });
}

function allowedEntry(
  { request, snapshot, caller }: SignContext,
  { decision }: AllowedCommand,
  facts: { readonly outcome: string; readonly serial?: bigint },
): AuditEntry {
  return {
    caller,
    host: decision.host.addr,
    addr: decision.host.addr,
    user: decision.host.user,
    principal: decision.host.principal,
    ...describeCommand(request, snapshot),
    policy_rule: decision.matchedRule,
    warning: decision.warning,
    ...facts,
  };
}
