/**
 * Tools of MCP servers that the operator configured. A server may be hostile: it gets only the calls of listed tools,
 * its texts are masked and bounded, and its answers are read through the same client as those of other backends.
 */
import { parseConfig } from "@gateway/shared/config";
import { errorText } from "@gateway/shared/errors";
import { readNamedText } from "@gateway/shared/files";
import { cutText } from "@gateway/shared/text";
import {
  Client,
  ClientCredentialsProvider,
  StreamableHTTPClientTransport,
} from "@modelcontextprotocol/client";
import * as z from "@zod/zod";
import { isShallow } from "../engine/agents/run_tool.ts";
import { fieldsOf, isObject, oneLine } from "../engine/graph/text.ts";
import { isHttpUrl, isSafeUrl, type Settings } from "../settings/config.ts";
import { type Call, runTimed, type ToolOffer, type ToolWorld, visible } from "./define_tool.ts";
import { exchangeWithConfigured } from "./http_fetch.ts";
import { compileAllowList } from "./net_guard.ts";
import { refuse, ToolFailure } from "./run_program.ts";

const toolName = z.string().regex(
  /^[A-Za-z0-9_-]{1,40}$/,
  "must be the name of a tool: letters, digits, _ and -",
);

const httpsUrl = z.string().refine(isSafeUrl, "must be an https: URL, or http: on loopback");

const serverSchema = z.object({
  url: z.string().refine(isHttpUrl, "must be an http: or https: URL").exactOptional(),
  headers: z.record(z.string(), z.string()).default({}),
  oauth: z.strictObject({
    issuer: httpsUrl,
    client_id: z.string().min(1),
    client_secret: z.string().min(1),
    scope: z.string().exactOptional(),
  }).exactOptional(),
  tools: z.array(toolName).default([]),
  no_approval: z.array(toolName).default([]),
  timeout_seconds: z.int().min(1).max(290).default(60),
}).refine(
  ({ url = "", headers, oauth }) =>
    isSafeUrl(url) || (oauth === undefined && Object.keys(headers).length === 0),
  "headers and oauth need an https: URL, or http: on loopback",
);

type ServerConfig = z.infer<typeof serverSchema>;

/** Other MCP clients read the same file, so unknown keys are allowed. */
const fileSchema = z.object({
  mcpServers: z.record(
    z.string().regex(/^[a-z0-9][a-z0-9-]{0,19}$/, "must be lower-case letters, digits and -"),
    serverSchema,
  ),
});

export interface McpServer {
  /** The listed tools, available or not. Never rejects. */
  offers(): Promise<readonly ToolOffer[]>;
}

type World = Pick<ToolWorld, "settings" | "ports">;

export async function readMcpServers(
  settings: Settings,
  ports: ToolWorld["ports"],
): Promise<readonly McpServer[]> {
  const path = settings.MCP_SERVERS_FILE;
  if (path === "") return [];
  const text = await readNamedText("MCP_SERVERS_FILE", path);
  return openMcpServers(text, { settings, ports });
}

/** @throws {AppError} `invalid_config` with every problem */
export function openMcpServers(text: string, world: World): readonly McpServer[] {
  const { mcpServers } = parseConfig({
    what: "MCP servers",
    schema: fileSchema,
    source: "MCP_SERVERS_FILE",
    text,
  });
  return Object.entries(mcpServers).map(([name, config]) => openMcpServer(name, config, world));
}

const LIST_SECONDS = 5;
const MAX_SCHEMA = 8000;
const MAX_SCHEMA_DEPTH = 16;
const MAX_DESCRIPTION = 1000;
const MAX_PAGES = 10;
const MAX_WHY = 300;

type Known = { readonly description?: string | undefined; readonly inputSchema: object };
type KnownTools = ReadonlyMap<string, Known>;

