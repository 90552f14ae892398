import type { AuditEntry } from "@gateway/shared/audit/entry";
import { AppError } from "@gateway/shared/errors";
import { selectCaKey } from "@gateway/shared/ca/select";
import { readJsonBody } from "@gateway/shared/http/body";
import type { Peer } from "@gateway/shared/http/mtls_server";
import { stringifyJson } from "@gateway/shared/json";
import { formatSubject } from "@gateway/shared/policy/freeze";
import {
  decideSsh,
  mayUseHost,
  type SshDecision,
  type SshIntent,
  toWireDecision,
} from "@gateway/shared/policy/ssh";
import { randomSerial } from "@gateway/shared/random";
import { formatCertificate, issueCertificate } from "@gateway/shared/ssh/certificate";
import { formatKeyId } from "@gateway/shared/ssh/key_id";
import { parseEd25519PublicKey } from "@gateway/shared/ssh/public_key";
import { userCertificate } from "@gateway/shared/ssh/user_certificate";
import { type SignRequest, signRequest, type SignResponse } from "@gateway/shared/wire/sign";
import type { SignerPorts } from "../app.ts";
import type { Snapshot } from "../snapshot.ts";
import { SUBJECT_IS_FROZEN } from "./hosts.ts";
import { learnWaiver } from "./learn.ts";
import { verifyEndUser } from "./verified_end_user.ts";
import type { Allowed, SignContext } from "./sign_context.ts";
import { checkSignFields } from "./sign_fields.ts";

const MAX_BODY_BYTES = 64 * 1024;

/** `POST /v1/sign`. */
export async function handleSign(ports: SignerPorts, httpRequest: Request, peer: Peer): Promise<Response> {
  const snapshot = ports.state.current;
  limitRate(ports, snapshot, peer);
  const received = await readJsonBody(httpRequest, { maxBytes: MAX_BODY_BYTES, schema: signRequest });
  checkSignFields(received);
  const caller = await effectiveCaller(ports, snapshot, received, peer);
  const asked: SignContext = { ports, snapshot, peer, request: received, caller };
  const context: SignContext = { ...asked, request: await verifyEndUser(asked) };
  const { request } = context;
  await refuseFrozen(context);
  const publicKey = parseEd25519PublicKey(request.public_key);
  if (mayUseHost(snapshot.policy, caller, request.host) !== "ok") {
    await refuse(context, { outcome: "denied", err: "host not authorised" });
    throw new AppError("denied", "host not authorised");
  }
  const decision = decideSsh(snapshot.policy, intentOf(context), ports.live.grants);
  if (decision.kind === "denied") return await deny(context, decision);
  if (request.dry_run) return await answerDryRun(context, decision);
  if (decision.requireApproval && !isApproved(context)) return await askApproval(context, decision);
  return await issue(context, decision, publicKey);
}

function limitRate(ports: SignerPorts, snapshot: Snapshot, peer: Peer): void {
  const perMinute = snapshot.config.sign_rate_limit_per_min;
  if (perMinute <= 0) return;
  const taken = ports.rateLimiter.take(peer.caller, perMinute);
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
  if (request.on_behalf_of === "") return peer.caller;
  if (snapshot.trustedForwarders.has(peer.caller)) return request.on_behalf_of;
  const err = "on_behalf_of not allowed for this caller";
  await ports.recordOutcome({
    caller: peer.caller,
    host: request.host,
    command: describe(request),
    outcome: "denied",
    err,
  });
  throw new AppError("denied", err);
}

/** The effective caller, the end user, and the peer: freezing a forwarder stops all that it forwards (K6). */
async function refuseFrozen({ ports, request, peer, caller }: SignContext): Promise<void> {
  const freeze = ports.live.findFreeze({ caller, endUser: request.end_user, peer: peer.caller });
  if (freeze === undefined) return;
  const entry = {
    caller,
    host: request.host,
    outcome: "frozen_denied",
    err: `frozen: ${formatSubject(freeze)}`,
  };
  await ports.recordOutcome(entry, "frozen-denied");
  throw new AppError("frozen", SUBJECT_IS_FROZEN);
}

function intentOf({ request, caller }: SignContext): SshIntent {
  return {
    caller,
    endUser: request.end_user,
    endUserGroups: request.end_user_groups,
    host: request.host,
    role: request.role,
    purpose: request.purpose,
    sessionMode: request.session_mode,
    command: request.command,
    ttlSeconds: request.ttl_seconds,
    sudo: request.sudo,
    sudoUser: request.sudo_user,
    pty: request.pty,
    fileTransfer: request.file_transfer,
  };
}

/** `approved` counts only from a forwarder, or from a caller that is listed by its own name as self-approving. */
function isApproved(context: SignContext): boolean {
  return context.request.approved && (isForwarder(context) || isSelfApproving(context));
}

function isForwarder({ snapshot, peer }: SignContext): boolean {
  return snapshot.trustedForwarders.has(peer.caller);
}

