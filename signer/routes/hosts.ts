import { AppError } from "@gateway/shared/errors";
import { formatSubject } from "../live/freezes.ts";
import { visibleClusters, visibleRules } from "@gateway/shared/policy";
import { readRulesHosts, wantsClusterRules } from "@gateway/shared/wire";
import type { Authority, Call } from "../sign/authority.ts";
import { findCallerDenial, readEffectiveCaller, SUBJECT_IS_FROZEN } from "../sign/judge.ts";

/**
 * Finds the effective caller and checks that it may read a list, even if it already has a current one, or report its sessions.
 *
 * @throws {AppError} `forbidden`, `invalid_request`, `frozen` or `denied`
 */
export async function identifyReader(authority: Authority, { request, peer }: Call): Promise<string> {
  const snapshot = authority.state.current;
  authority.policySource.requireCurrent(snapshot);
  const caller = readEffectiveCaller(snapshot, request, peer);
  authority.knownSubjects.add("caller", caller);
  authority.instances.requireFresh();
  const freeze = authority.live.findFreeze({ caller, endUser: "", peer: peer.caller });
  if (freeze !== undefined) {
    const err = `frozen: ${formatSubject(freeze)}`;
    await authority.gate.bestEffort({ caller, outcome: "frozen_denied", err });
    throw new AppError("frozen", SUBJECT_IS_FROZEN);
  }
  const err = findCallerDenial(snapshot, caller, peer);
  if (err !== undefined) {
    await authority.gate.bestEffort({ caller, outcome: "denied", err });
    throw new AppError("denied", err);
  }
  return caller;
}

/**
 * `GET /v1/hosts`: lists the caller's hosts, or with `policy=true` the named hosts with their rules. Callers: brokers,
 * and `trusted_forwarders` for them.
 *
 * @throws {AppError} `invalid_request` if `policy=true` names no host or more than 20 hosts
 * @throws {AppError} `frozen` if the caller is frozen
 * @throws {AppError} `denied` if the caller may send requests only through a control plane (`only_via`)
 */
export async function handleHosts(authority: Authority, call: Call): Promise<Response> {
  const caller = await identifyReader(authority, call);
  const snapshot = authority.state.current;
  const named = readRulesHosts(call.request);
  if (named !== undefined) return Response.json(visibleRules(snapshot.policy, caller, named));
  return snapshot.hostLists.answer(caller, call.request.headers.get("if-none-match"));
}

/**
 * `GET /v1/clusters`: lists the caller's clusters, with `policy=true` also their rules in words. Callers: brokers, and
 * `trusted_forwarders` for them.
 *
 * @throws {AppError} `frozen` if the caller is frozen
 * @throws {AppError} `denied` if the caller may send requests only through a control plane (`only_via`)
 */
export async function handleClusters(authority: Authority, call: Call): Promise<Response> {
  const caller = await identifyReader(authority, call);
  const { policy, clusterCas } = authority.state.current;
  return Response.json(visibleClusters(policy, caller, clusterCas, wantsClusterRules(call.request)));
}
