import { AppError } from "@gateway/shared/errors";
import type { Peer } from "@gateway/shared/http";
import { factsOfRequest } from "@gateway/shared/policy";
import { checkCaller, type SignRequest } from "@gateway/shared/wire";
import type { SignerPorts } from "./ports.ts";
import type { Snapshot } from "../config/snapshot.ts";
import { mayForward, needsVerifiedEndUser, type SignContext } from "./judge.ts";

/**
 * Finds out whose request it is: the effective caller and the end user. The end user's token goes no further.
 *
 * @throws {AppError} `denied` if the caller needs a verified end user and the token does not verify one
 */
export async function authorize(
  ports: SignerPorts,
  snapshot: Snapshot,
  { bearer_token: token, ...received }: SignRequest,
  peer: Peer,
): Promise<SignContext> {
  const request: SignRequest = { ...received, bearer_token: "" };
  const asked = { ports, snapshot, peer, request, caller: peer.caller, hasVerifiedEndUser: false };
  // The judge denies the request: what the peer says of others stays unread.
  if (!mayForward(asked)) return asked;
  const caller = request.on_behalf_of === "" ? peer.caller : request.on_behalf_of;
  // A certificate may name a caller with a blank. Such a caller may read lists, and gets no certificate.
  checkCaller(caller);
  const named = { ...asked, caller };
  const context = needsVerifiedEndUser(named) ? await verifyEndUser(named, token) : named;
  ports.knownSubjects.add("caller", peer.caller);
  if (caller !== peer.caller) ports.knownSubjects.add("caller", caller);
  ports.knownSubjects.add("end_user", context.request.end_user);
  return context;
}

/** Replaces the end user and groups of the request by those of the token. */
async function verifyEndUser(context: SignContext, token: string): Promise<SignContext> {
  const { snapshot, request } = context;
  if (snapshot.endUsers === undefined) return await refuse(context, "no end_user_oidc is configured");
  if (token === "") return await refuse(context, "no bearer token");
  const result = await snapshot.endUsers.verify(token);
  if (result.kind === "refused") return await refuse(context, result.reason);
  // Groups that the token does not vouch for could only widen.
  if (result.groups === null && request.end_user_groups !== null) {
    return await refuse(context, "groups were sent, and no groups_claim is configured");
  }
  const verified = { ...request, end_user: result.endUser, end_user_groups: result.groups };
  return { ...context, request: verified, hasVerifiedEndUser: true };
}

async function refuse({ ports, request, caller }: SignContext, err: string): Promise<never> {
  const entry = {
    caller,
    host: request.host,
    ...factsOfRequest(request),
    outcome: "end_user_unverified",
    err,
  };
  await ports.recordOutcome(entry, "end-user-unverified");
  throw new AppError("denied", "end-user identity could not be verified");
}
