import type { ApiTarget } from "./request.ts";
import { apiVersionOf, type Resource } from "./resources.ts";
import { parseFieldSelector, parseLabelSelector } from "./selectors.ts";
import { ApiFailure, badRequest } from "./status.ts";
import type { Store, StoredObject } from "./store.ts";

export interface ListRequest {
  readonly target: ApiTarget;
  readonly resource: Resource;
  readonly query: URLSearchParams;
}

/** A list, or the requested part of it. */
export function listObjects(store: Store, { resource: type, target, query }: ListRequest): unknown {
  const limit = parseLimit(query.get("limit"));
  const continued = query.get("continue") ?? "";
  const from = continued === "" ? undefined : parseContinue(continued);
  const labels = parseLabelSelector(query.get("labelSelector") ?? "");
  const fields = parseFieldSelector(type.plural, query.get("fieldSelector") ?? "");
  const version = from?.rv ?? store.version;
  const all = from === undefined ? store.list(type, target.namespace) : store.keptList(from.rv);
  if (all === undefined) {
    throw new ApiFailure(
      410,
      "Expired",
      "The provided continue parameter is too old to display a consistent list result.",
    );
  }
  const rest = all.filter((object) => from === undefined || placeOf(object) > from.start);
  const matching = rest.filter((object) => labels(object) && fields(object));
  const items = limit > 0 ? matching.slice(0, limit) : matching;
  const last = items.at(-1);
  const isCut = items.length < matching.length && last !== undefined;
  if (isCut) store.keepList(version, all);
  const isChosen = (query.get("labelSelector") ?? "") !== "" || (query.get("fieldSelector") ?? "") !== "";
  // For custom resources, the field is present and empty after the last part.
  const noMore = type.fields === undefined ? { continue: "" } : {};
  return {
    kind: `${type.kind}List`,
    apiVersion: apiVersionOf(type),
    metadata: {
      resourceVersion: String(version),
      ...(isCut ? { continue: encodeContinue({ rv: version, start: placeOf(last) }) } : noMore),
      ...(isCut && !isChosen ? { remainingItemCount: matching.length - items.length } : {}),
    },
    // For resources with a schema, the server omits the kind of each item.
    items: type.fields === undefined ? items : items.map(({ apiVersion: _, kind: __, ...item }) => item),
  };
}

function parseLimit(text: string | null): number {
  if (text === null) return 0;
  if (!/^-?\d+$/.test(text)) throw badRequest(`strconv.ParseInt: parsing "${text}": invalid syntax`);
  return Number(text);
}

/** The position of an object in a list. */
function placeOf({ metadata }: StoredObject): string {
  return `${metadata.namespace ?? ""}/${metadata.name}`;
}

function encodeContinue(place: { readonly rv: number; readonly start: string }): string {
  return new TextEncoder().encode(JSON.stringify({ v: "meta.k8s.io/v1", ...place })).toBase64({
    alphabet: "base64url",
    omitPadding: true,
  });
}

function parseContinue(text: string): { readonly rv: number; readonly start: string } {
  try {
    return JSON.parse(new TextDecoder().decode(Uint8Array.fromBase64(text, { alphabet: "base64url" })));
  } catch {
    throw badRequest("invalid continue token: continue key is not valid");
  }
}
