import { quoteText, shortenText } from "@gateway/shared/text";
import { VERSION } from "@gateway/shared/service";
import {
  CLIENT_CAPABILITIES_META_KEY,
  type ListToolsResult,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
} from "@modelcontextprotocol/server";
import type { Tool } from "../tools/tool.ts";
import type { Toolset } from "../tools/toolset.ts";
import { callTool, type CallToolOptions } from "./mcp_call.ts";
import type { StartedCall } from "./open_requests.ts";

export interface McpServerOptions extends CallToolOptions {
  readonly tools: Toolset;
  /** What the model is told about all of them. */
  readonly instructions: string;
  /** Told of every call that begins. */
  readonly onCall: (call: StartedCall) => void;
}

/** As much of a wrong name as an error repeats, in characters. */
const MAX_SHOWN_NAME = 200;

/** Lists that clients ask for without looking at the capabilities; ours are empty. */
const EMPTY_LISTS: Readonly<Record<string, Readonly<Record<string, readonly never[]>>>> = {
  "prompts/list": { prompts: [] },
  "resources/list": { resources: [] },
  "resources/templates/list": { resourceTemplates: [] },
};

/**
 * Makes the MCP server of one connection. Its two tool methods are handled here and not by the SDK's tool
 * registry: the registry checks structured results against their schema and so accepts no `bigint`, and its
 * texts for unknown tools and wrong arguments are not the ones that clients of the reference look for.
 */
export function createMcpServer(options: McpServerOptions): McpServer {
  const { isOffered, settled } = options.tools;
  const tools = new Map(
    options.tools.tools.toSorted((left, right) => left.name < right.name ? -1 : 1)
      .map((tool) => [tool.name, tool]),
  );
  const mcp = new McpServer(
    { name: "gateway", title: "Gateway (SSH & Kubernetes, ephemeral credentials)", version: VERSION },
    { capabilities: { tools: { listChanged: true } }, instructions: options.instructions },
  );
  const { server } = mcp;
  const requireInitialized = (method: string) => {
    if (server.getNegotiatedProtocolVersion() !== undefined) return;
    throw new ProtocolError(
      ProtocolErrorCode.InvalidRequest,
      `method ${quoteText(method)} is invalid during session initialization`,
    );
  };
  server.setRequestHandler("tools/list", async () => {
    requireInitialized("tools/list");
    await settled();
    return { tools: [...tools.values()].filter(({ name }) => isOffered(name)).map(describeTool) };
  });
  server.setRequestHandler("tools/call", async ({ params }, { mcpReq, http }) => {
    requireInitialized("tools/call");
    const tool = tools.get(params.name);
    if (tool !== undefined && !isOffered(tool.name)) await settled();
    if (tool === undefined || !isOffered(tool.name)) {
      throw new ProtocolError(
        ProtocolErrorCode.InvalidParams,
        `unknown tool ${quoteText(shortenText(params.name, MAX_SHOWN_NAME))}`,
      );
    }
    const call = callTool(options, {
      tool,
      args: params.arguments,
      mcpReq,
      authInfo: http?.authInfo,
      capabilities: options.era === "modern"
        ? Reflect.get(mcpReq.envelope ?? {}, CLIENT_CAPABILITIES_META_KEY)
        : server.getClientCapabilities(),
    });
    options.onCall({ id: mcpReq.id, signal: mcpReq.signal, ended: call });
    return await call;
  });
  // Revision 2026-07-28 wants 404 for what is not declared, which the SDK answers where no handler is.
  if (options.era === "modern") return mcp;
  server.fallbackRequestHandler = ({ method }) => {
    const list = EMPTY_LISTS[method];
    if (list !== undefined && Object.hasOwn(EMPTY_LISTS, method)) return Promise.resolve({ ...list });
    throw new ProtocolError(ProtocolErrorCode.MethodNotFound, "Method not found");
  };
  return mcp;
}

/** Tells a client whenever other tools are offered than before, until its connection ends. */
export function announceTools({ server }: McpServer, tools: Toolset): void {
  const end = tools.watch(() => {
    // A client that is gone, or has not begun, asks when it comes.
    if (server.getNegotiatedProtocolVersion() !== undefined) server.sendToolListChanged().catch(() => {});
  });
  server.onclose = end;
}

function describeTool(tool: Tool): ListToolsResult["tools"][number] {
  const { name, title, description, inputSchema, outputSchema, annotations } = tool;
  return { name, title, description, inputSchema, outputSchema, annotations: { ...annotations } };
}
