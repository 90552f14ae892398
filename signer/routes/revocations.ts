import type { EnvelopeKey } from "@gateway/shared/envelope";
import { AppError } from "@gateway/shared/errors";
import { type Peer, readJsonBody, type TakeResult } from "@gateway/shared/http";
import {
  formatTimestamp,
  KRL_SIGNATURE_HEADER,
  KRL_VERSION_HEADER,
  type KrlReader,
  revokeKeyIdsRequest,
  revokeRequestsRequest,
  type RevokeResponse,
  type RevokeSerialsRequest,
  revokeSerialsRequest,
} from "@gateway/shared/wire";
import type { RevocationOutcome } from "../live/krl/revocation_list.ts";
import { nameSerial } from "../live/krl/certificates.ts";
import type { Authority, Call } from "../sign/authority.ts";
import { readEffectiveCaller } from "../sign/judge.ts";
import { answer, readAdminBody, requireAdmin } from "./admin.ts";

/** Of 100 key ids of 1 KiB. */
const MAX_BODY_BYTES = 128 * 1024;

/**
 * `POST /v1/revocations/serials`: any for an admin; for a broker, and for one that a trusted forwarder names, those of
 * its own certificates, as when it ends a session that was frozen. Others are passed over: they may have expired, or an
 * instance was killed before it could tell of them, which then finds them in its log.
 */
export async function handleRevokeSerials(authority: Authority, { request, peer }: Call): Promise<Response> {
  const { current } = authority.state;
  const caller = readEffectiveCaller(current, request, peer);
  const isAdmin = current.reloadCallers.has(caller) && caller === peer.caller;
  if (!isAdmin) limit(authority, (perMinute) => authority.signLimit.takeRevocation(caller, perMinute));
  const { serials, reason } = await readJsonBody(request, {
    maxBytes: MAX_BODY_BYTES,
    schema: revokeSerialsRequest,
  });
  const revoked = isAdmin ? serials : authority.krl.issued.findOwn(caller, serials);
  await Promise.all(
    revoked.map((serial) =>
      authority.gate.require({
        caller,
        serial,
        command: describe("serial", serial.toString(), reason),
        outcome: "revoked",
      })
    ),
  );
  const subjects = revoked.map((serial) => ({ kind: "serial" as const, value: serial.toString() }));
  const outcome = await authority.krl.revoke(subjects);
  const unknown = authority.instances.isShared ? serials.filter((serial) => !revoked.includes(serial)) : [];
  if (unknown.length === 0) return await settle(authority, outcome);
  const { persisted } = await seekElsewhere(authority, caller, { serials: unknown, reason });
  return await settle(authority, { ...outcome, persisted: outcome.persisted && persisted });
}

/**
 * Keeps the serials that a caller names as its own and that nobody here knows: an instance that finds them in its log
 * revokes them, as soon as it runs.
 */
async function seekElsewhere(
  authority: Authority,
  caller: string,
  { serials, reason }: RevokeSerialsRequest,
): Promise<RevocationOutcome> {
  requireRoom(authority, caller, serials.length);
  await Promise.all(serials.map((serial) =>
    authority.gate.require({
      caller,
      command: describe("serial", `${serial} elsewhere`, reason),
      outcome: "revoked",
    })
  ));
  return await authority.krl.revoke(
    serials.map((serial) => ({ kind: "request", value: nameSerial(caller, serial) })),
  );
}

/**
 * `POST /v1/revocations/requests`: what came, or is still to come, of requests for signatures whose answers nobody has. A
 * caller names its own and nobody else's, directly or through a trusted forwarder; what it names may be unknown.
 */
export async function handleRevokeRequests(authority: Authority, { request, peer }: Call): Promise<Response> {
  const caller = readEffectiveCaller(authority.state.current, request, peer);
  limit(authority, (perMinute) => authority.signLimit.takeGivenUp(caller, perMinute));
  const { request_ids, reason } = await readJsonBody(request, {
    maxBytes: MAX_BODY_BYTES,
    schema: revokeRequestsRequest,
  });
  requireRoom(authority, caller, request_ids.length);
  await Promise.all(
    request_ids.map((id) =>
      authority.gate.require({ caller, command: describe("request", id, reason), outcome: "revoked" })
    ),
  );
  return await settle(authority, await authority.krl.giveUp(caller, request_ids));
}

/** @throws {AppError} `rate_limited` */
function requireRoom({ krl }: Authority, caller: string, count: number): void {
  if (krl.mayGiveUp(caller, count)) return;
  throw new AppError("rate_limited", `${caller} has given up too many requests`, { retryAfterSeconds: 60 });
}

/** @throws {AppError} `rate_limited` */
function limit({ state }: Authority, take: (perMinute: number) => TakeResult): void {
  const { sign_rate_limit_per_min: perMinute } = state.current.config;
  const taken = take(perMinute);
  if (taken.ok) return;
  throw new AppError("rate_limited", `revocations exceed ${perMinute} a minute`, {
    retryAfterSeconds: taken.retryAfterSeconds,
  });
}

