/** A request as RBAC and the audit log see it: an action on a resource. */
export interface ApiTarget {
  readonly group: string;
  readonly version: string;
  readonly plural: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
  readonly verb: string;
}

const VERBS: Readonly<Record<string, string>> = {
  POST: "create",
  PUT: "update",
  PATCH: "patch",
};

/** The target of a path; undefined for a non-resource path. */
export function parseTarget(method: string, url: URL): ApiTarget | undefined {
  // Decode percent signs before splitting the path, like the real server.
  const [root, ...rest] = decodeURIComponent(url.pathname).split("/").slice(1);
  if (root !== "api" && root !== "apis") return undefined;
  const group = root === "api" ? "" : rest.shift() ?? "";
  const version = rest.shift() ?? "";
  if (rest.length === 0 || rest[0] === "") return undefined;
  let namespace = "";
  if (rest[0] === "namespaces" && rest.length > 1) {
    namespace = rest[1] ?? "";
    if (rest.length > 2 && !["status", "finalize"].includes(rest[2] ?? "")) rest.splice(0, 2);
  }
  const [plural = "", name = "", subresource = ""] = rest;
  return { group, version, plural, subresource, namespace, name, verb: verbOf(method, url, name) };
}

function verbOf(method: string, url: URL, name: string): string {
  if (method === "GET" || method === "HEAD") {
    if (/^(?:1|true)$/.test(url.searchParams.get("watch") ?? "")) return "watch";
    return name === "" ? "list" : "get";
  }
  if (method === "DELETE") return name === "" ? "deletecollection" : "delete";
  return VERBS[method] ?? method.toLowerCase();
}
