import { type Peer, readIfNoneMatch, readJsonBody } from "@gateway/shared/http";
import {
  readRulesHosts,
  revokeRequestsRequest,
  revokeSerialsRequest,
  wantsClusterRules,
} from "@gateway/shared/wire";
import type { ControlPlanePorts } from "./ports.ts";
import { answer, jsonAnswer, requireSigner } from "./roles.ts";
import { faultOf } from "./signer_client.ts";
import { isSameIdentity } from "@gateway/shared/text";

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
