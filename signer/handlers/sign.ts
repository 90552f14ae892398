import type { AuditEntry } from "@gateway/shared/audit";
import { AppError } from "@gateway/shared/errors";
import { type IssuedCertificate, issueUserCertificate } from "@gateway/shared/ca";
import { type Peer, readJsonBody, type TakeResult } from "@gateway/shared/http";
import {
  decideSshSteps,
  describeSignRequest,
  factsOfRequest,
  intentOf,
  mayUseHost,
  type SshDecision,
  toWireDecision,
} from "@gateway/shared/policy";
import { parseEd25519PublicKey } from "@gateway/shared/ssh";
import {
  checkCaller,
  checkSignFields,
  MAX_SIGN_BODY_BYTES,
  type SignRequest,
  signRequest,
  type SignTarget,
} from "@gateway/shared/wire";
import type { SignerPorts } from "../ports.ts";
import type { SignSource } from "../sign_limit.ts";
import type { Snapshot } from "../snapshot.ts";
import { learnWaiver } from "./learn.ts";
import { whyNotBy } from "./on_behalf_of.ts";
import { sealCommand } from "./seal_command.ts";
import { needsVerifiedEndUser, verifyEndUser, withoutToken } from "./verified_end_user.ts";
import { describeAskedAction, findActionDenial, handleClusterSign, refuseAction } from "./sign_cluster.ts";
import {
  type Allowed,
  describeFreeze,
  findFreeze,
  isApproved,
  isForwarder,
  NEEDS_APPROVAL_NOW,
  refuseFrozen,
  release,
  respond,
  type SignContext,
} from "./sign_context.ts";

const NOT_VERIFIED = "its end users have to be verified now";
const NO_FORWARDER = "on_behalf_of not allowed for this caller";

/** `POST /v1/sign`. */
export async function handleSign(ports: SignerPorts, request: Request, peer: Peer): Promise<Response> {
  try {
    return await sign(ports, request, peer);
  } catch (error) {
    // Also where a certificate was made and recorded: it did not leave.
    if (error instanceof AppError && error.code === "state_stale") {
      await ports.recordOutcome({ caller: peer.caller, outcome: "stale_denied", err: error.message });
    }
    throw error;
  }
}

async function sign(ports: SignerPorts, httpRequest: Request, peer: Peer): Promise<Response> {
  const snapshot = ports.state.current;
  const received = await readLimited(ports, httpRequest, {
    peer: peer.caller,
    isForwarder: snapshot.trustedForwarders.has(peer.caller),
    perMinute: snapshot.config.sign_rate_limit_per_min,
  });
  checkSignFields(received, snapshot.config.max_command_bytes);
  const caller = received.on_behalf_of === ""
    ? peer.caller
    : await effectiveCaller(ports, snapshot, received, peer);
  // A certificate may name a caller with a blank, who then reads what it may and gets no certificate.
  checkCaller(caller);
  let seen = { grants: ports.live.view.grants, snapshot };
  const judgeAgain = (): Promise<string | undefined> | undefined => {
    const isSame = ports.live.view.grants === seen.grants && ports.state.current === seen.snapshot;
    if (isSame) return undefined;
    seen = { grants: ports.live.view.grants, snapshot: ports.state.current };
    const now = { ...context, snapshot: seen.snapshot };
    if (needsVerifiedEndUser(now) && !needsVerifiedEndUser(asked)) return Promise.resolve(NOT_VERIFIED);
    return findDenial(now);
  };
  const asked: SignContext = { ports, snapshot, peer, request: received, caller, judgeAgain };
  const request = needsVerifiedEndUser(asked) ? await verifyEndUser(asked) : withoutToken(received);
  const context: SignContext = { ...asked, request };
  ports.knownSubjects.add("caller", peer.caller);
  if (caller !== peer.caller) ports.knownSubjects.add("caller", caller);
  ports.knownSubjects.add("end_user", request.end_user);
  const frozen = findFreeze(context);
  if (frozen !== undefined) return await refuseFrozen(context, { why: describeFreeze(frozen) });
  const err = whyNotBy(snapshot, caller, peer);
  if (err !== undefined) {
    const refuseIt = request.target_type === "k8s" ? refuseAction : refuse;
    await refuseIt(context, { outcome: "denied", err });
    throw new AppError("denied", err);
  }
  if (request.target_type === "k8s") return await handleClusterSign(context);
  const publicKey = parseEd25519PublicKey(request.public_key);
  if (mayUseHost(snapshot.policy, caller, request.host) !== "ok") {
    await refuse(context, { outcome: "denied", err: "host not authorised" });
    throw new AppError("denied", "host not authorised");
  }
  const decided = ports.timings.decision.start();
  const decision = await decideInTurn(context);
  decided(decision.kind);
  if (decision.kind === "denied") return await deny(context, decision);
  if (request.dry_run) return await answerDryRun(context, decision);
  if (decision.requireApproval && !isApproved(context)) return await askApproval(context, decision);
  return await issue(context, decision, publicKey);
}

