import type { ShownRecord } from "../audit/record.ts";
import type { ApiEvent } from "./api_event.ts";

/** What one of our records says a token was issued for. */
export interface RecordedToken {
  /** The id of the token. */
  readonly jti: string;
  readonly verb: string;
  readonly resource: string;
  readonly group: string;
  /** Empty for none. */
  readonly namespace: string;
  /** Empty for none. */
  readonly name: string;
}

/** The fields of the signer's own, at the beginning: what follows are words from outside, which may look the same. */
const FIELDS =
  /^target=k8s verb=(?<verb>\S+) resource=(?<resource>\S+) ns=(?<ns>\S+) name=(?<name>\S+)(?: user=\S+)? jti=(?<jti>\S+)(?= |$)/;

/** The token that a record of the signer tells of; undefined where none was issued. */
export function readToken(
  { target_type, command }: Pick<ShownRecord, "target_type" | "command">,
): RecordedToken | undefined {
  // Of a host, the command may be anything.
  if (target_type !== "k8s") return undefined;
  const { verb = "", resource: whole = "", ns = "", name = "", jti = "" } = FIELDS.exec(command)?.groups ??
    {};
  if (jti === "") return undefined;
  const [resource = "", ...group] = whole.split(".");
  return { jti, verb, resource, group: group.join("."), namespace: orNone(ns), name: orNone(name) };
}

/** Whether a request is what a token was issued for, and nothing beyond that. */
export function isWithin(token: RecordedToken, { verb, object }: ApiEvent): boolean {
  const { verbs, subresource } = REQUESTS[token.verb] ?? { verbs: [], subresource: "" };
  return object !== undefined &&
    verbs.includes(verb) &&
    object.subresource === subresource &&
    object.resource === token.resource &&
    object.group === token.group &&
    object.namespace === token.namespace &&
    object.name === token.name;
}

/** An action as the API server names it. Before an apply is approved the signer looks at what it would change. */
const REQUESTS: Readonly<
  Record<string, { readonly verbs: readonly string[]; readonly subresource: string }>
> = {
  get: { verbs: ["get"], subresource: "" },
  list: { verbs: ["list"], subresource: "" },
  logs: { verbs: ["get"], subresource: "log" },
  apply: { verbs: ["patch", "get"], subresource: "" },
  delete: { verbs: ["delete"], subresource: "" },
};

function orNone(text: string): string {
  return text === "-" ? "" : text;
}
