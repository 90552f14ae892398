/**
 * `query_elasticsearch`: only searches.
 *
 * @module
 */
import * as z from "@zod/zod";
import { askBackend } from "./backend.ts";
import { defineTool, timeoutArgument, ToolFailure, type ToolServices } from "./define_tool.ts";
import { checkIndex, checkSearchBody, MAX_HITS } from "./elasticsearch_body.ts";
import type { HttpPorts } from "./http_fetch.ts";
import type { Tool } from "../engine/tool.ts";

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

/** The tool; with an empty `baseUrl` it is not configured. */
export function createQueryElasticsearch(baseUrl: string, ports: HttpPorts, services: ToolServices): Tool {
  const backend = { what: "Elasticsearch", setting: "ELASTICSEARCH_URL", baseUrl };
  return defineTool({
    name: "query_elasticsearch",
    description:
      "Searches an Elasticsearch index, read-only, without scripts. Shows the source of each hit, then aggregations.",
    schema,
    async run({ index, query_json: text, base_url: requestedUrl, size }, { signal, seconds }) {
      const problem = checkIndex(index);
      if (problem !== undefined) throw new ToolFailure(problem);
      const checked = checkSearchBody(text, size);
      if (checked.kind === "refused") throw new ToolFailure(checked.reason);
      const json = await askBackend(backend, {
        path: `/${index.split(",").map(encodeURIComponent).join(",")}/_search`,
        body: { ...checked.body, timeout: `${Math.ceil(seconds)}s` },
        requestedUrl,
        signal,
      }, ports);
      const answer = answerShape.safeParse(json);
      if (!answer.success) throw new ToolFailure("Elasticsearch answered in an unknown form");
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
