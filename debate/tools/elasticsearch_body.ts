/**
 * The part of Elasticsearch's query language that a model may use: searching the named index, but nothing that
 * runs a script or reads another index on the way.
 *
 * @module
 */
import { parseStandardJson } from "@gateway/shared/json";

/** A search body that may be sent, or the reason for a refusal. */
type CheckedBody =
  | { readonly kind: "body"; readonly body: Readonly<Record<string, unknown>> }
  | { readonly kind: "refused"; readonly reason: string };

export const MAX_HITS = 50;
const MAX_BODY = 50_000;
const MAX_DEPTH = 40;

const TOP_LEVEL = [
  "query",
  "post_filter",
  "sort",
  "from",
  "size",
  "aggs",
  "aggregations",
  "_source",
  "fields",
  "docvalue_fields",
  "collapse",
  "min_score",
  "search_after",
  "track_total_hits",
];

const FORBIDDEN = /script|^runtime_mappings$|^_index$|^indexed_shape$|^percolate$/i;

/**
 * Reads and checks a search body. The number of hits is `size`, unless the body has its own, and never more
 * than {@linkcode MAX_HITS}.
 */
export function checkSearchBody(text: string, size: number): CheckedBody {
  if (text.length > MAX_BODY) return refused(`query_json is longer than ${MAX_BODY} characters`);
  let body: unknown;
  try {
    body = parseStandardJson(text);
  } catch {
    return refused("query_json is not valid JSON");
  }
  if (!isObject(body)) return refused("query_json must be a JSON object, the body of _search");
  const unknown = Object.keys(body).find((key) => !TOP_LEVEL.includes(key));
  if (unknown !== undefined) {
    return refused(`query_json may not have ${JSON.stringify(unknown)}, only ${TOP_LEVEL.join(", ")}`);
  }
  const problem = findForbidden(body, MAX_DEPTH);
  if (problem !== undefined) return refused(problem);
  const own = typeof body.size === "number" && Number.isInteger(body.size) && body.size >= 0
    ? body.size
    : size;
  return { kind: "body", body: { ...body, size: Math.min(own, MAX_HITS) } };
}

/**
 * The reason why an index may not be searched, if any. Wildcards are allowed, hidden and remote indices are
 * not.
 */
export function checkIndex(index: string): string | undefined {
  const parts = index.split(",");
  const isFine = parts.length <= 20 && parts.every((part) => /^[a-z0-9*][a-z0-9*._-]{0,254}$/.test(part));
  if (!isFine) {
    return "index must be names of lower-case letters, digits, * . _ - that start with a letter, a digit or *";
  }
  return undefined;
}

function findForbidden(value: unknown, depth: number): string | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (depth === 0) return `query_json nests deeper than ${MAX_DEPTH} levels`;
  // A lookup takes terms or shapes from a document of another index.
  if (!Array.isArray(value) && "index" in value && ("id" in value || "path" in value)) {
    return "query_json may not look up documents of another index";
  }
  for (const [key, member] of Object.entries(value)) {
    if (!Array.isArray(value) && FORBIDDEN.test(key)) return `query_json may not have ${JSON.stringify(key)}`;
    const problem = findForbidden(member, depth - 1);
    if (problem !== undefined) return problem;
  }
  return undefined;
}

function refused(reason: string): CheckedBody {
  return { kind: "refused", reason };
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
