import { AppError } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http/mtls_server";
import type { ControlPlanePorts } from "../ports.ts";
import { requireSigner } from "../roles.ts";
import { faultOf } from "../signer_client.ts";
import { answer } from "./answer.ts";

/** `GET /v1/hosts`: what the signer lets the broker see. */
export async function handleHosts(ports: ControlPlanePorts, peer: Peer): Promise<Response> {
  await requireSigner(ports, peer, "GET /v1/hosts");
  const hosts = await ports.signer.hosts(peer.caller);
  if (hosts.kind !== "answered") throw faultOf(hosts);
  return answer(hosts.value);
}

/** `GET /v1/clusters`: likewise, from a signer that knows clusters. */
export async function handleClusters(ports: ControlPlanePorts, peer: Peer): Promise<Response> {
  await requireSigner(ports, peer, "GET /v1/clusters");
  const clusters = await ports.signer.clusters(peer.caller);
  if (clusters.kind === "unknown_route") {
    throw new AppError("not_supported", "Kubernetes is not supported yet");
  }
  if (clusters.kind !== "answered") throw faultOf(clusters);
  return answer(clusters.value);
}
