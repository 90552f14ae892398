import { callerFromSignIn, type Peer } from "@gateway/shared/http";
import type { JsonObject } from "@gateway/shared/json";
import { decideEndUser } from "@gateway/shared/oidc";
import { isHostIdentity } from "@gateway/shared/wire";
import type { UiConfig } from "../config/config.ts";

type Approver =
  | (Peer & { readonly kind: "approver" })
  | { readonly kind: "refused"; readonly reason: string; readonly name: string };

const MAX_NAME_LENGTH = 256;

/** Finds the approver in the claims of a verified ID token. */
export function decideApprover(claims: JsonObject, config: UiConfig, nowMs: number): Approver {
  const { issuer, client_id: audience, user_claim, groups_claim } = config;
  const refuse = (reason: string, name = "") => ({ kind: "refused", reason, name }) as const;
  const user = decideEndUser(claims, {
    ...{ issuer, audience, user_claim, required_scopes: [], max_token_age_seconds: 0, clock_skew_seconds: 0 },
    // Group names of directories have spaces, which only end users' groups must not have.
    groups_claim: "",
  }, nowMs);
  if (user.kind === "refused") return refuse(user.reason);
  const { endUser: name } = user;
  // Many providers let users enter any address. Without the claim, nobody has verified it.
  if (user_claim === "email" && claims["email_verified"] !== true) {
    return refuse("email address not verified");
  }
  const caller = callerFromSignIn(name);
  if (caller === undefined || isHostIdentity(name) || name.length > MAX_NAME_LENGTH) {
    return refuse("not the name of a person");
  }
  const groups = Object.hasOwn(claims, groups_claim) ? [claims[groups_claim]].flat() : [];
  if (config.groups.some((group) => groups.includes(group))) return { kind: "approver", caller };
  return refuse("in none of the groups in ui.groups", name);
}