function openMcpServer(server: string, config: ServerConfig, { settings, ports }: World): McpServer {
  const world = { settings, ports, allowed: compileAllowList([]) };
  const connect = openConnector(config, settings.MCP_VARIABLES);
  const clean = (text: string) => ports.redact(visible(text));

  function offer(tool: string, known: KnownTools, failure: string | undefined): ToolOffer {
    const name = `${server}__${tool}`;
    const { description = "", inputSchema = {} } = known.get(tool) ?? {};
    const isLarge = !isShallow(inputSchema, MAX_SCHEMA_DEPTH) ||
      JSON.stringify(inputSchema).length > MAX_SCHEMA;
    const problem = !known.has(tool)
      ? "the server has no such tool"
      : isLarge
      ? "its schema is too large"
      : undefined;
    return {
      name,
      description: `Tool of the MCP server ${server}. ${cutText(clean(description), MAX_DESCRIPTION)}`.trim(),
      parameters: isLarge ? {} : fieldsOf(mapTexts(inputSchema, clean)),
      needsApproval: !config.no_approval.includes(tool),
      missing: () => Promise.resolve(failure ?? problem),
      run: (args, context) =>
        runTimed(
          name,
          { ...world, seconds: config.timeout_seconds },
          context,
          (call) =>
            connect(call, async (client, options) => {
              const params = { name: tool, arguments: { ...fieldsOf(args) } };
              const { content, isError = false } = await client.request(
                { method: "tools/call", params },
                options,
              );
              const parts = content.map((part) =>
                part.type === "text" ? part.text : `(${part.type}, not shown)`
              );
              return { ok: !isError, title: name, body: parts.join("\n") };
            }),
        ),
    };
  }

  return {
    async offers() {
      let known: KnownTools = new Map();
      const context = { signal: new AbortController().signal };
      const { ok, text } = await runTimed(
        server,
        { ...world, seconds: LIST_SECONDS },
        context,
        async (call) => {
          known = await connect(call, listTools);
          return { ok: true, title: "", body: "" };
        },
      );
      const failure = ok ? undefined : cutText(oneLine(text), MAX_WHY);
      return config.tools.map((tool) => offer(tool, known, failure));
    },
  };
}

type Use<T> = (
  client: Client,
  options: { readonly timeout: number; readonly signal: AbortSignal },
) => Promise<T>;

async function listTools(...[client, options]: Parameters<Use<KnownTools>>): Promise<KnownTools> {
  const known = new Map<string, Known>();
  let params: { cursor?: string } = {};
  for (let page = 0; page < MAX_PAGES; page++) {
    const { tools, nextCursor } = await client.request({ method: "tools/list", params }, options);
    for (const tool of tools) if (!known.has(tool.name)) known.set(tool.name, tool);
    if (nextCursor === undefined) break;
    params = { cursor: nextCursor };
  }
  return known;
}

/** Opens a new session for each use, so that a restarted server does no harm. */
function openConnector(
  { url: address, headers, oauth }: ServerConfig,
  variables: Readonly<Record<string, string>>,
) {
  const resolve = (text: string) =>
    text.replace(/\$\{(\w{1,100})\}/g, (_, name: string) => variables[name] ?? refuse(`${name} is not set`));
  let authProvider: ClientCredentialsProvider | undefined;

  return async <T>(call: Call, use: Use<T>): Promise<T> => {
    if (address === undefined) return refuse("only servers with a url are supported");
    const url = new URL(address);
    const own = Object.entries(headers).map(([name, value]) => [name, resolve(value)] as const);
    authProvider ??= oauth && new ClientCredentialsProvider({
      clientId: oauth.client_id,
      clientSecret: resolve(oauth.client_secret),
      expectedIssuer: oauth.issuer,
      ...(oauth.scope !== undefined && { scope: oauth.scope }),
    });
    const origins = [url.origin, ...(oauth === undefined ? [] : [new URL(oauth.issuer).origin])];

    async function bounded(
      input: string | URL,
      { method = "GET", headers, body }: RequestInit = {},
    ): Promise<Response> {
      const target = new URL(input);
      // A hostile server may name any URL as its authorization server.
      if (!origins.includes(target.origin)) {
        refuse(`the server refers to ${target.origin}, which is not configured`);
      }
      const isMcp = target.href === url.href;
      // Results arrive in the response to each request, so no stream is needed.
      if (isMcp && method === "GET") return new Response(null, { status: 405 });
      const { status, headers: given, body: bytes } = await exchangeWithConfigured("the server", target, {
        method: method === "POST" || method === "DELETE" ? method : "GET",
        headers: Object.fromEntries([...new Headers(headers), ...(isMcp ? own : [])]),
        ...(body !== undefined && body !== null && { body: String(body) }),
      }, call);
      if (status < 200 || status > 599) refuse(`the server responded ${status}`);
      const hasBody = ![204, 205, 304].includes(status);
      return new Response(hasBody ? bytes.slice() : null, { status, headers: given });
    }

    const client = new Client({ name: "diagnosis-debate", version: "1" });
    const transport = new StreamableHTTPClientTransport(url, {
      fetch: bounded,
      ...(authProvider !== undefined && { authProvider }),
    });
    const options = { timeout: call.seconds * 1000, signal: call.signal };
    try {
      await client.connect(transport, options);
      const result = await use(client, options);
      // The server ends an unused session itself.
      await transport.terminateSession().catch(() => {});
      return result;
    } catch (error) {
      call.signal.throwIfAborted();
      throw error instanceof ToolFailure ? error : new ToolFailure(errorText(error));
    } finally {
      await client.close();
    }
  };
}

function mapTexts(value: unknown, clean: (text: string) => string): unknown {
  if (typeof value === "string") return clean(value);
  if (Array.isArray(value)) return value.map((each) => mapTexts(each, clean));
  if (!isObject(value)) return value;
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [clean(key), mapTexts(each, clean)]));
}
