import * as z from "@zod/zod";
import { askBackend } from "./backend.ts";
import { defineTool, refuse, timeoutArgument, type ToolServices } from "./define_tool.ts";
import type { HttpPorts } from "./http_fetch.ts";
import type { Tool } from "../engine/ports.ts";
import { isObject, parseJson } from "../engine/graph/json_objects.ts";

export const MAX_HITS = 50;

const schema = z.strictObject({
  index: z.string().min(1).max(1024).describe("index, or several separated by commas; * is a wildcard"),
  query_json: z.string().describe("the body of _search as JSON text: query, sort, aggs, _source, ..."),
  base_url: z.string().max(2048).default("").describe("leave out: only the configured server is asked"),
  size: z.int().min(0).default(20).describe(`number of hits, at most ${MAX_HITS}`),
  timeout: timeoutArgument(15),
});

const answerShape = z.object({
  timed_out: z.boolean().optional(),
  hits: z.object({
    total: z.union([z.number(), z.object({ value: z.number(), relation: z.string() })]).optional(),
    hits: z.array(
      z.object({
        _index: z.string().optional(),
        _source: z.unknown().optional(),
        fields: z.unknown().optional(),
      }),
    ),
  }),
  aggregations: z.unknown().optional(),
});

export function createQueryElasticsearch(baseUrl: string, ports: HttpPorts, services: ToolServices): Tool {
  const backend = { what: "Elasticsearch", setting: "ELASTICSEARCH_URL", baseUrl };
  return defineTool({
    name: "query_elasticsearch",
    description:
      "Searches an Elasticsearch index, read-only, without scripts. Shows the source of each hit, then aggregations.",
    schema,
    async run({ index, query_json: text, base_url: requestedUrl, size }, { signal, seconds }) {
      checkIndex(index);
      const json = await askBackend(backend, {
        path: `/${index.split(",").map(encodeURIComponent).join(",")}/_search`,
        body: { ...checkSearchBody(text, size), timeout: `${Math.ceil(seconds)}s` },
        requestedUrl,
        signal,
      }, ports);
      const answer = answerShape.safeParse(json);
      if (!answer.success) return refuse("Elasticsearch answered in an unknown form");
      const { timed_out: isPartial = false, hits, aggregations } = answer.data;
      return {
        ok: true,
        title: `search ${index}: ${formatTotal(hits.total)}, ${hits.hits.length} shown`,
        body: [
          ...(isPartial ? ["(timed out: partial result)"] : []),
          ...hits.hits.map(({ _index, _source, fields }) =>
            `${_index ?? ""} ${JSON.stringify(_source ?? fields ?? null)}`
          ),
          ...(hits.hits.length === 0 ? ["(no hits)"] : []),
          ...(aggregations === undefined ? [] : [`aggregations: ${JSON.stringify(aggregations, null, 1)}`]),
        ].join("\n"),
      };
    },
  }, services);
}

function formatTotal(total: z.infer<typeof answerShape>["hits"]["total"]): string {
  if (total === undefined) return "hits not counted";
  if (typeof total === "number") return `${total} hits`;
  return `${total.relation === "gte" ? "at least " : ""}${total.value} hits`;
}

/** Only searches of the named index pass: no scripts, and no reading of other indexes. */

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
export function checkSearchBody(text: string, size: number): Readonly<Record<string, unknown>> {
  if (text.length > MAX_BODY) refuse(`query_json is longer than ${MAX_BODY} characters`);
  const body = parseJson(text);
  if (body === undefined) refuse("query_json is not valid JSON");
  if (!isObject(body)) return refuse("query_json must be a JSON object, the body of _search");
  const unknown = Object.keys(body).find((key) => !TOP_LEVEL.includes(key));
  if (unknown !== undefined) {
    refuse(`query_json may not have ${JSON.stringify(unknown)}, only ${TOP_LEVEL.join(", ")}`);
  }
  refuseForbidden(body, MAX_DEPTH);
  const own = typeof body.size === "number" && Number.isInteger(body.size) && body.size >= 0
    ? body.size
    : size;
  return { ...body, size: Math.min(own, MAX_HITS) };
}

export function checkIndex(index: string): void {
  const parts = index.split(",");
  if (parts.length <= 20 && parts.every((part) => /^[a-z0-9*][a-z0-9*._-]{0,254}$/.test(part))) return;
  return refuse(
    "index must be names of lower-case letters, digits, * . _ - that start with a letter, a digit or *",
  );
}

function refuseForbidden(value: unknown, depth: number): void {
  if (typeof value !== "object" || value === null) return;
  if (depth === 0) refuse(`query_json nests deeper than ${MAX_DEPTH} levels`);
  if (!Array.isArray(value) && "index" in value && ("id" in value || "path" in value)) {
    refuse("query_json may not look up documents of another index");
  }
  for (const [key, member] of Object.entries(value)) {
    if (!Array.isArray(value) && FORBIDDEN.test(key)) {
      refuse(`query_json may not have ${JSON.stringify(key)}`);
    }
    refuseForbidden(member, depth - 1);
  }
}
