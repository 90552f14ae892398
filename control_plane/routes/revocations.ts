import { type Peer, readJsonBody } from "@gateway/shared/http";
import type { ControlPlanePorts } from "./ports.ts";
import { requireSigner } from "./roles.ts";
import { faultOf } from "./signer_client.ts";
import { isSameIdentity } from "@gateway/shared/text";
import { revokeRequestsRequest, revokeSerialsRequest } from "@gateway/shared/wire";
import { answer } from "./answer.ts";

const MAX_BODY_BYTES = 16 * 1024;

/**
 * `GET /v1/revocations`: what is frozen, without other callers. Who froze it and why is for the signer's admins, also if
 * the control plane is one.
 */
export async function handleRevocations(ports: ControlPlanePorts, peer: Peer): Promise<Response> {
  await requireSigner(ports, peer, "GET /v1/revocations");
  const revocations = await ports.signer.revocations();
  if (revocations.kind !== "answered") throw faultOf(revocations);
  const entries = revocations.value.map(({ kind, value, frozen_at }) => ({ kind, value, frozen_at }));
  return answer(entries.filter(({ kind, value }) => kind !== "caller" || isSameIdentity(value, peer.caller)));
}

/** `POST /v1/revocations/serials`: revokes certificates of the broker that asks, and of nobody else. */
export async function handleRevokeSerials(
  ports: ControlPlanePorts,
  request: Request,
  peer: Peer,
): Promise<Response> {
  await requireSigner(ports, peer, "POST /v1/revocations/serials");
  const body = await readJsonBody(request, { maxBytes: MAX_BODY_BYTES, schema: revokeSerialsRequest });
  const revoked = await ports.signer.revokeSerials(peer.caller, body);
  if (revoked.kind !== "answered") throw faultOf(revoked);
  return answer(revoked.value);
}

/** `POST /v1/revocations/requests`: what came of requests of the broker that asks, whose answers it does not have. */
export async function handleRevokeRequests(
  ports: ControlPlanePorts,
  request: Request,
  peer: Peer,
): Promise<Response> {
  await requireSigner(ports, peer, "POST /v1/revocations/requests");
  const body = await readJsonBody(request, { maxBytes: MAX_BODY_BYTES, schema: revokeRequestsRequest });
  const revoked = await ports.signer.revokeRequests(peer.caller, body);
  if (revoked.kind !== "answered") throw faultOf(revoked);
  return answer(revoked.value);
}
