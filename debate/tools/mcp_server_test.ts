import { hasInvisible } from "@gateway/shared/text";
import assert from "node:assert/strict";
import { openToolset } from "./catalogue.ts";
import type { HttpAnswer, HttpRequest } from "./define_tool.ts";
import { openMcpServers } from "./mcp_server.ts";
import { BARE_SETTINGS, call, FakePorts, jsonAnswer, textAnswer } from "./testing/tool_bench.ts";

const SCHEMA = { type: "object", properties: { server: { type: "string" } } };

type Answer = (method: string, params?: { readonly arguments: unknown }) => unknown;

/** The answers of a server, by method. A function that returns an {@linkcode HttpAnswer} replaces the whole response. */
function answering(answer: Answer) {
  return ({ method, body = "", url }: HttpRequest): HttpAnswer => {
    if (method === "DELETE") return textAnswer("");
    const { id, method: asked, params } = JSON.parse(body);
    const given = answer(asked, params);
    if (typeof given === "object" && given !== null && "statusText" in given) return given as HttpAnswer;
    if (id === undefined) return textAnswer("", { status: 202 });
    const result = asked === "initialize"
      ? {
        protocolVersion: params.protocolVersion,
        capabilities: { tools: {} },
        serverInfo: { name: "x", version: "1" },
      }
      : given;
    assert.equal(url.hostname, "mcp.test");
    return jsonAnswer({ jsonrpc: "2.0", id, result });
  };
}

const ONE: Answer = (method, params) =>
  method === "tools/list"
    ? {
      tools: [{ name: "run", description: "Runs", inputSchema: SCHEMA }, {
        name: "drop",
        inputSchema: SCHEMA,
      }],
    }
    : {
      content: [{ type: "text", text: `ran ${JSON.stringify(params?.arguments)} hunter2` }, {
        type: "image",
        data: "",
        mimeType: "x/y",
      }],
    };

const ENTRY = {
  url: "https://mcp.test/mcp",
  headers: { authorization: "Bearer ${MCP_TOKEN}" },
  tools: ["run"],
};

async function setUp(
  answer: FakePorts["answer"],
  entry: object = ENTRY,
  settings: Partial<typeof BARE_SETTINGS> = {},
) {
  const ports = Object.assign(new FakePorts(), {
    addresses: { "mcp.test": [["10.0.0.9"]], "idp.test": [["10.0.0.8"]] },
    answer,
  });
  const all = { ...BARE_SETTINGS, MCP_VARIABLES: { MCP_TOKEN: "hunter2hunter2" }, ...settings };
  const servers = openMcpServers(JSON.stringify({ mcpServers: { gw: entry } }), { settings: all, ports });
  const { tools, statuses } = await openToolset(all, ports, servers)();
  const own = statuses.filter(({ name }) => name.startsWith("gw__"));
  return { ports, own, why: own[0]?.why ?? "", tool: tools.find(({ name }) => name === "gw__run") };
}

Deno.test("an MCP server offers its listed tools, which need approval", async () => {
  const { ports, own, tool } = await setUp(answering(ONE), {
    ...ENTRY,
    type: "http",
    tools: ["run", "none"],
  });
  assert.deepEqual(own.map(({ name, why, needs_approval }) => [name, why, needs_approval]), [
    ["gw__run", null, true],
    ["gw__none", "the server has no such tool", true],
  ]);
  assert.deepEqual([tool?.description, tool?.parameters, tool?.needsApproval], [
    "Tool of the MCP server gw. Runs",
    SCHEMA,
    true,
  ]);
  const { ok, text } = await call(tool, { server: "web01" });
  assert.equal(ok, true, text);
  assert.match(text, /^gw__run \[\d+ ms\]\nran \{"server":"web01"\} \[REDACTED\]\n\(image, not shown\)$/);
  for (const { headers, address } of ports.requests) {
    assert.deepEqual([headers["authorization"], address], ["Bearer hunter2hunter2", "10.0.0.9"]);
  }
});

Deno.test("an MCP tool runs without approval only if the operator listed it", async () => {
  const { own, tool } = await setUp(answering(ONE), {
    ...ENTRY,
    tools: ["run", "drop"],
    no_approval: ["run"],
  });
  assert.deepEqual(own.map(({ needs_approval }) => needs_approval), [false, true]);
  assert.equal(tool?.needsApproval, false);
});

Deno.test("an MCP server without a list of tools offers none, and is not asked to run another one", async () => {
  const { tools: _, ...entry } = ENTRY;
  assert.deepEqual((await setUp(answering(ONE), entry)).own, []);
  const { tool } = await setUp(answering(ONE), { ...ENTRY, tools: ["drop"] });
  assert.equal(tool, undefined);
});

Deno.test("no MCP server is contacted if tools are off", async () => {
  const { own, ports } = await setUp(answering(ONE), ENTRY, { TOOLS_ENABLED: false });
  assert.deepEqual([own, ports.lookups], [[], []]);
});

