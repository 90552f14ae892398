import { AppError } from "@gateway/shared/errors";
import { problemResponse } from "@gateway/shared/http";
import type { AuthInfo } from "@modelcontextprotocol/server";
import type { VerifiedEndUser } from "@gateway/shared/oidc";
import type { ToolContext } from "../../tools/tool.ts";

/** What a request brings to prove who sends it. */
type BearerCredentials =
  | { readonly kind: "token"; readonly token: string }
  | { readonly kind: "missing" }
  /** The token also stands in the URL, where it ends up in logs (RFC 6750 section 2.3). */
  | { readonly kind: "in_url" };

/**
 * Reads the token of a request: exactly one `Authorization` header with two fields, the first `Bearer` in any
 * case (RFC 9110 section 11.1). A token elsewhere does not count.
 */
export function readBearer({ headers, url }: Pick<Request, "headers" | "url">): BearerCredentials {
  // Two headers arrive as one, joined by a comma and a blank, and so are more than two fields.
  const [scheme, token, ...rest] = (headers.get("authorization") ?? "").trim().split(/[ \t]+/);
  if (scheme?.toLowerCase() !== "bearer" || token === undefined || rest.length > 0) {
    return { kind: "missing" };
  }
  return new URL(url).searchParams.has("access_token") ? { kind: "in_url" } : { kind: "token", token };
}

/** What a client is told that has to get a token first (RFC 6750 section 3, RFC 9728 section 5.1). */
interface Challenge {
  readonly metadataUrl: string;
  readonly scopes: readonly string[];
}

/** Why a request is not served. */
export type BearerRefusal =
  | { readonly code: "no_token" }
  | { readonly code: "invalid_request"; readonly reason: string }
  | { readonly code: "invalid_token"; readonly reason: string }
  | { readonly code: "insufficient_scope"; readonly reason: string };

/** The answer to a request without a token that is good enough. */
export function challengeResponse(challenge: Challenge, refusal: BearerRefusal): Response {
  const response = problemResponse(problemOf(refusal));
  response.headers.set("www-authenticate", formatChallenge(challenge, refusal));
  return response;
}

function problemOf(refusal: BearerRefusal): AppError {
  switch (refusal.code) {
    case "no_token":
      return new AppError("unauthenticated", "no bearer token");
    case "invalid_request":
      return new AppError("invalid_request", refusal.reason);
    case "invalid_token":
      return new AppError("unauthenticated", `invalid token: ${refusal.reason}`);
    case "insufficient_scope":
      return new AppError("forbidden", refusal.reason);
    default:
      return refusal satisfies never;
  }
}

/** URL and scopes are those of the config, whose schema lets no quote or backslash through. */
function formatChallenge({ metadataUrl, scopes }: Challenge, { code }: BearerRefusal): string {
  const parameters = [`resource_metadata="${metadataUrl}"`];
  if (scopes.length > 0) parameters.push(`scope="${scopes.join(" ")}"`);
  // Who has sent no token is told of no error (RFC 6750 section 3.1).
  if (code !== "no_token") parameters.push(`error="${code}"`);
  return `Bearer ${parameters.join(", ")}`;
}

/** Who sends one request, by the token that is in this request. The MCP library hands it on to the tool call. */
export class AuthenticatedEndUser implements AuthInfo {
  /** A secret: passed on to the signer, and to nobody else. */
  readonly token: string;
  readonly clientId = "";
  readonly scopes: string[] = [];
  readonly name: string;
  readonly groups: readonly string[] | null;

  constructor(token: string, { endUser, groups }: Pick<VerifiedEndUser, "endUser" | "groups">) {
    this.token = token;
    this.name = endUser;
    this.groups = groups;
  }
}

/** On whose behalf a call runs. */
export function callerOf(
  authInfo: AuthInfo | undefined,
): Pick<ToolContext, "caller" | "callerGroups" | "bearerToken"> {
  if (!(authInfo instanceof AuthenticatedEndUser)) throw new TypeError("A call came without its end user");
  return { caller: authInfo.name, callerGroups: authInfo.groups, bearerToken: authInfo.token };
}