/** `POST /v1/revocations/key-ids`: every certificate that has one of them, also those of other callers. */
export async function handleRevokeKeyIds(authority: Authority, call: Call): Promise<Response> {
  const denied = { command: "revoke", outcome: "policy-denied" };
  const body = await readAdminBody(authority, call, denied, revokeKeyIdsRequest, MAX_BODY_BYTES);
  const { caller } = call.peer;
  await Promise.all(body.key_ids.map((keyId) =>
    authority.gate.require({
      caller,
      command: describe("key_id", JSON.stringify(keyId), body.reason),
      outcome: "revoked",
    })
  ));
  const subjects = body.key_ids.map((value) => ({ kind: "key_id" as const, value }));
  return await settle(authority, await authority.krl.revoke(subjects));
}

async function settle(
  authority: Authority,
  { revoked, version, persisted }: RevocationOutcome,
): Promise<Response> {
  // In every instance's list.
  await authority.instances.settled();
  const body: RevokeResponse = {
    status: "ok",
    revoked,
    krl_version: version,
    persisted: persisted ? undefined : false,
  };
  return answer(body);
}

function describe(kind: string, value: string, reason: string): string {
  return `revoked ${kind}=${value}${reason === "" ? "" : ` reason=${reason}`}`;
}

/** `GET /v1/krl?after=N`: the list when it is newer than N, at once or within 25 s; else 304. */
export async function handleKrl(authority: Authority, { request, peer }: Call): Promise<Response> {
  const key = await requireReader(authority, peer, "krl");
  const after = readVersion(request, "after", 0);
  if (authority.state.current.krlCallers.has(peer.caller)) {
    authority.krl.reports.set(peer.caller, { version: after, at: authority.clock.now() });
  }
  const list = await authority.krl.newerThan(after, request.signal);
  // Its version would be taken for newer than that of a list with more in it.
  authority.instances.requireFresh();
  if (list === undefined) {
    return new Response(null, { status: 304, headers: { "cache-control": "no-store" } });
  }
  return new Response(list.bytes, {
    headers: {
      "content-type": "application/octet-stream",
      "cache-control": "no-store",
      [KRL_VERSION_HEADER]: String(list.version),
      [KRL_SIGNATURE_HEADER]: list.detachedSignature(key),
    },
  });
}

/** `GET /v1/krl.sig?version=N`: the signature that `ssh-keygen -Y verify` checks, of the list of this version. */
export async function handleKrlSignature(authority: Authority, { request, peer }: Call): Promise<Response> {
  const key = await requireReader(authority, peer, "krl.sig");
  const version = readVersion(request, "version");
  const list = authority.krl.version(version);
  if (list === undefined) {
    throw new AppError("gone", `Version ${version} of the list is not in force any more`);
  }
  return new Response(list.armoredSignature(key), {
    headers: { "content-type": "text/plain", "cache-control": "no-store" },
  });
}

/** `GET /v1/krl/hosts`: which version each reader has installed. */
export async function handleKrlStatus(authority: Authority, { peer }: Call): Promise<Response> {
  await requireAdmin(authority, peer, { command: "krl-hosts", outcome: "policy-denied" });
  const { krl_callers } = authority.state.current.config;
  const readers = Object.entries(krl_callers).map(([caller, hosts]): KrlReader => {
    const report = authority.krl.reports.get(caller);
    return report === undefined
      ? { caller, hosts }
      : { caller, hosts, version: report.version, seen_at: formatTimestamp(report.at) };
  }).sort((left, right) => left.caller < right.caller ? -1 : 1);
  return answer({ version: authority.krl.current.version, readers });
}

/** Lets the callers in `krl_callers` and the admins pass; a frozen reader too, for it reads only what denies. */
async function requireReader(authority: Authority, peer: Peer, command: string): Promise<EnvelopeKey> {
  const { krlCallers, reloadCallers, envelopeKey } = authority.state.current;
  if (!krlCallers.has(peer.caller) && !reloadCallers.has(peer.caller)) {
    const err = "caller is neither in krl_callers nor in reload_callers";
    await authority.gate.bestEffort({ caller: peer.caller, command, outcome: "policy-denied", err });
    throw new AppError("forbidden", err);
  }
  if (envelopeKey !== undefined) return envelopeKey;
  throw new AppError("conflict", "The revocation list is not signed: the signer has no envelope_key");
}

const VERSION = /^\d{1,16}$/;

/** A version in the query; every other parameter is ignored. */
function readVersion(request: Request, name: string, fallback?: number): number {
  const [text, ...more] = new URL(request.url).searchParams.getAll(name);
  if (text === undefined && fallback !== undefined) return fallback;
  const version = text !== undefined && VERSION.test(text) ? Number(text) : NaN;
  if (Number.isSafeInteger(version) && more.length === 0) return version;
  throw new AppError("invalid_request", `Query parameter ${name} must be one version, a whole number`);
}
