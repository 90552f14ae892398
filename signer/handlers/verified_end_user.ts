import { AppError } from "@gateway/shared/errors";
import { factsOfRequest } from "@gateway/shared/policy";
import type { SignRequest } from "@gateway/shared/wire";
import type { SignContext } from "./sign_context.ts";

/** Whether a caller is listed with `require_verified_end_user`: by its own name only, as for self_approve. */
export function needsVerifiedEndUser({ snapshot, caller }: SignContext): boolean {
  return caller !== "_default" && snapshot.policy.callers.get(caller)?.requireVerifiedEndUser === true;
}

/** The request without the end user's token, which goes no further. */
export function withoutToken(request: SignRequest): SignRequest {
  return request.bearer_token === "" ? request : { ...request, bearer_token: "" };
}

/**
 * The request as it is judged: for such a caller, end user and groups are those
 * of the token that it forwards, and what it says itself counts for nothing. The token goes no further.
 *
 * @throws {AppError} `denied` when there is no verifier, no token, or not a good one
 */
export async function verifyEndUser(context: SignContext): Promise<SignRequest> {
  const { snapshot, request } = context;
  const { bearer_token: token } = request;
  if (snapshot.endUsers === undefined) return await refuse(context, "no end_user_oidc is configured");
  if (token === "") return await refuse(context, "no bearer token");
  const result = await snapshot.endUsers.verify(token);
  if (result.kind === "refused") return await refuse(context, result.reason);
  // Groups that the token does not vouch for could only widen.
  if (result.groups === null && request.end_user_groups !== null) {
    return await refuse(context, "groups were sent, and no groups_claim is configured");
  }
  return { ...withoutToken(request), end_user: result.endUser, end_user_groups: result.groups };
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
