import { isUnsafe, quoteText } from "@gateway/shared/text";
import { AppError } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http";
import { mayComeFrom } from "@gateway/shared/policy";
import { isHostIdentity } from "@gateway/shared/wire";
import type { Snapshot } from "../config/snapshot.ts";

/** What a reader of the list is told that asks for anything else. */
export const READS_ONLY = "callers in krl_callers may fetch the revocation list only";

/** The answer to a frozen caller. Only admins see which freeze it is. */
export const SUBJECT_IS_FROZEN = "subject is frozen";

/** What a caller with `only_via` is told that comes by another way. */
const DIRECT_NOT_ALLOWED = "direct requests not allowed for this caller";

/** Whether a caller is a host, whose identity lies on that host: it must be good for nothing but the list. */
export function isListReader({ krlCallers }: Pick<Snapshot, "krlCallers">, caller: string): boolean {
  return krlCallers.has(caller) || isHostIdentity(caller);
}

/** Why nothing is issued or listed for a caller by this way, whatever its groups; `undefined`: something may be. */
export function whyNotBy(snapshot: Snapshot, caller: string, peer: Peer): string | undefined {
  if (isListReader(snapshot, caller)) return READS_ONLY;
  return mayComeFrom(snapshot.policy, caller, peer.caller) ? undefined : DIRECT_NOT_ALLOWED;
}

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
