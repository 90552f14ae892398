import { serveStdio } from "@modelcontextprotocol/server/stdio";
import type { Clock, Random } from "@gateway/shared/clock";
import { announceTools, createMcpServer, type McpServerOptions } from "./mcp_server.ts";
import { PausedCalls } from "./paused_calls.ts";
import { type SharedBounds, type StdioStreams, StdioTransport } from "./stdio_transport.ts";

/** Who calls over stdio: the one who started the process; policies, freezes and audit queries use this name. */
const STDIO_CALLER = "mcp-stdio";

export interface McpStdioOptions
  extends Pick<McpServerOptions, "tools" | "instructions" | "onError">, StdioStreams {
  /** Default {@linkcode STDIO_CALLER}. */
  readonly caller?: string;
  /** Absent: the client has the broker for itself. */
  readonly bounds?: SharedBounds;
  readonly clock: Clock;
  readonly random: Random;
  /** Whether the human at the client may be asked for approvals. */
  readonly askInChat: boolean;
  /** Told of lines that are not messages, and of writes that failed. */
  readonly onProtocolError: (error: Error) => void;
}

/** An MCP server on the standard streams. */
export interface McpStdio {
  /** Resolves when the client has closed its end. */
  readonly ended: Promise<void>;
  /** How many requests are under way or have an answer that the client has not taken. */
  readonly openRequests: number;
  /** Ends the connection; what runs is cancelled, and has ended when this resolves. */
  close(): Promise<void>;
}

/**
 * Serves one client, in whichever protocol generation it opens with: with sessions (`initialize`) or stateless
 * (2026-07-28).
 */
export function serveMcpStdio(options: McpStdioOptions): McpStdio {
  const transport = new StdioTransport(options, options.bounds);
  const { caller = STDIO_CALLER } = options;
  const pausedCalls = new PausedCalls(options);
  const calls = new Set<Promise<unknown>>();
  const handle = serveStdio(({ era }) => {
    const server = createMcpServer({
      tools: options.tools,
      instructions: options.instructions,
      caller: () => ({ caller, callerGroups: null, bearerToken: undefined }),
      era,
      clock: options.clock,
      ...(options.askInChat ? { chat: { pausedCalls } } : {}),
      onCall(call) {
        transport.requests.watch(call);
        const { ended } = call;
        calls.add(ended);
        const forget = () => calls.delete(ended);
        ended.then(forget, forget);
      },
      onError: options.onError,
    });
    announceTools(server, options.tools);
    return server;
  }, { transport, onerror: options.onProtocolError });
  return {
    ended: transport.ended,
    get openRequests() {
      return transport.requests.size;
    },
    async close() {
      await handle.close();
      await pausedCalls.close();
      await Promise.allSettled(calls);
    },
  };
}