/** Decides again on what was allowed: policy and grants may have been changed, and that acknowledged, meanwhile. */
async function findDenial(context: SignContext): Promise<string | undefined> {
  const { snapshot, peer, request, caller } = context;
  const { policy } = snapshot;
  if (caller !== peer.caller && !isForwarder(context)) return NO_FORWARDER;
  const whyNot = whyNotBy(snapshot, caller, peer);
  if (whyNot !== undefined) return whyNot;
  if (request.target_type === "k8s") return findActionDenial(context);
  if (mayUseHost(policy, caller, request.host) !== "ok") return "host not authorised";
  const decision = await decideInTurn(context);
  if (decision.kind === "denied") return decision.reason;
  return decision.requireApproval && !isApproved(context) ? NEEDS_APPROVAL_NOW : undefined;
}

function decideInTurn({ ports, snapshot, request, caller }: SignContext): Promise<SshDecision> {
  return ports.turns.run(
    caller,
    decideSshSteps(snapshot.policy, intentOf(request, caller), ports.live.grants),
  );
}

/** The request, within the limits of whom it counts for; what can't be granted any more is not read at all. */
async function readLimited(ports: SignerPorts, request: Request, source: SignSource): Promise<SignRequest> {
  requireToken(ports, source, ports.signLimit.check(source));
  let received: SignRequest;
  try {
    received = await readJsonBody(request, {
      maxBytes: MAX_SIGN_BODY_BYTES.ssh,
      schema: signRequest,
      larger: { maxBytes: MAX_SIGN_BODY_BYTES.k8s, mayBe: ({ target_type }) => target_type === "k8s" },
    });
  } catch (error) {
    requireToken(ports, source, ports.signLimit.takeUnread(source));
    throw error;
  }
  requireToken(ports, source, ports.signLimit.take(source, received));
  return received;
}

function requireToken(ports: SignerPorts, { perMinute }: SignSource, taken: TakeResult): void {
  if (taken.ok) return;
  ports.countOutcome("rate-limited");
  throw new AppError("rate_limited", `sign requests exceed ${perMinute} a minute`, {
    retryAfterSeconds: taken.retryAfterSeconds,
  });
}

async function effectiveCaller(
  ports: SignerPorts,
  snapshot: Snapshot,
  request: SignRequest,
  peer: Peer,
): Promise<string> {
  if (snapshot.trustedForwarders.has(peer.caller)) return request.on_behalf_of;
  const err = NO_FORWARDER;
  await ports.recordOutcome({
    caller: peer.caller,
    host: request.host,
    ...(request.target_type === "k8s" ? describeAskedAction(request) : describeAsked(request, snapshot)),
    outcome: "denied",
    err,
  });
  throw new AppError("denied", err);
}

async function deny(
  context: SignContext,
  decision: Extract<SshDecision, { kind: "denied" }>,
): Promise<Response> {
  const { request } = context;
  await refuse(context, {
    outcome: request.dry_run ? "dry_run_denied" : "denied",
    err: decision.reason,
    // As existing readers of the log have it: of a denial the reason alone, of a dry run its rule as well.
    rule: request.dry_run ? decision.matchedRule : "",
    host: decision.host?.addr,
    user: decision.host?.user,
    principal: decision.host?.principal,
  });
  if (request.dry_run) return respond({ decision: toWireDecision(decision) });
  throw new AppError("denied", decision.reason);
}

