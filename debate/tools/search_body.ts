/** Checks the index names and the body of an Elasticsearch search. */
import { isObject, parseJson } from "../engine/graph/text.ts";
import { refuse } from "./run_program.ts";

export const MAX_HITS = 50;
const MAX_BODY = 50_000;
const MAX_DEPTH = 40;

/**
 * A search can neither run scripts nor read other indexes. Only listed types of queries and aggregations are allowed,
 * and another query can only be where this table expects one: a `wrapper` query, for example, would hide its content.
 */
type Shape = "query" | "queries" | "aggregations" | "values" | "sort";
type Members = Readonly<Record<string, Shape>>;

const VALUES = "from size min_score search_after track_total_hits _source fields docvalue_fields collapse";
const TOP_LEVEL: Members = {
  ...members("query", "query post_filter"),
  ...members("aggregations", "aggs aggregations"),
  ...members("values", VALUES),
  sort: "sort",
};
/** The types by name, with their members; `undefined` if all members are values. */
type Types = Readonly<Record<string, Members | undefined>>;

const QUERIES: Types = {
  ...types(
    "match match_phrase match_phrase_prefix match_bool_prefix multi_match combined_fields query_string",
    "simple_query_string term terms range exists prefix wildcard regexp fuzzy ids match_all match_none",
  ),
  bool: {
    ...members("query", "must should filter must_not"),
    ...members("values", "minimum_should_match boost"),
  },
  constant_score: { filter: "query", boost: "values" },
  dis_max: { queries: "query", ...members("values", "tie_breaker boost") },
  boosting: { ...members("query", "positive negative"), ...members("values", "negative_boost boost") },
  nested: { query: "query", ...members("values", "path score_mode ignore_unmapped") },
};
const AGGREGATIONS: Types = {
  ...types(
    "terms rare_terms histogram date_histogram auto_date_histogram range date_range ip_range missing nested",
    "reverse_nested sampler avg sum min max value_count cardinality stats extended_stats percentiles percentile_ranks",
    "derivative cumulative_sum avg_bucket max_bucket min_bucket sum_bucket stats_bucket serial_diff",
  ),
  filters: { filters: "queries", ...members("values", "other_bucket other_bucket_key") },
  top_hits: { sort: "sort", ...members("values", "size from _source") },
};

function members(shape: Shape, names: string): Members {
  return Object.fromEntries(names.split(" ").map((name) => [name, shape]));
}

function types(...names: readonly string[]): Types {
  return Object.fromEntries(names.join(" ").split(" ").map((name) => [name, undefined]));
}

const FORBIDDEN = /script|^runtime_mappings$|^_index$|^indexed_shape$|^percolate$/i;

/** Checks a search body. A `size` in the body replaces the argument; {@linkcode MAX_HITS} is the limit of both. */
export function checkSearchBody(text: string, size: number): Readonly<Record<string, unknown>> {
  if (text.length > MAX_BODY) refuse(`query_json is longer than ${MAX_BODY} characters`);
  const body = parseJson(text);
  if (body === undefined) refuse("query_json is not valid JSON");
  if (!isObject(body)) return refuse("query_json must be a JSON object, the body of _search");
  refuseForbidden(body, MAX_DEPTH);
  checkMembers("query_json", body, TOP_LEVEL);
  const { size: own } = body;
  const wanted = typeof own === "number" && Number.isInteger(own) && own >= 0 ? own : size;
  return { ...body, size: Math.min(wanted, MAX_HITS) };
}

export function checkIndex(index: string): void {
  const parts = index.split(",");
  if (parts.length <= 20 && parts.every((part) => /^[a-z0-9*][a-z0-9*._-]{0,254}$/.test(part))) return;
  return refuse("index names have lower-case letters, digits, * . _ - and start with a letter, digit or *");
}

function refuseForbidden(value: unknown, depth: number): void {
  if (typeof value !== "object" || value === null) return;
  if (depth === 0) refuse(`query_json nests deeper than ${MAX_DEPTH} levels`);
  if (!Array.isArray(value) && "index" in value && ("id" in value || "path" in value)) {
    refuse("query_json must not look up documents of another index");
  }
  for (const [key, member] of Object.entries(value)) {
    if (!Array.isArray(value) && FORBIDDEN.test(key)) {
      refuse(`query_json must not contain ${JSON.stringify(key)}`);
    }
    refuseForbidden(member, depth - 1);
  }
}

function checkMembers(where: string, value: unknown, allowed: Members | undefined): void {
  if (!isObject(value)) return refuse(`${where} must be a JSON object`);
  for (const [name, member] of Object.entries(value)) {
    if (allowed === undefined) checkValues(where, member, 1);
    else checkMember(`${where}.${name}`, member, lookUp(allowed, name, where));
  }
}

function checkMember(where: string, value: unknown, shape: Shape | undefined): void {
  switch (shape) {
    case "query":
      for (const query of Array.isArray(value) ? value : [value]) checkType(where, query, QUERIES);
      return;
    case "queries":
      if (!isObject(value) && !Array.isArray(value)) return refuse(`${where} must contain queries`);
      for (const query of Object.values(value)) checkType(where, query, QUERIES);
      return;
    case "aggregations":
      if (!isObject(value)) return refuse(`${where} must be a JSON object`);
      for (const one of Object.values(value)) checkAggregation(where, one);
      return;
    case "sort":
      return checkValues(where, value, 2);
    case "values":
    case undefined:
      return checkValues(where, value, 1);
    default:
      return shape satisfies never;
  }
}

function checkAggregation(where: string, value: unknown): void {
  if (!isObject(value)) return refuse(`${where} must contain JSON objects`);
  const { aggs = {}, aggregations = {}, filter, ...rest } = value;
  checkMember(where, aggs, "aggregations");
  checkMember(where, aggregations, "aggregations");
  if (filter === undefined) return checkType(where, rest, AGGREGATIONS);
  checkMember(`${where}.filter`, filter, "query");
  if (Object.keys(rest).length > 0) refuse(`${where} must have one type of aggregation`);
}

function checkType(where: string, value: unknown, allowed: Types): void {
  const entries = isObject(value) ? Object.entries(value) : [];
  const [[type, content] = ["", undefined], ...others] = entries;
  if (others.length > 0 || entries.length === 0) {
    return refuse(`${where} must be a JSON object with one type`);
  }
  checkMembers(`${where}.${type}`, content, lookUp(allowed, type, where));
}

function lookUp<T>(allowed: Readonly<Record<string, T>>, name: string, where: string): T | undefined {
  if (Object.hasOwn(allowed, name)) return allowed[name];
  return refuse(`${where} must not contain ${JSON.stringify(name)}, only ${Object.keys(allowed).join(", ")}`);
}

/** Values without queries in them: an object can only have as many levels as the options of a type have. */
function checkValues(where: string, value: unknown, levels: number): void {
  if (typeof value !== "object" || value === null) return;
  if (!Array.isArray(value) && levels === 0) refuse(`${where} must not contain further JSON objects`);
  for (const member of Object.values(value)) {
    checkValues(where, member, Array.isArray(value) ? levels : levels - 1);
  }
}
