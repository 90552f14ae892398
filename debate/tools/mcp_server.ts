/**
 * Tools of MCP servers that the operator configured. A server may be hostile: it gets only the calls of listed tools,
 * its texts are masked and bounded, and its answers are read through the same client as those of other backends.
 */
import { parseConfig } from "@gateway/shared/config";
import { errorText } from "@gateway/shared/errors";
import { cutText } from "@gateway/shared/text";
import type { Client, ClientCredentialsProvider } from "@modelcontextprotocol/client";
import * as z from "@zod/zod";
import { isShallow } from "../engine/agents/run_tool.ts";
import { fieldsOf, isObject, oneLine, parseJson } from "../engine/graph/text.ts";
import { eventsOf } from "../models/exchange.ts";
import { isHttpUrl, isSafeUrl } from "../settings/model_providers.ts";
import {
  type Call,
  type Finding,
  type HttpAnswer,
  runTimed,
  type ToolOffer,
  type ToolWorld,
  visible,
} from "./define_tool.ts";
import { exchangeWithConfigured } from "./http_fetch.ts";
import { compileAllowList } from "./net_guard.ts";
import { refuse, ToolFailure } from "./run_program.ts";

const toolName = z.string().regex(/^[A-Za-z0-9_-]{1,40}$/, "must be letters, digits, _ and -");

const serverSchema = z.object({
  url: z.string().refine(isHttpUrl, "must be an http: or https: URL").exactOptional(),
  headers: z.record(z.string(), z.string()).default({}),
  oauth: z.strictObject({
    issuer: z.string().refine(isSafeUrl, "must be an https: URL, or http: on loopback"),
    client_id: z.string().min(1),
    client_secret: z.string().min(1),
    scope: z.string(),
  }).exactOptional(),
  tools: z.array(toolName).default([]),
  no_approval: z.array(toolName).default([]),
  timeout_seconds: z.int().min(1).max(290).default(60),
}).refine(
  ({ url = "", headers, oauth }) => isSafeUrl(url) || (!oauth && Object.keys(headers).length === 0),
  "headers and oauth need an https: URL, or http: on loopback",
);

type ServerConfig = z.infer<typeof serverSchema>;

const serverName = z.string().regex(/^[a-z0-9][a-z0-9-]{0,19}$/, "must be lower-case letters, digits and -");

/** Other MCP clients read the same file, so unknown keys are allowed. */
const fileSchema = z.object({ mcpServers: z.record(serverName, serverSchema) });

/** Returns the listed tools of a server, available or not. Never rejects. */
export type McpServer = () => Promise<readonly ToolOffer[]>;

/** @throws {AppError} `invalid_config` with every problem */
export function openMcpServers(text: string, world: Omit<ToolWorld, "allowed">): readonly McpServer[] {
  const source = "MCP_SERVERS_FILE";
  const { mcpServers } = parseConfig({ what: "MCP servers", schema: fileSchema, source, text });
  const allowed = compileAllowList([]);
  return Object.entries(mcpServers).map(([name, config]) =>
    openMcpServer(name, config, { ...world, allowed })
  );
}

const LIST_SECONDS = 5;
const MAX_SCHEMA = 8000;
const MAX_SCHEMA_DEPTH = 16;
const MAX_DESCRIPTION = 1000;
const MAX_WHY = 300;
const MAX_PAGES = 10;
/** Shorter words of headers may be common words. */
const MIN_SECRET = 8;

function openMcpServer(server: string, config: ServerConfig, given: ToolWorld): McpServer {
  // A server could repeat what it received, so its texts are searched for the credentials of its requests.
  const sent = new Set<string>();
  const mask = (text: string) =>
    // The longest first, because one can begin with another.
    [...sent].toSorted((a, b) => b.length - a.length).reduce(
      (masked, each) => masked.replaceAll(each, "[REDACTED]"),
      text,
    );
  const redact = (text: string) => given.ports.redact(mask(text));
  const world = { ...given, ports: { ...given.ports, redact } };
  const timed = (name: string, seconds: number, signal: AbortSignal, run: (call: Call) => Promise<Finding>) =>
    runTimed(name, { ...world, seconds }, { signal }, run);
  const connect = openConnector(config, given.settings.MCP_VARIABLES, sent);
  const clean = (text: string) => redact(visible(text));

  function offer(tool: string, known: readonly KnownTool[], failure: string | undefined): ToolOffer {
    const name = `${server}__${tool}`;
    const found = known.find((each) => each.name === tool);
    const description = clean(cutText(found?.description ?? "", 10 * MAX_DESCRIPTION));
    const isUsable = found !== undefined && isShallow(found.inputSchema, MAX_SCHEMA_DEPTH) &&
      JSON.stringify(found.inputSchema).length <= MAX_SCHEMA;
    const problem = isUsable ? undefined : found ? "its schema is too large" : "the server has no such tool";
    return {
      name,
      description: `Tool of the MCP server ${server}. ${cutText(description, MAX_DESCRIPTION)}`,
      parameters: isUsable ? fieldsOf(cleanTexts(found.inputSchema, clean)) : {},
      needsApproval: !config.no_approval.includes(tool),
      missing: () => Promise.resolve(failure ?? problem),
      run: (args, { signal }) => {
        const params = { name: tool, arguments: { ...fieldsOf(args) } };
        return timed(
          name,
          config.timeout_seconds,
          signal,
          (call) =>
            connect(call, async (client, options) => {
              const { content, isError = false } = await client.callTool(params, options);
              const parts = content.map((each) =>
                each.type === "text" ? each.text : `(${each.type}, not shown)`
              );
              return { ok: !isError, title: name, body: parts.join("\n") };
            }),
        );
      },
    };
  }

  return async () => {
    let known: readonly KnownTool[] = [];
    const { signal } = new AbortController();
    const { ok, text } = await timed(server, LIST_SECONDS, signal, async (call) => {
      known = await connect(call, async (client, options) => (await client.listTools({}, options)).tools);
      return { ok: true, title: "", body: "" };
    });
    const failure = ok ? undefined : cutText(oneLine(text), MAX_WHY);
    return config.tools.map((tool) => offer(tool, known, failure));
  };
}