async function answerDryRun(context: SignContext, decision: Allowed): Promise<Response> {
  await context.ports.recordOutcome(allowedEntry(context, decision, { outcome: "dry_run_allowed" }));
  // Not before: requests whose records share a write come from it together, and signing at one go is cheaper.
  const envelope = sealCommand(context, decision);
  // A session runs the command of a preflight without another request.
  return await release(context, {
    decision: toWireDecision(decision),
    envelope,
    target: targetOf(context, decision),
  });
}

async function askApproval(context: SignContext, decision: Allowed): Promise<Response> {
  await context.ports.recordOutcome(allowedEntry(context, decision, { outcome: "approval-required" }));
  return await release(context, { decision: toWireDecision(decision), target: targetOf(context, decision) });
}

/** What an approver has to know; who asks a signer itself has it from the list of hosts. */
function targetOf(context: SignContext, { host: { user, addr } }: Allowed): SignTarget | undefined {
  return isForwarder(context) ? { user, addr } : undefined;
}

async function issue(context: SignContext, decision: Allowed, publicKey: Uint8Array): Promise<Response> {
  const { ports, snapshot, request, caller } = context;
  if (!ports.krl.hasRoomFor(caller)) {
    ports.countOutcome("rate-limited");
    throw new AppError("rate_limited", "too many certificates of this caller are still valid", {
      retryAfterSeconds: 30,
    });
  }
  let issued: IssuedCertificate;
  try {
    const { caKeys } = snapshot;
    issued = await issueUserCertificate(
      { decision, caller, endUser: request.end_user, publicKey },
      { caKeys, clock: ports.clock, random: ports.random },
    );
  } catch (error) {
    if (error instanceof AppError) await refuse(context, { outcome: "denied", err: error.message });
    throw error;
  }
  const { certificate, serial, keyId } = issued;
  await ports.recordOutcome(allowedEntry(context, decision, { outcome: "issued", serial }));
  const { issuedAt, ...holder } = keyId;
  // Before the last look at the freezes: one that comes later finds it here.
  ports.krl.add({ ...holder, peer: context.peer.caller }, {
    serial,
    issuedAt,
    validBefore: issued.validBefore,
  });
  if (decision.requireApproval && !isForwarder(context)) {
    await ports.gate.bestEffort({
      ...{ caller, host: request.host, host_name: request.host, addr: decision.host.addr, serial },
      outcome: "self_approved",
    });
  }
  if (request.learn_ttl_seconds > 0 && isForwarder(context)) {
    await learnWaiver(context, decision, intentOf(request, caller));
  }
  return await release(context, {
    certificate,
    serial,
    elevation_prefix: decision.elevationPrefix === "" ? undefined : decision.elevationPrefix,
    decision: toWireDecision(decision),
  }, { serial, keyId, takeBack: () => ports.krl.revoke([{ kind: "serial", value: serial.toString() }]) });
}

/** Records a refusal; where the decision found the host, its address replaces the requested name. */
function refuse(
  { ports, snapshot, request, caller }: SignContext,
  facts: {
    readonly outcome: string;
    readonly err: string;
    readonly rule?: string;
    readonly host?: string | undefined;
    readonly user?: string | undefined;
    readonly principal?: string | undefined;
  },
): Promise<void> {
  return ports.recordOutcome({
    caller,
    host: facts.host ?? request.host,
    addr: facts.host ?? "",
    user: facts.user ?? "",
    principal: facts.principal ?? "",
    ...describeAsked(request, snapshot),
    outcome: facts.outcome,
    err: facts.err,
    policy_rule: facts.rule ?? "",
  });
}

function allowedEntry(
  { request, snapshot, caller }: SignContext,
  decision: Allowed,
  facts: { readonly outcome: string; readonly serial?: bigint },
): AuditEntry {
  return {
    caller,
    host: decision.host.addr,
    addr: decision.host.addr,
    user: decision.host.user,
    principal: decision.host.principal,
    ...describeAsked(request, snapshot),
    policy_rule: decision.matchedRule,
    warning: decision.warning,
    ...facts,
  };
}

/** What every record says of a request, with the command that is certified and the version of the hosts that decided. */
function describeAsked(
  request: SignRequest,
  { policyVersion }: Snapshot,
): Pick<AuditEntry, "command" | "command_line" | "policy_version"> {
  return {
    command: describeSignRequest(request),
    ...factsOfRequest(request),
    policy_version: policyVersion?.version,
  };
}
