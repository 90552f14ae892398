import type { Peer } from "@gateway/shared/http/mtls_server";
import type { ControlPlanePorts } from "../ports.ts";
import { requireSigner } from "../roles.ts";
import { faultOf } from "../signer_client.ts";
import { answer } from "./answer.ts";

/** `GET /v1/revocations`: what is frozen. Who froze it and why is for the signer's admins, also if we are one. */
export async function handleRevocations(ports: ControlPlanePorts, peer: Peer): Promise<Response> {
  await requireSigner(ports, peer, "GET /v1/revocations");
  const revocations = await ports.signer.revocations();
  if (revocations.kind !== "answered") throw faultOf(revocations);
  return answer(revocations.value.map(({ kind, value, frozen_at }) => ({ kind, value, frozen_at })));
}
