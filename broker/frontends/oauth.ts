import { AppError, type ErrorCode } from "@gateway/shared/errors";
import { problemResponse } from "@gateway/shared/http";
import { refuseMethod } from "@gateway/shared/http/routes";
import type { VerifiedEndUser } from "@gateway/shared/oidc";
import type { AuthInfo } from "@modelcontextprotocol/server";
import { Exchange } from "./user_budget.ts";

const PROBLEMS = {
  invalid_request: "invalid_request",
  invalid_token: "unauthenticated",
  insufficient_scope: "forbidden",
} as const satisfies Record<string, ErrorCode>;

export type BearerRefusal =
  | { readonly code: "no_token" }
  | { readonly code: keyof typeof PROBLEMS; readonly reason: string };

/** Reads the token: exactly one `Authorization` header with two fields, `Bearer` in any case (RFC 9110 section 11.1). */
export function readBearer({ headers, url }: Pick<Request, "headers" | "url">): string | BearerRefusal {
  // Two headers arrive as one, joined by a comma and a space, and so have more than two fields.
  const [scheme, token, ...rest] = (headers.get("authorization") ?? "").trim().split(/[ \t]+/);
  if (scheme?.toLowerCase() !== "bearer" || token === undefined || rest.length > 0) {
    return { code: "no_token" };
  }
  // Reject a token in the URL, because logs contain URLs (RFC 6750 section 2.3).
  if (!new URL(url).searchParams.has("access_token")) return token;
  return { code: "invalid_request", reason: "a token must not be in the URL" };
}

/** Answers a request without a sufficient token (RFC 6750 section 3, RFC 9728 section 5.1). */
export function challengeResponse(
  { resourceUrl, scopes }: Pick<ProtectedResource, "resourceUrl" | "scopes">,
  refusal: BearerRefusal,
): Response {
  // The schema of the config rejects quotes and backslashes in the URL and the scopes.
  const parameters = [`resource_metadata="${metadataUrl(resourceUrl)}"`];
  if (scopes.length > 0) parameters.push(`scope="${scopes.join(" ")}"`);
  // A client without a token gets no error code (RFC 6750 section 3.1).
  if (refusal.code !== "no_token") parameters.push(`error="${refusal.code}"`);
  const prefix = refusal.code === "invalid_token" ? "invalid token: " : "";
  const problem = refusal.code === "no_token"
    ? new AppError("unauthenticated", "no bearer token")
    : new AppError(PROBLEMS[refusal.code], prefix + refusal.reason);
  const response = problemResponse(problem);
  response.headers.set("www-authenticate", `Bearer ${parameters.join(", ")}`);
  return response;
}

/** The end user of one request. The MCP library passes this object to the tool call. */
export class AuthenticatedEndUser implements AuthInfo {
  readonly token: string;
  readonly clientId = "";
  readonly scopes: string[] = [];
  readonly name: string;
  readonly groups: readonly string[] | null;
  readonly exchange = new Exchange();

  constructor(token: string, { endUser, groups }: Pick<VerifiedEndUser, "endUser" | "groups">) {
    this.token = token;
    this.name = endUser;
    this.groups = groups;
  }
}

const METHODS = ["GET", "OPTIONS"] as const;
const WELL_KNOWN = "/.well-known/oauth-protected-resource";

export interface ProtectedResource {
  readonly resourceUrl: string;
  readonly issuer: string;
  readonly scopes: readonly string[];
}

/** The URL of the metadata: the well-known path precedes the resource's own (RFC 9728 section 3.1). */
export function metadataUrl(resourceUrl: string): string {
  const { origin, pathname } = new URL(resourceUrl);
  return origin + WELL_KNOWN + (pathname === "/" ? "" : pathname);
}

/**
 * The paths of the metadata: the advertised path, the root (for clients that know only the host), and the
 * reference implementation's path below the resource's path.
 */
export function metadataPaths(resourceUrl: string): ReadonlySet<string> {
  const { pathname } = new URL(resourceUrl);
  const path = pathname.replace(/\/$/, "");
  return new Set([WELL_KNOWN, WELL_KNOWN + pathname, WELL_KNOWN + path, path + WELL_KNOWN]);
}

/** Answers a request for the metadata (RFC 9728 section 2), which pages of any origin may read. */
export function respondToMetadata(method: string, resource: ProtectedResource): Response {
  const response = answer(method, resource);
  response.headers.set("access-control-allow-origin", "*");
  response.headers.set("access-control-allow-methods", METHODS.join(", "));
  // MCP clients send the version header, which browsers must be allowed to send.
  response.headers.set("access-control-allow-headers", "Content-Type, MCP-Protocol-Version");
  return response;
}

function answer(method: string, { resourceUrl, issuer, scopes }: ProtectedResource): Response {
  if (method === "OPTIONS") return new Response(null, { status: 204 });
  if (method !== "GET") return refuseMethod(METHODS, "Method not allowed");
  return Response.json({
    resource: resourceUrl,
    authorization_servers: [issuer],
    ...(scopes.length === 0 ? {} : { scopes_supported: scopes }),
    bearer_methods_supported: ["header"],
    resource_name: "gateway (MCP)",
  });
}
