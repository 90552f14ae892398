import type { EnvelopeKey } from "@gateway/shared/envelope";
import { AppError } from "@gateway/shared/errors";
import { type Peer, readJsonBody } from "@gateway/shared/http";
import {
  formatTimestamp,
  KRL_SIGNATURE_HEADER,
  KRL_VERSION_HEADER,
  type KrlReader,
  revokeKeyIdsRequest,
  revokeRequestsRequest,
  type RevokeResponse,
  revokeSerialsRequest,
} from "@gateway/shared/wire";
import type { RevocationOutcome } from "../live/krl/revocation_list.ts";
import { nameSerial } from "../live/krl/certificates.ts";
import { type Authority, type Call, requireTaken } from "../sign/authority.ts";
import { readEffectiveCaller } from "../sign/judge.ts";
import { answer, readAdminBody, requireAdmin } from "./admin.ts";

/** The largest request body: 100 key IDs of 1 KiB. */
const MAX_BODY_BYTES = 128 * 1024;

/**
 * `POST /v1/revocations/serials`: revokes certificates by serial. Admins revoke any certificate, and brokers their own,
 * for example of a frozen session. Other serials of a broker are ignored, because they may have expired. Callers:
 * `reload_callers`, brokers, and `trusted_forwarders` for them.
 *
 * @throws {AppError} `rate_limited` if the caller has sent too many revocations
 */
export async function handleRevokeSerials(authority: Authority, { request, peer }: Call): Promise<Response> {
  const { krl, instances, state: { current } } = authority;
  const caller = readEffectiveCaller(current, request, peer);
  const isAdmin = current.reloadCallers.has(caller) && caller === peer.caller;
  if (!isAdmin) requireToken(authority, "revoke", caller);
  const body = await readJsonBody(request, { maxBytes: MAX_BODY_BYTES, schema: revokeSerialsRequest });
  const { serials, reason } = body;
  const revoked = isAdmin ? serials : krl.issued.findOwn(caller, serials);
  await record(authority, caller, reason, revoked.map((serial) => ({ name: `serial=${serial}`, serial })));
  const outcome = await krl.revoke(revoked.map((serial) => ({ kind: "serial", value: `${serial}` })));
  const unknown = instances.isShared ? serials.filter((serial) => !revoked.includes(serial)) : [];
  if (unknown.length === 0) return await settle(authority, outcome);
  requireRoom(authority, caller, unknown.length);
  await record(authority, caller, reason, unknown.map((serial) => ({ name: `serial=${serial} elsewhere` })));
  const { persisted } = await krl.revoke(
    unknown.map((serial) => ({ kind: "request", value: nameSerial(caller, serial) })),
  );
  return await settle(authority, { ...outcome, persisted: outcome.persisted && persisted });
}

/**
 * `POST /v1/revocations/requests`: abandons the caller's own requests whose answers were lost, and revokes their
 * certificates and tokens. The requests may be unknown. Callers: brokers, and `trusted_forwarders` for them.
 *
 * @throws {AppError} `rate_limited` if the caller has sent too many revocations
 */
export async function handleRevokeRequests(authority: Authority, { request, peer }: Call): Promise<Response> {
  const caller = readEffectiveCaller(authority.state.current, request, peer);
  requireToken(authority, "give up", caller);
  const body = await readJsonBody(request, { maxBytes: MAX_BODY_BYTES, schema: revokeRequestsRequest });
  const { request_ids, reason } = body;
  requireRoom(authority, caller, request_ids.length);
  await record(authority, caller, reason, request_ids.map((id) => ({ name: `request=${id}` })));
  return await settle(authority, await authority.krl.giveUp(caller, request_ids));
}

/**
 * `POST /v1/revocations/key-ids`: revokes every certificate with one of these KeyIds, of all callers. Callers:
 * `reload_callers`.
 */
export async function handleRevokeKeyIds(authority: Authority, call: Call): Promise<Response> {
  const denied = { command: "revoke", outcome: "policy-denied" };
  const body = await readAdminBody(authority, call, denied, revokeKeyIdsRequest, MAX_BODY_BYTES);
  const { key_ids, reason } = body;
  const named = key_ids.map((keyId) => ({ name: `key_id=${JSON.stringify(keyId)}` }));
  await record(authority, call.peer.caller, reason, named);
  return await settle(
    authority,
    await authority.krl.revoke(key_ids.map((value) => ({ kind: "key_id", value }))),
  );
}

