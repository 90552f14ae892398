import * as z from "@zod/zod";
import { parseJson } from "@gateway/shared/json";

/** What a Kubernetes API server wrote of one request into its audit log (`audit.k8s.io/v1`, `Event`). */
export interface ApiEvent {
  /** The request's; the stages of one request share it. */
  readonly auditId: string;
  /** When the request came: RFC 3339. */
  readonly time: string;
  readonly verb: string;
  readonly uri: string;
  /** Who asked: `system:serviceaccount:<namespace>:<name>` for a token of a ServiceAccount. */
  readonly user: string;
  /** As whom, where that was another one. */
  readonly impersonated: string | undefined;
  /** The id of the token that was used. */
  readonly jti: string | undefined;
  /** The id of the token that was issued. */
  readonly issuedJti: string | undefined;
  readonly object: ApiObject | undefined;
  /** The HTTP status; undefined while there is none. */
  readonly status: number | undefined;
  readonly addresses: readonly string[];
}

export interface ApiObject {
  readonly group: string;
  readonly resource: string;
  readonly subresource: string;
  readonly namespace: string;
  readonly name: string;
}

/** What a line of the log is to a search for tokens. */
type ApiLine =
  | { readonly kind: "event"; readonly event: ApiEvent }
  /** A request that no token of a ServiceAccount has to do with. */
  | { readonly kind: "other" }
  | { readonly kind: "malformed" };

const CREDENTIAL = "authentication.kubernetes.io/credential-id";
const ISSUED = "authentication.kubernetes.io/issued-credential-id";
const VERSION = '"audit.k8s.io/';

const text = z.string().default("");
const user = z.object({ username: text, extra: z.record(z.string(), z.array(z.string())).nullish() });

const objectRef = z.object({ apiGroup: text, resource: text, subresource: text, namespace: text, name: text })
  .transform(({ apiGroup: group, ...rest }): ApiObject => ({ group, ...rest }));

const apiEvent = z.object({
  auditID: z.string(),
  verb: text,
  requestURI: text,
  requestReceivedTimestamp: text,
  user,
  impersonatedUser: user.nullish(),
  objectRef: objectRef.nullish(),
  responseStatus: z.object({ code: z.int().optional() }).nullish(),
  annotations: z.record(z.string(), z.string()).nullish(),
  sourceIPs: z.array(z.string()).nullish(),
});

/** Reads a line without its newline. Only what names a ServiceAccount is taken apart: such logs are large. */
export function readApiLine(line: string): ApiLine {
  if (!line.startsWith("{") || !line.trimEnd().endsWith("}") || !line.includes(VERSION)) {
    return { kind: "malformed" };
  }
  if (!line.includes('"system:serviceaccount:') && !line.includes(ISSUED)) return { kind: "other" };
  const { data } = apiEvent.safeParse(parse(line));
  if (data === undefined) return { kind: "malformed" };
  const { objectRef: object } = data;
  const event = {
    auditId: data.auditID,
    time: data.requestReceivedTimestamp,
    verb: data.verb,
    uri: data.requestURI,
    user: data.user.username,
    impersonated: data.impersonatedUser?.username,
    jti: tokenId(data.user.extra?.[CREDENTIAL]?.[0]),
    issuedJti: tokenId(data.annotations?.[ISSUED]),
    object: object ?? undefined,
    status: data.responseStatus?.code,
    addresses: data.sourceIPs ?? [],
  };
  return { kind: "event", event };
}

function parse(line: string): unknown {
  try {
    return parseJson(line);
  } catch {
    return undefined;
  }
}

/** The id in `JTI=<id>`; another kind of credential has none. */
function tokenId(credential: string | undefined): string | undefined {
  return credential?.startsWith("JTI=") === true ? credential.slice("JTI=".length) : undefined;
}
