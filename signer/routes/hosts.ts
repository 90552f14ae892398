import { AppError } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http";
import { formatSubject } from "../live/freezes.ts";
import { visibleClusters, visibleRules } from "@gateway/shared/policy";
import { readRulesHosts, wantsClusterRules } from "@gateway/shared/wire";
import type { SignerPorts } from "../sign/ports.ts";
import { readEffectiveCaller, SUBJECT_IS_FROZEN, whyNotBy } from "../sign/on_behalf_of.ts";

/**
 * Whom a listing is for: the caller, or the broker that a trusted forwarder names. Whether it may have one at all is
 * decided first, also where it has it already.
 *
 * @throws {AppError} `forbidden` and `invalid_request` for the header, `frozen`, `denied`
 */
async function identifyReader(ports: SignerPorts, request: Request, peer: Peer): Promise<string> {
  const snapshot = ports.state.current;
  ports.policySource.requireCurrent(snapshot);
  const caller = readEffectiveCaller(snapshot, request, peer);
  ports.knownSubjects.add("caller", caller);
  ports.instances.requireFresh();
  const freeze = ports.live.findFreeze({ caller, endUser: "", peer: peer.caller });
  if (freeze !== undefined) {
    const err = `frozen: ${formatSubject(freeze)}`;
    await ports.gate.bestEffort({ caller, outcome: "frozen_denied", err });
    throw new AppError("frozen", SUBJECT_IS_FROZEN);
  }
  const err = whyNotBy(snapshot, caller, peer);
  if (err !== undefined) {
    await ports.gate.bestEffort({ caller, outcome: "denied", err });
    throw new AppError("denied", err);
  }
  return caller;
}

/**
 * `GET /v1/hosts`: the hosts that the caller, or the broker a trusted forwarder names, may use; with
 * `?policy=true&host=…` only those that are named, with their rules.
 */
export async function handleHosts(ports: SignerPorts, request: Request, peer: Peer): Promise<Response> {
  const caller = await identifyReader(ports, request, peer);
  const snapshot = ports.state.current;
  const named = readRulesHosts(request);
  if (named !== undefined) return Response.json(visibleRules(snapshot.policy, caller, named));
  return snapshot.hostLists.answer(caller, request.headers.get("if-none-match"));
}

/**
 * `GET /v1/clusters`: the clusters that the caller, or the broker a trusted forwarder names, may use, with
 * `?policy=true` also what their rules allow, in words; `{}`: none.
 */
export async function handleClusters(ports: SignerPorts, request: Request, peer: Peer): Promise<Response> {
  const caller = await identifyReader(ports, request, peer);
  const { policy, clusterCas } = ports.state.current;
  return Response.json(visibleClusters(policy, caller, clusterCas, wantsClusterRules(request)));
}