function isSelfApproving({ snapshot, peer }: SignContext): boolean {
  // Never inherited: `_default` would waive four-eyes for everyone.
  return peer.caller !== "_default" && snapshot.policy.callers.get(peer.caller)?.selfApprove === true;
}

async function deny(
  context: SignContext,
  decision: Extract<SshDecision, { kind: "denied" }>,
): Promise<Response> {
  const { request } = context;
  await refuse(context, {
    outcome: request.dry_run ? "dry_run_denied" : "denied",
    err: decision.reason,
    host: decision.host?.addr,
    user: decision.host?.user,
    principal: decision.host?.principal,
  });
  if (request.dry_run) return respond({ decision: toWireDecision(decision) });
  throw new AppError("denied", decision.reason);
}

async function answerDryRun(context: SignContext, decision: Allowed): Promise<Response> {
  await context.ports.recordOutcome(allowedEntry(context, decision, { outcome: "dry_run_allowed" }));
  return respond({ decision: toWireDecision(decision) });
}

async function askApproval(context: SignContext, decision: Allowed): Promise<Response> {
  await context.ports.recordOutcome(allowedEntry(context, decision, { outcome: "approval-required" }));
  return respond({ decision: toWireDecision(decision) });
}

async function issue(context: SignContext, decision: Allowed, publicKey: Uint8Array): Promise<Response> {
  const { ports, snapshot, request, caller } = context;
  const serial = randomSerial(ports.random);
  const nowMs = ports.clock.now();
  const fields = userCertificate({
    publicKey,
    nonce: ports.random.bytes(32),
    serial,
    keyId: formatKeyId({
      caller,
      host: request.host,
      role: decision.role,
      issuedAt: Math.floor(nowMs / 1000),
      endUser: request.end_user,
      elevationPrefix: decision.sudoPrefix,
      pty: decision.pty,
    }),
    principal: decision.host.principal,
    sourceAddress: decision.host.sourceAddress,
    forceCommand: decision.forceCommand,
    bastion: decision.role === "bastion",
    pty: decision.pty,
    nowMs,
    ttlSeconds: decision.ttlSeconds,
  });
  let certificate: string;
  try {
    certificate = formatCertificate(
      await issueCertificate(fields, selectCaKey(snapshot.caKeys, decision.host.groups)),
    );
  } catch (error) {
    await refuse(context, { outcome: "denied", err: "the CA key could not sign" });
    throw new AppError("upstream_failure", "the CA key could not sign", { cause: error });
  }
  await ports.recordOutcome(allowedEntry(context, decision, { outcome: "issued", serial }));
  // A freeze that was acknowledged while the record was written: nothing leaves after it.
  await refuseFrozen(context);
  if (decision.requireApproval && !isForwarder(context)) {
    await ports.gate.bestEffort({ caller, host: request.host, serial, outcome: "self_approved" });
  }
  if (request.learn_ttl_seconds > 0 && isForwarder(context)) await learnWaiver(context, decision);
  return respond({
    certificate,
    serial,
    elevation_prefix: decision.elevationPrefix === "" ? undefined : decision.elevationPrefix,
    decision: toWireDecision(decision),
  });
}

/** Records a refusal; where the decision found the host, its address replaces the requested name. */
function refuse(
  { ports, request, caller }: SignContext,
  facts: {
    readonly outcome: string;
    readonly err: string;
    readonly host?: string | undefined;
    readonly user?: string | undefined;
    readonly principal?: string | undefined;
  },
): Promise<void> {
  return ports.recordOutcome({
    caller,
    host: facts.host ?? request.host,
    user: facts.user ?? "",
    principal: facts.principal ?? "",
    command: describe(request),
    outcome: facts.outcome,
    err: facts.err,
  });
}

function allowedEntry(
  { request, caller }: SignContext,
  decision: Allowed,
  facts: { readonly outcome: string; readonly serial?: bigint },
): AuditEntry {
  return {
    caller,
    host: decision.host.addr,
    user: decision.host.user,
    principal: decision.host.principal,
    command: describe(request),
    policy_rule: decision.matchedRule,
    warning: decision.warning,
    ...facts,
  };
}

/** The request in the audit log: never the command itself, which may hold secrets. */
function describe(request: SignRequest): string {
  const tokens = [`role=${request.role}`, `purpose=${request.purpose}`];
  if (request.session_mode !== "") tokens.push(`session_mode=${request.session_mode}`);
  if (request.end_user !== "") tokens.push(`user=${request.end_user}`);
  if (request.sudo) tokens.push(`elev=sudo:${request.sudo_user === "" ? "root" : request.sudo_user}`);
  if (request.pty) tokens.push("pty=1");
  if (request.file_transfer) tokens.push("ft=1");
  return tokens.join(" ");
}

function respond(body: SignResponse): Response {
  return new Response(stringifyJson(body) + "\n", { headers: { "content-type": "application/json" } });
}
