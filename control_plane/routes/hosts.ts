import { type Peer, readIfNoneMatch } from "@gateway/shared/http";
import { readRulesHosts, wantsClusterRules } from "@gateway/shared/wire";
import type { ControlPlanePorts } from "./ports.ts";
import { requireSigner } from "./roles.ts";
import { faultOf } from "./signer_client.ts";
import { answer, jsonAnswer } from "./answer.ts";

/**
 * `GET /v1/hosts`: what the signer lets the broker see, or 304 where the signer says that the broker has it; with the
 * rules of some hosts where it asks for them.
 */
export async function handleHosts(
  ports: ControlPlanePorts,
  request: Request,
  peer: Peer,
): Promise<Response> {
  await requireSigner(ports, peer, "GET /v1/hosts");
  const named = readRulesHosts(request);
  if (named !== undefined) {
    const rules = await ports.signer.rules(peer.caller, named);
    if (rules.kind !== "answered") throw faultOf(rules);
    return answer(rules.value);
  }
  const ifNoneMatch = readIfNoneMatch(request.headers.get("if-none-match"));
  const hosts = await ports.signer.hosts(peer.caller, ifNoneMatch);
  switch (hosts.kind) {
    case "unchanged":
      return new Response(null, { status: 304, headers: keptBy(hosts.tag) });
    case "answered": {
      const { text, tag } = hosts.value;
      return jsonAnswer(`${text}\n`, { headers: tag === undefined ? {} : keptBy(tag) });
    }
    default:
      throw faultOf(hosts);
  }
}

/** A client may keep the list, and has to ask each time whether it still holds. */
function keptBy(tag: string): Readonly<Record<string, string>> {
  return { etag: tag, "cache-control": "private, no-cache" };
}

/** `GET /v1/clusters`: the signer's list for the broker. A signer without this route has no clusters. */
export async function handleClusters(
  ports: ControlPlanePorts,
  request: Request,
  peer: Peer,
): Promise<Response> {
  await requireSigner(ports, peer, "GET /v1/clusters");
  const clusters = await ports.signer.clusters(peer.caller, wantsClusterRules(request));
  if (clusters.kind === "unknown_route") return answer({});
  if (clusters.kind !== "answered") throw faultOf(clusters);
  return answer(clusters.value);
}
