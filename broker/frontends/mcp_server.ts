import { type Clock, every, type Random } from "@gateway/shared/clock";
import { AppError, type ErrorCode } from "@gateway/shared/errors";
import { stringifyJson } from "@gateway/shared/json";
import { currentRequestId, inRequest, type ServiceLogger, VERSION } from "@gateway/shared/service";
import { quoteText, shortenText, visibleLines } from "@gateway/shared/text";
import {
  type AuthInfo,
  type CallToolResult,
  CLIENT_CAPABILITIES_META_KEY,
  type InputRequiredResult,
  McpServer,
  ProtocolError,
  ProtocolErrorCode,
  type ServerContext,
} from "@modelcontextprotocol/server";
import type { Tool, ToolContext, ToolResult } from "../tools/tool.ts";
import { createToolset, describeTools, type Toolset, type ToolsetPorts } from "../tools/toolset.ts";
import { askByRequest, canElicit, type PausedCalls, readInput } from "./elicitation.ts";
import type { StartedCall } from "./open_requests.ts";

export interface McpOptions {
  readonly tools: Toolset;
  readonly instructions: string;
  readonly clock: Clock;
  readonly random: Random;
  /** Called on each failure of a call. The text of a fault is not for the model. */
  readonly onError: (error: unknown) => void;
  readonly onProtocolError: (error: Error) => void;
}

export interface McpServerOptions extends Pick<McpOptions, "tools" | "instructions" | "clock" | "onError"> {
  /** Runs a tool for the caller that the frontend knows; over HTTP from the request. */
  readonly run: (
    tool: Tool,
    args: unknown,
    context: Pick<ToolContext, "signal" | "askHuman" | "onProgress">,
    authInfo: AuthInfo | undefined,
  ) => Promise<ToolResult>;
  /** The protocol generation of the client: with sessions, or stateless. */
  readonly era: "legacy" | "modern";
  /** The calls that wait for the human at the client; absent if the broker must not ask. */
  readonly pausedCalls?: PausedCalls | undefined;
  readonly onCall: (call: StartedCall) => void;
}

const MAX_SHOWN_NAME = 200;
const MAX_ERROR_LENGTH = 16_384;
const PROGRESS_SECONDS = 5;

const EMPTY_LISTS = new Map<string, object>([
  ["prompts/list", { prompts: [] }],
  ["resources/list", { resources: [] }],
  ["resources/templates/list", { resourceTemplates: [] }],
]);

export function mcpOptions(broker: ToolsetPorts, logger: ServiceLogger) {
  return {
    tools: createToolset(broker),
    instructions: describeTools(broker.limits),
    onError: (error: unknown) => logger.warn("Tool call failed", { error }),
    onProtocolError: (error: Error) => logger.warn("MCP message rejected", { error: error.message }),
  };
}

/**
 * Creates the MCP server of one connection. It handles the two tool methods itself instead of the SDK's tool registry:
 * the registry accepts no `bigint` in structured results, and clients of the reference look for other error texts.
 */
export function createMcpServer(options: McpServerOptions): McpServer {
  const { isOffered, settled } = options.tools;
  const tools = new Map(options.tools.tools.map((tool) => [tool.name, tool]));
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
    const offered = [...tools.values()].filter(({ name }) => isOffered(name));
    return {
      tools: offered.toSorted((left, right) => left.name < right.name ? -1 : 1)
        .map(({ call: _, annotations, ...tool }) => ({ ...tool, annotations: { ...annotations } })),
    };
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
    const capabilities = options.era === "modern"
      ? Reflect.get(mcpReq.envelope ?? {}, CLIENT_CAPABILITIES_META_KEY)
      : server.getClientCapabilities();
    const answer = () =>
      answerCall(options, { tool, args: params.arguments, mcpReq, authInfo: http?.authInfo, capabilities });
    const { traceparent, tracestate } = mcpReq._meta ?? {};
    // Over HTTP, the listener has already started the request, with the trace ID of its headers.
    const call = currentRequestId() === undefined
      ? inRequest({ name: "tools/call", traceparent, tracestate }, answer)
      : answer();
    options.onCall({ id: mcpReq.id, signal: mcpReq.signal, ended: call });
    return await call;
  });
  // Revision 2026-07-28 requires 404 for unknown methods, which the SDK answers without a fallback.
  if (options.era === "modern") return mcp;
  server.fallbackRequestHandler = ({ method }) => {
    const list = EMPTY_LISTS.get(method);
    if (list !== undefined) return Promise.resolve({ ...list });
    throw new ProtocolError(ProtocolErrorCode.MethodNotFound, "Method not found");
  };
  return mcp;
}

