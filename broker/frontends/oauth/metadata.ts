import { refuseMethod } from "@gateway/shared/http/routes";

const METHODS = ["GET", "OPTIONS"] as const;
const WELL_KNOWN = "/.well-known/oauth-protected-resource";

/** What the resource says of itself. */
export interface ProtectedResource {
  readonly resourceUrl: string;
  readonly issuer: string;
  readonly scopes: readonly string[];
}

/** Where the metadata of a resource is: the well-known path before its own (RFC 9728 section 3.1). */
export function metadataUrl(resourceUrl: string): string {
  const { origin, pathname } = new URL(resourceUrl);
  return origin + WELL_KNOWN + (pathname === "/" ? "" : pathname);
}

/**
 * The paths under which the metadata is served: the one that is advertised, the one at the root that clients try
 * when they have only a host, and the one behind the resource's path that clients of the reference know.
 */
export function metadataPaths(resourceUrl: string): ReadonlySet<string> {
  const { pathname } = new URL(resourceUrl);
  const path = pathname.replace(/\/$/, "");
  return new Set([WELL_KNOWN, WELL_KNOWN + pathname, WELL_KNOWN + path, path + WELL_KNOWN]);
}

/** Answers a request for the metadata (RFC 9728 section 2), which is public: browsers of any origin may read it. */
export function respondToMetadata(method: string, resource: ProtectedResource): Response {
  const response = answer(method, resource);
  response.headers.set("access-control-allow-origin", "*");
  response.headers.set("access-control-allow-methods", METHODS.join(", "));
  // The version header is what MCP clients send along; the browser asks for leave to.
  response.headers.set("access-control-allow-headers", "Content-Type, MCP-Protocol-Version");
  return response;
}

function answer(method: string, { resourceUrl, issuer, scopes }: ProtectedResource): Response {
  switch (method) {
    case "GET":
      return Response.json({
        resource: resourceUrl,
        authorization_servers: [issuer],
        ...(scopes.length === 0 ? {} : { scopes_supported: scopes }),
        bearer_methods_supported: ["header"],
        resource_name: "gateway (MCP)",
      });
    case "OPTIONS":
      return new Response(null, { status: 204 });
    default:
      return refuseMethod(METHODS, "Method not allowed");
  }
}
