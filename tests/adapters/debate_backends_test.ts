import assert from "node:assert/strict";
import { realTools } from "./debate_tools_fixture.ts";

/** A server as strict about requests as the real ones. */
function serve(handler: (request: Request, url: URL) => Response | Promise<Response>) {
  const server = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen: () => {} },
    (request) => handler(request, new URL(request.url)),
  );
  return { url: `http://127.0.0.1:${server.addr.port}`, [Symbol.asyncDispose]: () => server.shutdown() };
}

Deno.test("query_loki over the network, against the form of Loki's API", async () => {
  await using server = serve((request, url) => {
    if (request.method !== "GET" || url.pathname !== "/loki/api/v1/query_range") {
      return new Response("404 page not found", { status: 404 });
    }
    const { query = "", start = "", end = "", limit = "" } = Object.fromEntries(url.searchParams);
    if (
      !/^\d{19}$/.test(start) || !/^\d{19}$/.test(end) || BigInt(start) >= BigInt(end) || !/^\d+$/.test(limit)
    ) {
      return new Response("end timestamp must not be before or equal to start time", { status: 400 });
    }
    if (!query.startsWith("{")) {
      return new Response("parse error at line 1, col 1: syntax error", { status: 400 });
    }
    const values = Array.from(
      { length: Number(limit) },
      (_, at) => [String(BigInt(end) - BigInt(at)), `line ${at}`],
    );
    return Response.json({
      status: "success",
      data: { resultType: "streams", result: [{ stream: { app: "web" }, values }], stats: {} },
    });
  });
  const call = await realTools({ settings: { LOKI_URL: server.url } });
  const { ok, text } = await call("query_loki", { query: '{app="web"} |= "a b&c"', limit: 2 });
  assert.equal(ok, true, text);
  assert.match(text, /\n\{app="web"\}\n {2}\d{4}-.*Z line 0\n {2}\d{4}-.*Z line 1$/);
  const wrong = await call("query_loki", { query: "app" });
  assert.equal(wrong.ok, false);
  assert.match(wrong.text, /answered 400: parse error/);
});

Deno.test("query_elasticsearch over the network, against the form of Elasticsearch's API", async () => {
  await using server = serve(async (request, url) => {
    if (request.headers.get("authorization") !== `Basic ${btoa("elastic:pw")}`) {
      return Response.json({ error: "missing" }, { status: 401 });
    }
    const [, index, action] = url.pathname.split("/");
    if (request.method !== "POST" || action !== "_search") {
      return Response.json({ error: "no handler" }, { status: 405 });
    }
    if (request.headers.get("content-type") !== "application/json") {
      return Response.json({ error: "406" }, { status: 406 });
    }
    if (index !== "logs-*") {
      return Response.json({ error: { type: "index_not_found_exception" }, status: 404 }, { status: 404 });
    }
    const { size } = await request.json() as { size: number };
    const hits = Array.from(
      { length: Math.min(size, 3) },
      (_, at) => ({ _index: "logs-1", _id: String(at), _score: 1, _source: { at } }),
    );
    return Response.json({
      took: 1,
      timed_out: false,
      _shards: {},
      hits: { total: { value: 3, relation: "eq" }, max_score: 1, hits },
    });
  });
  const call = await realTools({
    settings: { ELASTICSEARCH_URL: server.url.replace("//", "//elastic:pw@") },
  });
  const { ok, text } = await call("query_elasticsearch", { index: "logs-*", query_json: "{}", size: 2 });
  assert.equal(ok, true, text);
  assert.match(text, /: 3 hits, 2 shown .*\nlogs-1 \{"at":0\}\nlogs-1 \{"at":1\}$/);
  assert.match(
    (await call("query_elasticsearch", { index: "other", query_json: "{}" })).text,
    /answered 404: .*index_not_found/,
  );
});

Deno.test("a backend that answers without end is a failure, not a full memory", async () => {
  await using server = serve(() =>
    new Response(
      new ReadableStream({ pull: (controller) => controller.enqueue(new Uint8Array(65_536).fill(0x20)) }),
    )
  );
  const call = await realTools({ settings: { PROMETHEUS_URL: server.url } });
  const { ok, text } = await call("query_prometheus", { query: "up" });
  assert.equal(ok, false);
  assert.match(text, /larger than 4194304 bytes/);
});