/** Notifies a client of each change of the offered tools, until its connection ends. */
export function announceTools({ server }: McpServer, tools: Toolset): void {
  const end = tools.watch(() => {
    // A client that is not connected requests the list after it connects.
    if (server.getNegotiatedProtocolVersion() !== undefined) server.sendToolListChanged().catch(() => {});
  });
  server.onclose = end;
}

/** Answers a call with the tool's result, its failure, or a question for the human at the client. */
async function answerCall(
  { run: runTool, clock, era, pausedCalls, onError }: McpServerOptions,
  { tool, args, mcpReq, authInfo, capabilities }: {
    readonly tool: Tool;
    readonly args: unknown;
    readonly mcpReq: ServerContext["mcpReq"];
    readonly authInfo: AuthInfo | undefined;
    readonly capabilities: unknown;
  },
): Promise<CallToolResult | InputRequiredResult> {
  const { signal } = mcpReq;
  const run = async (asking: Pick<ToolContext, "signal" | "askHuman">): Promise<CallToolResult> => {
    const ended = new AbortController();
    try {
      const context = { ...asking, ...reportProgress(mcpReq, clock, ended.signal) };
      const { text, structured } = await runTool(tool, args, context, authInfo);
      return { content: [{ type: "text", text }], structuredContent: structured };
    } catch (error) {
      onError(error);
      // A failure is a result, so that the model reads it. The text may come from a host or a service.
      const message = error instanceof AppError ? error.message : "internal error";
      const texts = [visibleLines(shortenText(message, MAX_ERROR_LENGTH)), nextStep(tool.name, error)];
      return {
        content: texts.flatMap((text) => text === undefined ? [] : [{ type: "text", text }]),
        isError: true,
      };
    } finally {
      // The reason is a string, because an error with its stack for each call would be slow.
      ended.abort("ended");
    }
  };
  if (pausedCalls === undefined) return await run({ signal });
  if (era === "legacy") {
    return await run(
      canElicit(capabilities) ? { signal, askHuman: askByRequest(mcpReq, clock) } : { signal },
    );
  }
  const sorted = Object.entries(args ?? {}).toSorted(([left], [right]) => left < right ? -1 : 1);
  const request = { identity: stringifyJson([tool.name, sorted]), signal };
  const state = mcpReq.requestState();
  if (state !== undefined) return await pausedCalls.resume(state, request, readInput(mcpReq.inputResponses));
  return canElicit(capabilities) ? await pausedCalls.begin(request, run) : await run({ signal });
}

/** The model's next step after a failure. A separate content block, because scripts read the text of the error. */
function nextStep(tool: string, error: unknown): string | undefined {
  const [list, allowed] = tool.startsWith("k8s_")
    ? ["k8s_list_clusters", "actions"]
    : ["ssh_list_servers", "commands"];
  const steps: Partial<Record<ErrorCode, string>> = {
    denied: `Do not retry in another form. Call ${list} with policy: true to see allowed ${allowed}.`,
    frozen: "Stop and tell the user.",
    approval_required: "Tell the user. Repeat the call only after the user confirms the approval.",
    unknown_host: `Call ${list} to see the names you may use.`,
  };
  return error instanceof AppError ? steps[error.code] : undefined;
}

/** Reports progress to a client that requests it. Many clients cancel a call without progress. */
function reportProgress(
  { _meta, notify }: ServerContext["mcpReq"],
  clock: Clock,
  ended: AbortSignal,
): Pick<ToolContext, "onProgress"> {
  const progressToken = _meta?.progressToken;
  if (progressToken === undefined) return {};
  let progress = 0;
  const onProgress = (message: string) => {
    progress += 1;
    notify({ method: "notifications/progress", params: { progressToken, progress, message } }).catch(
      () => {},
    );
  };
  let seconds = 0;
  void every({ clock, seconds: PROGRESS_SECONDS, signal: ended }, () => {
    seconds += PROGRESS_SECONDS;
    onProgress(`running for ${seconds} s`);
  });
  return { onProgress };
}