const listing = (...tools: readonly object[]) =>
  answering((method) => method === "tools/list" ? { tools } : {});
const bomb = (depth: number): object =>
  depth === 0 ? {} : { type: "object", properties: { a: bomb(depth - 1) } };

Deno.test.each([
  { name: "a refused connection", answer: () => Promise.reject(new TypeError("boom")), why: /boom/ },
  {
    name: "no JSON",
    answer: () => textAnswer("<html>\x1b[2J hunter2"),
    why: /^gw failed: the server sent no reply in JSON/,
  },
  {
    name: "broken JSON",
    answer: () => textAnswer("{", { headers: { "content-type": "application/json" } }),
    why: /JSON/,
  },
  {
    name: "a wrong status",
    answer: () => textAnswer("no hunter2 \u202e", { status: 401 }),
    why: /no \[REDACTED\]/,
  },
  { name: "a status out of range", answer: () => textAnswer("", { status: 999 }), why: /responded 999/ },
  {
    name: "a redirect",
    answer: () => textAnswer("", { status: 307, headers: { location: "https://evil.test/" } }),
    why: /gw failed/,
  },
  {
    name: "an endless response",
    answer: () => ({ ...jsonAnswer({}), isCut: true }),
    why: /larger than 4194304 bytes/,
  },
  {
    name: "a compressed response",
    answer: () => textAnswer("x", { headers: { "content-encoding": "gzip" } }),
    why: /compressed/,
  },
  { name: "a schema that is no object", answer: listing({ name: "run", inputSchema: [] }), why: /gw failed/ },
  {
    name: "a deep schema",
    answer: listing({ name: "run", inputSchema: bomb(500) }),
    why: /its schema is too large/,
  },
  {
    name: "a long schema",
    answer: listing({ name: "run", inputSchema: { type: "object", title: "x".repeat(9000) } }),
    why: /its schema is too large/,
  },
  {
    name: "a name with control characters",
    answer: listing({ name: "run\u0000", inputSchema: SCHEMA }),
    why: /no such tool/,
  },
  {
    name: "the name of a built-in tool",
    answer: listing({ name: "http_get", inputSchema: SCHEMA }),
    why: /no such tool/,
  },
  {
    name: "endless pages",
    answer: answering((method) => method === "tools/list" ? { tools: [], nextCursor: "a" } : {}),
    why: /no such tool/,
  },
])("a hostile MCP server turns its tools off: $name", async ({ answer, why: expected }) => {
  const { why, own, ports } = await setUp(answer as FakePorts["answer"]);
  assert.match(why, expected);
  assert.equal(own.length, 1);
  assert.ok(why.length <= 300);
  assert.doesNotMatch(why, /hunter2/);
  assert.equal(hasInvisible(why), false, why);
  assert.ok(ports.requests.length <= 14);
  assert.ok(ports.lookups.every((host) => host === "mcp.test"));
});

Deno.test.each(
  ["\r", "data: 1\n\n", 'data: {"id":0,"method":"sampling/createMessage"}\n\n'].map((unit) => ({
    name: JSON.stringify(unit),
    unit,
  })),
)(
  "a hostile stream of an MCP server takes linear time: $name",
  async ({ unit }) => {
    const started = performance.now();
    const headers = { "content-type": "text/event-stream" };
    const { why } = await setUp(() => textAnswer(unit.repeat(4_000_000 / unit.length), { headers }));
    assert.equal(why, "gw failed: the server sent no reply in JSON");
    assert.ok(performance.now() - started < 20_000);
  },
);

Deno.test("an MCP server may answer with a stream", async () => {
  const { tool } = await setUp((request) => {
    const answer = answering(ONE)(request);
    const text = new TextDecoder().decode(answer.body);
    if (text === "") return answer;
    const progress = '{"jsonrpc":"2.0","method":"notifications/progress","params":{}}';
    const stream = `id: 1\ndata:\n\ndata: ${progress}\n\nevent: message\ndata: ${text}\n\n`;
    return textAnswer(stream, { headers: { "content-type": "text/event-stream" } });
  });
  assert.equal((await call(tool, {})).ok, true);
});