/**
 * The reply to a request, without other messages. The client does not read the stream itself, because its parser takes
 * quadratic time for hostile streams.
 */
async function pickReply({ headers, body }: HttpAnswer, id: unknown): Promise<Response> {
  const isStream = headers["content-type"]?.startsWith("text/event-stream");
  for await (
    const text of isStream ? eventsOf(ReadableStream.from([body])) : [new TextDecoder().decode(body)]
  ) {
    const message = fieldsOf(parseJson(text));
    if (message.id !== id || message.method !== undefined) continue;
    return Response.json(message, { headers: { ...headers, "content-type": "application/json" } });
  }
  return refuse("the server sent no reply in JSON");
}

type KnownTool = Awaited<ReturnType<Client["listTools"]>>["tools"][number];

function cleanTexts(value: unknown, clean: (text: string) => string): unknown {
  if (typeof value === "string") return clean(value);
  if (Array.isArray(value)) return value.map((each) => cleanTexts(each, clean));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [clean(key), cleanTexts(each, clean)]),
  );
}

type Use<T> = (client: Client, options: { timeout: number; signal: AbortSignal }) => Promise<T>;

/** Opens a new session for each use, so that a restarted server does no harm. */
function openConnector(
  { url: address, headers, oauth }: ServerConfig,
  variables: Readonly<Record<string, string>>,
  sent: Set<string>,
) {
  const resolve = (text: string) =>
    text.replace(/\$\{(\w{1,100})\}/g, (_, name: string) => variables[name] ?? refuse(`${name} is not set`));
  let authProvider: ClientCredentialsProvider | undefined;

  return async <T>(call: Call, use: Use<T>): Promise<T> => {
    if (address === undefined) return refuse("only servers with a url are supported");
    const url = new URL(address);
    const own = Object.entries(headers).map(([name, value]) => [name, resolve(value)] as const);
    const mcp = await import("@modelcontextprotocol/client");
    authProvider ??= oauth && new mcp.ClientCredentialsProvider({
      clientId: oauth.client_id,
      clientSecret: resolve(oauth.client_secret),
      expectedIssuer: oauth.issuer,
      scope: oauth.scope,
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
      const sending = [...new Headers(headers), ...(isMcp ? own : [])];
      for (const [, value] of [...sending.filter(([name]) => name === "authorization"), ...own]) {
        for (const word of value.split(" ")) if (word.length >= MIN_SECRET) sent.add(word);
      }
      const answer = await exchangeWithConfigured("the server", target, {
        method: method === "POST" || method === "DELETE" ? method : "GET",
        headers: Object.fromEntries(sending),
        body: body ? String(body) : undefined,
      }, call);
      const { status } = answer;
      if (status < 200 || status > 599) refuse(`the server responded ${status}`);
      const id = isMcp && body ? fieldsOf(parseJson(String(body))).id : undefined;
      if (id !== undefined && status === 200) return await pickReply(answer, id);
      const content = [204, 205, 304].includes(status) ? null : new TextDecoder().decode(answer.body);
      return new Response(content, { status, headers: answer.headers });
    }

    const client = new mcp.Client({ name: "diagnosis-debate", version: "1" }, { listMaxPages: MAX_PAGES });
    const auth = authProvider === undefined ? {} : { authProvider };
    const transport = new mcp.StreamableHTTPClientTransport(url, { fetch: bounded, ...auth });
    const options = { timeout: call.seconds * 1000, signal: call.signal };
    try {
      await client.connect(transport, options);
      // Without this check, the client writes a message to the standard output.
      if (client.getServerCapabilities()?.tools === undefined) refuse("the server has no tools");
      const result = await use(client, options);
      // A server ends an unused session itself.
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