/** @throws {AppError} `rate_limited` */
function requireRoom({ krl }: Authority, caller: string, count: number): void {
  if (krl.mayGiveUp(caller, count)) return;
  throw new AppError("rate_limited", `${caller} has given up too many requests`, { retryAfterSeconds: 60 });
}

/** @throws {AppError} `rate_limited` */
function requireToken({ state, signLimit }: Authority, use: "revoke" | "give up", caller: string): void {
  const { sign_rate_limit_per_min: perMinute } = state.current.config;
  requireTaken(signLimit.takeOf(use, caller, perMinute), `revocations exceed ${perMinute} a minute`);
}

async function record(
  { gate }: Authority,
  caller: string,
  reason: string,
  revoked: readonly { readonly name: string; readonly serial?: bigint }[],
): Promise<void> {
  const suffix = reason === "" ? "" : ` reason=${reason}`;
  await Promise.all(
    revoked.map(({ name, ...serial }) =>
      gate.require({ caller, ...serial, command: `revoked ${name}${suffix}`, outcome: "revoked" })
    ),
  );
}

async function settle(
  { instances }: Authority,
  { revoked, version, persisted }: RevocationOutcome,
): Promise<Response> {
  await instances.settled();
  const body: RevokeResponse = {
    status: "ok",
    revoked,
    krl_version: version,
    persisted: persisted ? undefined : false,
  };
  return answer(body);
}

/**
 * `GET /v1/krl`: returns the revocation list in the format of OpenSSH when it is newer than `after`, and 304 if it is
 * not newer after 25 seconds. `x-krl-version` and `x-krl-signature` have its version and signature. Callers:
 * `krl_callers`, `reload_callers`.
 *
 * @throws {AppError} `invalid_request` if `after` is not a whole number
 * @throws {AppError} `conflict` if the signer has no `envelope_key` to sign the list
 */
export async function handleKrl(authority: Authority, { request, peer }: Call): Promise<Response> {
  const key = await requireReader(authority, peer, "krl");
  const after = readVersion(request, "after", 0);
  if (authority.state.current.krlCallers.has(peer.caller)) {
    authority.krl.reports.set(peer.caller, { version: after, at: authority.clock.now() });
  }
  const list = await authority.krl.newerThan(after, request.signal);
  // A reader would prefer this version to another list with more content.
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

/**
 * `GET /v1/krl.sig`: returns the signature of this version of the list, for `ssh-keygen -Y verify`. Callers:
 * `krl_callers`, `reload_callers`.
 *
 * @throws {AppError} `invalid_request` if `version` is not a whole number
 * @throws {AppError} `conflict` if the signer has no `envelope_key` to sign the list
 * @throws {AppError} `gone` if a newer version is in force
 */
export async function handleKrlSignature(authority: Authority, { request, peer }: Call): Promise<Response> {
  const key = await requireReader(authority, peer, "krl.sig");
  const version = readVersion(request, "version");
  const list = authority.krl.version(version);
  if (list === undefined) {
    throw new AppError("gone", `Version ${version} of the list is no longer in force`);
  }
  return new Response(list.armoredSignature(key), {
    headers: { "content-type": "text/plain", "cache-control": "no-store" },
  });
}

/** `GET /v1/krl/hosts`: lists the readers of the list with their installed versions. Callers: `reload_callers`. */
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

/** Callers in `krl_callers` and admins pass. A frozen reader passes too, because the list only denies. */
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

function readVersion(request: Request, name: string, fallback?: number): number {
  const [text, ...more] = new URL(request.url).searchParams.getAll(name);
  if (text === undefined && fallback !== undefined) return fallback;
  const version = text !== undefined && VERSION.test(text) ? Number(text) : NaN;
  if (Number.isSafeInteger(version) && more.length === 0) return version;
  throw new AppError("invalid_request", `Query parameter ${name} must be one version, a whole number`);
}
