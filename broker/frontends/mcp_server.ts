import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/quote";
import { VERSION } from "@gateway/shared/version";
import {
  type CallToolResult,
  type ListToolsResult,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
} from "@modelcontextprotocol/server";
import type { Tool, ToolContext } from "../tools/tool.ts";

/** What an MCP server serves. */
export interface McpServerOptions {
  readonly tools: readonly Tool[];
  /** Who calls, as the frontend knows it. */
  readonly caller: () => Omit<ToolContext, "signal">;
  /** Told of every fault that is not a refusal; its text is not for the model. */
  readonly onError: (error: unknown) => void;
}

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
  const tools = new Map(
    options.tools.toSorted((left, right) => left.name < right.name ? -1 : 1).map((tool) => [tool.name, tool]),
  );
  const mcp = new McpServer(
    { name: "gateway", title: "Gateway (SSH, ephemeral credentials)", version: VERSION },
    { capabilities: { logging: {}, tools: { listChanged: true } } },
  );
  const { server } = mcp;
  const requireInitialized = (method: string) => {
    if (server.getNegotiatedProtocolVersion() !== undefined) return;
    throw new ProtocolError(
      ProtocolErrorCode.InvalidRequest,
      `method ${quoteText(method)} is invalid during session initialization`,
    );
  };
  server.setRequestHandler("tools/list", () => {
    requireInitialized("tools/list");
    return { tools: [...tools.values()].map(describeTool) };
  });
  server.setRequestHandler("tools/call", async ({ params }, { mcpReq }) => {
    requireInitialized("tools/call");
    const tool = tools.get(params.name);
    if (tool === undefined) {
      throw new ProtocolError(ProtocolErrorCode.InvalidParams, `unknown tool ${quoteText(params.name)}`);
    }
    try {
      const { text, structured } = await tool.call(params.arguments, {
        ...options.caller(),
        signal: mcpReq.signal,
      });
      return { content: [{ type: "text", text }], structuredContent: structured };
    } catch (error) {
      return describeFailure(error, options.onError);
    }
  });
  server.fallbackRequestHandler = ({ method }) => {
    const list = EMPTY_LISTS[method];
    if (list !== undefined && Object.hasOwn(EMPTY_LISTS, method)) return Promise.resolve({ ...list });
    throw new ProtocolError(ProtocolErrorCode.MethodNotFound, "Method not found");
  };
  return mcp;
}

function describeTool(tool: Tool): ListToolsResult["tools"][number] {
  const { name, title, description, inputSchema, outputSchema, annotations } = tool;
  return {
    name,
    title,
    description,
    inputSchema,
    outputSchema,
    ...(annotations === undefined ? {} : { annotations }),
  };
}

/** A failure of the tool is a result, so that the model reads it; without structured content, which would lie. */
function describeFailure(error: unknown, onError: (error: unknown) => void): CallToolResult {
  onError(error);
  const text = error instanceof AppError ? error.message : "internal error";
  return { content: [{ type: "text", text }], isError: true };
}
