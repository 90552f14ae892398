import type { ShownRecord } from "./record.ts";
import type { ApiEvent } from "./api_event.ts";

/** What one of our records says a token was issued for. */
export interface RecordedToken {
  readonly jti: string;
  readonly verb: string;
  readonly resource: string;
  readonly group: string;
  /** Empty for none. */
  readonly namespace: string;
  /** Empty for none. */
  readonly name: string;
  /** Nothing was issued to anybody: it is for the signer, which looks at what an apply would change. */
  readonly isForPreview: boolean;
}

/**
 * The signer's own fields, at the beginning: what follows is text from outside, which may look the same. Old records
 * have the token's ID here instead of in `ext`.
 */
const FIELDS =
  /^target=k8s verb=(?<verb>\S+) resource=(?<resource>\S+) ns=(?<ns>\S+) name=(?<name>\S+)(?: user=\S+)?(?: jti=(?<old>\S+))?(?= |$)/;

/** The token that a record of the signer tells of; undefined where none was issued. */
export function readToken(
  { target_type, command, outcome, ...record }: Pick<
    ShownRecord,
    "target_type" | "command" | "outcome" | "jti"
  >,
): RecordedToken | undefined {
  // Of a host, the command may be anything.
  if (target_type !== "k8s") return undefined;
  const fields = FIELDS.exec(command)?.groups;
  const jti = record.jti || fields?.["old"];
  if (fields === undefined || !jti) return undefined;
  const { verb = "", resource: whole = "", ns = "", name = "" } = fields;
  const [resource = "", ...group] = whole.split(".");
  // Of an apply that waits for a human, and of a dry run.
  const isForPreview = outcome !== "issued";
  return {
    jti,
    verb,
    resource,
    group: group.join("."),
    namespace: orNone(ns),
    name: orNone(name),
    isForPreview,
  };
}

/** Whether a request is what a token was issued for, and nothing beyond that. */
export function isWithin(token: RecordedToken, { verb, object, uri }: ApiEvent): boolean {
  const { asked, subresource = "" } = REQUESTS[token.verb] ?? {};
  return object !== undefined &&
    (token.isForPreview ? isPreview(verb, uri) : verb === asked) &&
    object.subresource === subresource &&
    object.resource === token.resource &&
    object.group === token.group &&
    object.namespace === token.namespace &&
    object.name === token.name;
}

/** An action as the API server names it. */
const REQUESTS: Readonly<Record<string, { readonly asked: string; readonly subresource?: string }>> = {
  get: { asked: "get" },
  list: { asked: "list" },
  logs: { asked: "get", subresource: "log" },
  apply: { asked: "patch" },
  delete: { asked: "delete" },
};

/** Whether a request reads, or applies without effect. */
function isPreview(verb: string, uri: string): boolean {
  if (verb === "get") return true;
  const query = URL.parse(uri, "https://api")?.searchParams;
  return verb === "patch" && query?.getAll("dryRun").join() === "All";
}

function orNone(text: string): string {
  return text === "-" ? "" : text;
}
