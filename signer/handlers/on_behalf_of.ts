import { isUnsafe } from "@gateway/shared/characters";
import { AppError } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http/mtls_server";
import { quoteText } from "@gateway/shared/quote";
import type { Snapshot } from "../snapshot.ts";

/**
 * The caller that a request is of: the broker that a trusted forwarder names in `X-On-Behalf-Of`, else the peer.
 *
 * @throws {AppError} `forbidden` when anybody else names one, `invalid_request` when it can't be a name
 */
export function readEffectiveCaller(snapshot: Snapshot, request: Request, peer: Peer): string {
  const onBehalfOf = request.headers.get("x-on-behalf-of") ?? "";
  if (onBehalfOf === "") return peer.caller;
  if (!snapshot.trustedForwarders.has(peer.caller)) {
    throw new AppError("forbidden", "X-On-Behalf-Of not allowed for this caller");
  }
  if (!isUnsafe(onBehalfOf)) return onBehalfOf;
  throw new AppError(
    "invalid_request",
    `X-On-Behalf-Of ${quoteText(onBehalfOf)} contains disallowed characters`,
  );
}
