import type { Peer } from "@gateway/shared/http";
import { visibleClusters } from "@gateway/shared/policy";
import { wantsClusterRules } from "@gateway/shared/wire";
import type { SignerPorts } from "../sign/ports.ts";
import { identifyReader } from "./hosts.ts";

/**
 * `GET /v1/clusters`: the clusters that the caller, or the broker a trusted forwarder names, may use, with
 * `?policy=true` also what their rules allow, in words; `{}`: none.
 */
export async function handleClusters(ports: SignerPorts, request: Request, peer: Peer): Promise<Response> {
  const caller = await identifyReader(ports, request, peer);
  const { policy, clusterCas } = ports.state.current;
  return Response.json(visibleClusters(policy, caller, clusterCas, wantsClusterRules(request)));
}
