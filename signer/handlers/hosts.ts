import { AppError } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http/mtls_server";
import { visibleHosts } from "@gateway/shared/policy/ssh";
import type { SignerPorts } from "../app.ts";

/** `GET /v1/hosts`: the hosts that the caller, or the broker a trusted forwarder names, may use. */
export function handleHosts(ports: SignerPorts, request: Request, peer: Peer): Response {
  const snapshot = ports.state.current;
  const onBehalfOf = request.headers.get("x-on-behalf-of") ?? "";
  if (onBehalfOf !== "" && !snapshot.trustedForwarders.has(peer.caller)) {
    throw new AppError("forbidden", "X-On-Behalf-Of not allowed for this caller");
  }
  const caller = onBehalfOf === "" ? peer.caller : onBehalfOf;
  return Response.json(visibleHosts(snapshot.policy, caller));
}