Deno.test("a slow MCP server turns its tools off after 5 s", async () => {
  const ports = Object.assign(new FakePorts(), { addresses: { "mcp.test": [["10.0.0.9"]] } });
  ports.answer = ({ signal }) =>
    new Promise((_, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const [server] = openMcpServers(JSON.stringify({ mcpServers: { gw: { ...ENTRY, headers: {} } } }), {
    settings: BARE_SETTINGS,
    ports,
  });
  const offers = server!();
  await ports.clock.advance(5000);
  const [tool] = await offers;
  assert.equal(await tool?.missing(), "gw failed: no response within 5 s");
});

Deno.test("texts of an MCP server are masked, bounded and visible", async () => {
  const description = `hunter2\u0007\u202e${"x".repeat(5000)}`;
  const inputSchema = {
    type: "object",
    properties: { ["a\u001b[2J"]: { title: "hunter2\u0000", enum: ["\u0007"] } },
  };
  const { tool } = await setUp(
    answering((method) =>
      method === "tools/list"
        ? { tools: [{ name: "run", description, inputSchema }] }
        : { content: [{ type: "text", text: "y".repeat(9000) }], isError: true }
    ),
  );
  assert.match(tool?.description ?? "", /^Tool of the MCP server gw\. \[REDACTED\]\ufffd\ufffdx{900,}$/);
  assert.ok(tool!.description.length < 1100);
  assert.deepEqual(tool?.parameters, {
    type: "object",
    properties: { a: { title: "[REDACTED]\ufffd", enum: ["\ufffd"] } },
  });
  const { ok, text } = await call(tool, { a: 1 });
  assert.deepEqual([ok, text.length <= 4000], [false, true]);
});

const OAUTH = {
  issuer: "https://idp.test",
  client_id: "debate",
  client_secret: "${MCP_SECRET}",
  scope: "mcp",
};

/** A server that requires a token of an authorization server, and that server. */
function guarded(issuer: string): FakePorts["answer"] {
  return (request) => {
    const { url, headers } = request;
    if (url.pathname.includes("oauth-protected-resource")) {
      return jsonAnswer({ resource: "https://mcp.test/mcp", authorization_servers: [issuer] });
    }
    if (url.pathname.includes("well-known")) {
      return jsonAnswer({
        ...{ issuer, authorization_endpoint: `${issuer}/auth`, token_endpoint: `${issuer}/token` },
        response_types_supported: ["code"],
      });
    }
    if (url.pathname === "/token") {
      return jsonAnswer({ access_token: "fresh-token", token_type: "Bearer", expires_in: 60 });
    }
    if (headers["authorization"] === "Bearer fresh-token") return answering(ONE)(request);
    return textAnswer("", { status: 401, headers: { "www-authenticate": "Bearer" } });
  };
}

Deno.test("an MCP server with OAuth gets a token of the configured issuer", async () => {
  const settings = { MCP_VARIABLES: { MCP_SECRET: "pass" } };
  const headers = { "x-team": "team-secret", "x-key": "team-secret-key" };
  const entry = { url: ENTRY.url, headers, tools: ["run"], oauth: OAUTH };
  const { ports, why, tool } = await setUp(guarded("https://idp.test"), entry, settings);
  assert.equal(why, "");
  const sent = ports.requests.find(({ url }) => url.pathname === "/token");
  assert.equal(sent?.headers["authorization"], `Basic ${btoa("debate:pass")}`);
  assert.equal(sent?.headers["x-team"], undefined);
  assert.match(sent?.body ?? "", /grant_type=client_credentials.*scope=mcp/);
  const { text } = await call(tool, { says: "fresh-token ops team-secret-key" });
  assert.match(text, /\{"says":"\[REDACTED\] ops \[REDACTED\]"\}/, "credentials that the server repeats");
});

Deno.test("an MCP server cannot send the client secret to another issuer", async () => {
  const settings = { MCP_VARIABLES: { MCP_SECRET: "pass" } };
  for (const issuer of ["https://evil.test", "https://mcp.test"]) {
    const { ports, why } = await setUp(
      guarded(issuer),
      { url: ENTRY.url, tools: ["run"], oauth: OAUTH },
      settings,
    );
    assert.match(why, /^gw failed/);
    assert.deepEqual(
      ports.requests.filter(({ url }) => url.pathname === "/token" || url.host === "evil.test"),
      [],
    );
  }
});

Deno.test.each([
  {
    name: "a missing variable",
    entry: { ...ENTRY, headers: { a: "${MCP_OTHER}" } },
    why: "gw failed: MCP_OTHER is not set",
  },
  {
    name: "a command",
    entry: { command: "npx", args: ["x"], tools: ["run"] },
    why: "gw failed: only servers with a url are supported",
  },
])("an MCP server is off with its reason: $name", async ({ entry, why: expected }) => {
  const { why, ports } = await setUp(answering(ONE), entry);
  assert.equal(why, expected);
  assert.deepEqual(ports.lookups, []);
});

Deno.test.each([
  { name: "a name that is no part of a tool's name", mcpServers: { "a__b": ENTRY } },
  { name: "a tool with a wildcard", mcpServers: { a: { ...ENTRY, tools: ["*"] } } },
  { name: "a token for an unencrypted server", mcpServers: { a: { ...ENTRY, url: "http://mcp.test/" } } },
  {
    name: "an issuer without encryption",
    mcpServers: { a: { ...ENTRY, oauth: { ...OAUTH, issuer: "http://idp.test" } } },
  },
  { name: "another kind of URL", mcpServers: { a: { url: "file:///etc/passwd", tools: [] } } },
  { name: "no servers", mcpServers: undefined },
])("openMcpServers() rejects $name", ({ mcpServers }) => {
  const world = { settings: BARE_SETTINGS, ports: new FakePorts() };
  assert.throws(() => openMcpServers(JSON.stringify({ mcpServers }), world), { code: "invalid_config" });
});
