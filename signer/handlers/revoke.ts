import { AppError } from "@gateway/shared/errors";
import { readJsonBody } from "@gateway/shared/http/body";
import type { Peer } from "@gateway/shared/http/mtls_server";
import { revokeKeyIdsRequest, type RevokeResponse, revokeSerialsRequest } from "@gateway/shared/wire/krl";
import type { CertificateSubject } from "../krl/revocations.ts";
import type { SignerPorts } from "../ports.ts";
import { answer, requireAdmin } from "./admin.ts";
import { readEffectiveCaller } from "./on_behalf_of.ts";

/** Of 100 key ids of 1 KiB. */
const MAX_BODY_BYTES = 128 * 1024;

/**
 * `POST /v1/revocations/serials`: any for an admin; for a broker, and for one that a trusted forwarder names, those of
 * its own certificates, as when it ends a session that was frozen. Others are passed over: they may have expired.
 */
export async function handleRevokeSerials(
  ports: SignerPorts,
  request: Request,
  peer: Peer,
): Promise<Response> {
  const { current } = ports.state;
  const caller = readEffectiveCaller(current, request, peer);
  const isAdmin = current.reloadCallers.has(caller) && caller === peer.caller;
  if (!isAdmin) limitRevocations(ports, caller);
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
  return await revoke(ports, revoked.map((serial) => ({ kind: "serial", value: serial.toString() })));
}

/** @throws {AppError} `rate_limited` */
function limitRevocations({ state, signLimit }: SignerPorts, caller: string): void {
  const { sign_rate_limit_per_min: perMinute } = state.current.config;
  const taken = signLimit.takeRevocation(caller, perMinute);
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
  return await revoke(ports, body.key_ids.map((value) => ({ kind: "key_id", value })));
}

async function revoke(ports: SignerPorts, subjects: readonly CertificateSubject[]): Promise<Response> {
  const { revoked, version, persisted } = await ports.krl.revoke(subjects);
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
