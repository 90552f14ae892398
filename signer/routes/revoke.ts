import { AppError } from "@gateway/shared/errors";
import { type Peer, readJsonBody, type TakeResult } from "@gateway/shared/http";
import {
  revokeKeyIdsRequest,
  revokeRequestsRequest,
  type RevokeResponse,
  type RevokeSerialsRequest,
  revokeSerialsRequest,
} from "@gateway/shared/wire";
import type { RevocationOutcome } from "../live/krl/revocation_list.ts";
import { nameSerial } from "../live/krl/revocations.ts";
import type { SignerPorts } from "../sign/ports.ts";
import { answer, requireAdmin } from "./admin.ts";
import { readEffectiveCaller } from "../sign/on_behalf_of.ts";

/** Of 100 key ids of 1 KiB. */
const MAX_BODY_BYTES = 128 * 1024;

/**
 * `POST /v1/revocations/serials`: any for an admin; for a broker, and for one that a trusted forwarder names, those of
 * its own certificates, as when it ends a session that was frozen. Others are passed over: they may have expired, or an
 * instance was killed before it could tell of them, which then finds them in its log.
 */
export async function handleRevokeSerials(
  ports: SignerPorts,
  request: Request,
  peer: Peer,
): Promise<Response> {
  const { current } = ports.state;
  const caller = readEffectiveCaller(current, request, peer);
  const isAdmin = current.reloadCallers.has(caller) && caller === peer.caller;
  if (!isAdmin) limit(ports, (perMinute) => ports.signLimit.takeRevocation(caller, perMinute));
  const { serials, reason } = await readJsonBody(request, {
    maxBytes: MAX_BODY_BYTES,
    schema: revokeSerialsRequest,
  });
  const revoked = isAdmin ? serials : ports.krl.findOwn(caller, serials);
  await Promise.all(
    revoked.map((serial) =>
      ports.gate.require({
        caller,
        serial,
        command: describe("serial", serial.toString(), reason),
        outcome: "revoked",
      })
    ),
  );
  const subjects = revoked.map((serial) => ({ kind: "serial" as const, value: serial.toString() }));
  const outcome = await ports.krl.revoke(subjects);
  const unknown = ports.instances.isShared ? serials.filter((serial) => !revoked.includes(serial)) : [];
  if (unknown.length === 0) return await settle(ports, outcome);
  const { persisted } = await seekElsewhere(ports, caller, { serials: unknown, reason });
  return await settle(ports, { ...outcome, persisted: outcome.persisted && persisted });
}

/**
 * Keeps the serials that a caller names as its own and that nobody here knows: an instance that finds them in its log
 * revokes them, as soon as it runs.
 */
async function seekElsewhere(
  ports: SignerPorts,
  caller: string,
  { serials, reason }: RevokeSerialsRequest,
): Promise<RevocationOutcome> {
  requireRoom(ports, caller, serials.length);
  await Promise.all(serials.map((serial) =>
    ports.gate.require({
      caller,
      command: describe("serial", `${serial} elsewhere`, reason),
      outcome: "revoked",
    })
  ));
  return await ports.krl.revoke(
    serials.map((serial) => ({ kind: "request", value: nameSerial(caller, serial) })),
  );
}

/**
 * `POST /v1/revocations/requests`: what came, or is still to come, of requests for signatures whose answers nobody has. A
 * caller names its own and nobody else's, directly or through a trusted forwarder; what it names may be unknown.
 */
export async function handleRevokeRequests(
  ports: SignerPorts,
  request: Request,
  peer: Peer,
): Promise<Response> {
  const caller = readEffectiveCaller(ports.state.current, request, peer);
  limit(ports, (perMinute) => ports.signLimit.takeGivenUp(caller, perMinute));
  const { request_ids, reason } = await readJsonBody(request, {
    maxBytes: MAX_BODY_BYTES,
    schema: revokeRequestsRequest,
  });
  requireRoom(ports, caller, request_ids.length);
  await Promise.all(
    request_ids.map((id) =>
      ports.gate.require({ caller, command: describe("request", id, reason), outcome: "revoked" })
    ),
  );
  return await settle(ports, await ports.krl.giveUp(caller, request_ids));
}

/** @throws {AppError} `rate_limited` */
function requireRoom({ krl }: SignerPorts, caller: string, count: number): void {
  if (krl.mayGiveUp(caller, count)) return;
  throw new AppError("rate_limited", `${caller} has given up too many requests`, { retryAfterSeconds: 60 });
}

/** @throws {AppError} `rate_limited` */
function limit({ state }: SignerPorts, take: (perMinute: number) => TakeResult): void {
  const { sign_rate_limit_per_min: perMinute } = state.current.config;
  const taken = take(perMinute);
  if (taken.ok) return;
  throw new AppError("rate_limited", `revocations exceed ${perMinute} a minute`, {
    retryAfterSeconds: taken.retryAfterSeconds,
  });
}

/** `POST /v1/revocations/key-ids`: every certificate that has one of them, also those of other callers. */
export async function handleRevokeKeyIds(
  ports: SignerPorts,
  request: Request,
  peer: Peer,
): Promise<Response> {
  await requireAdmin(ports, peer, { command: "revoke", outcome: "policy-denied" });
  const body = await readJsonBody(request, { maxBytes: MAX_BODY_BYTES, schema: revokeKeyIdsRequest });
  await Promise.all(body.key_ids.map((keyId) =>
    ports.gate.require({
      caller: peer.caller,
      command: describe("key_id", JSON.stringify(keyId), body.reason),
      outcome: "revoked",
    })
  ));
  const subjects = body.key_ids.map((value) => ({ kind: "key_id" as const, value }));
  return await settle(ports, await ports.krl.revoke(subjects));
}

async function settle(
  ports: SignerPorts,
  { revoked, version, persisted }: RevocationOutcome,
): Promise<Response> {
  // In every instance's list.
  await ports.instances.settled();
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
