import * as z from "@zod/zod";
import { dropPartialWord } from "../engine/graph/text.ts";
import { defineTool, needsSetting, timeoutArgument } from "./define_tool.ts";
import { refuse } from "./run_program.ts";
import { askBackend, fetchGuarded, parseHttpUrl } from "./http_fetch.ts";
import { isApprovable } from "./net_guard.ts";
import { checkIndex, checkSearchBody, MAX_HITS } from "./search_body.ts";

const MAX_BODY_BYTES = 256 * 1024;

const TEXT_TYPE =
  /^(?:text\/|application\/(?:[\w.-]+\+)?(?:json|xml|yaml)\b|application\/(?:x-ndjson|javascript|openmetrics-text|problem\+json|x-yaml))/i;

export const httpGet = defineTool({
  name: "http_get",
  description:
    "Send one HTTP GET request, for example to a health endpoint. Returns status, content type and text. " +
    "The operator must have allowed the host. A call of another public host may wait for approval.",
  schema: z.strictObject({
    url: z.string().max(4096).describe("http: or https: URL, without credentials"),
    timeout: timeoutArgument(10),
  }),
  needOf({ url: asked }, { allowed }) {
    const { hostname, port, protocol } = parseHttpUrl(asked);
    if (!isApprovable(hostname, allowed)) return undefined;
    return `${hostname}:${port || (protocol === "https:" ? "443" : "80")} is not in HTTP_ALLOWED_HOSTS`;
  },
  missing({ settings: { HTTP_ALLOWED_HOSTS: hosts, TOOL_APPROVAL_REQUIRED } }) {
    return hosts.length > 0 || TOOL_APPROVAL_REQUIRED ? undefined : "HTTP_ALLOWED_HOSTS is not set";
  },
  async run({ url: asked }, call) {
    const start = parseHttpUrl(asked);
    const answer = await fetchGuarded(start, { method: "GET", maxBytes: MAX_BODY_BYTES }, call);
    const { url, status, statusText, headers, body, isCut } = answer;
    const type = headers["content-type"] ?? "";
    const encoding = headers["content-encoding"] ?? "identity";
    if (encoding !== "identity") {
      // Do not decompress a response, because a small one can expand to gigabytes.
      refuse(`${start.host} responded ${status} with a compressed body (${encoding}), which is not shown`);
    }
    const isText = (type === "" || TEXT_TYPE.test(type)) && !body.subarray(0, 8192).includes(0);
    const text = new TextDecoder().decode(body);
    const lines = [
      ...(url.href === start.href ? [] : [`final URL: ${url.href}`]),
      `content-type: ${type === "" ? "none" : type}`,
      ...(isCut ? [`truncated after ${MAX_BODY_BYTES} bytes`] : []),
      "",
      !isText ? `(${body.length} bytes of binary data, not shown)` : isCut ? dropPartialWord(text) : text,
    ];
    // A status of 500 is a valid result, because it shows the state of the service.
    return { ok: true, title: `GET ${start.href}: ${status} ${statusText}`, body: lines.join("\n") };
  },
});

const elasticsearchAnswer = z.object({
  timed_out: z.boolean().optional(),
  hits: z.object({
    total: z.union([z.number(), z.object({ value: z.number(), relation: z.string() })]).optional(),
    hits: z.array(z.object({
      _index: z.string().optional(),
      _source: z.unknown().optional(),
      fields: z.unknown().optional(),
    })),
  }),
  aggregations: z.unknown().optional(),
});

export const queryElasticsearch = defineTool({
  name: "query_elasticsearch",
  description:
    "Search an Elasticsearch index. Usual queries and aggregations are allowed, scripts are not. Returns the source " +
    "of each hit and the aggregations.",
  schema: z.strictObject({
    index: z.string().min(1).max(1024).describe("index names separated by commas; * is a wildcard"),
    query_json: z.string().describe("JSON body of the _search request: query, sort, aggs, _source, ..."),
    size: z.int().min(0).default(20).describe(`number of hits, at most ${MAX_HITS}`),
    timeout: timeoutArgument(15),
  }),
  missing: needsSetting("ELASTICSEARCH_URL"),
  async run({ index, query_json: text, size }, call) {
    checkIndex(index);
    const answer = await askBackend("Elasticsearch", elasticsearchAnswer, {
      path: `/${index.split(",").map(encodeURIComponent).join(",")}/_search`,
      body: { ...checkSearchBody(text, size), timeout: `${Math.ceil(call.seconds)}s` },
    }, call);
    const { timed_out, hits: { total, hits }, aggregations } = answer;
    return {
      ok: true,
      title: `search ${index}: ${formatTotal(total)}, ${hits.length} shown`,
      body: [
        ...(timed_out ? ["(timed out: partial result)"] : []),
        ...hits.map(({ _index, _source, fields }) =>
          `${_index ?? ""} ${JSON.stringify(_source ?? fields ?? null)}`
        ),
        ...(hits.length === 0 ? ["(no hits)"] : []),
        ...(aggregations === undefined ? [] : [`aggregations: ${JSON.stringify(aggregations, null, 1)}`]),
      ].join("\n"),
    };
  },
});

function formatTotal(total: z.infer<typeof elasticsearchAnswer>["hits"]["total"]): string {
  if (total === undefined) return "hits not counted";
  if (typeof total === "number") return `${total} hits`;
  return `${total.relation === "gte" ? "at least " : ""}${total.value} hits`;
}
