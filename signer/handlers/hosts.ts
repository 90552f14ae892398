import { AppError } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http/mtls_server";
import { formatSubject } from "../freezes.ts";
import { mayComeFrom, visibleRules } from "@gateway/shared/policy/ssh";
import { readRulesHosts } from "@gateway/shared/wire/host_rules";
import type { SignerPorts } from "../ports.ts";
import { readEffectiveCaller } from "./on_behalf_of.ts";

/** What a frozen caller is told; why is nobody's business but the admins'. */
export const SUBJECT_IS_FROZEN = "subject is frozen";

/** What a caller with `only_via` is told that comes by another way. */
export const DIRECT_NOT_ALLOWED = "direct requests not allowed for this caller";

/**
 * Whom a listing is for: the caller, or the broker that a trusted forwarder names. Whether it may have one at all is
 * decided first, also where it has it already.
 *
 * @throws {AppError} `forbidden` and `invalid_request` for the header, `frozen`, `denied`
 */
export async function identifyReader(ports: SignerPorts, request: Request, peer: Peer): Promise<string> {
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
  if (!mayComeFrom(snapshot.policy, caller, peer.caller)) {
    await ports.gate.bestEffort({ caller, outcome: "denied", err: DIRECT_NOT_ALLOWED });
    throw new AppError("denied", DIRECT_NOT_ALLOWED);
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
