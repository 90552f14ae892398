import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { createMcpServer, type McpServerOptions } from "./mcp_server.ts";
import { type StdioStreams, StdioTransport } from "./stdio_transport.ts";

/** Who calls over stdio: the one who started the process; policies, freezes and audit queries use this name. */
export const STDIO_CALLER = "mcp-stdio";

/** What the stdio frontend needs. */
export interface McpStdioOptions extends Pick<McpServerOptions, "tools" | "onError">, StdioStreams {
  /** Told of lines that are no messages, and of writes that failed. */
  readonly onProtocolError: (error: Error) => void;
}

/** An MCP server on the standard streams. */
export interface McpStdio {
  /** Resolves when the client has closed its end. */
  readonly ended: Promise<void>;
  /** Ends the connection; what runs is cancelled. */
  close(): Promise<void>;
}

/**
 * Serves one client, in whichever protocol generation it opens with: with sessions (`initialize`) or stateless
 * (2026-07-28).
 */
export function serveMcpStdio(options: McpStdioOptions): McpStdio {
  const transport = new StdioTransport(options);
  const handle = serveStdio(() =>
    createMcpServer({
      tools: options.tools,
      caller: () => ({ caller: STDIO_CALLER, callerGroups: null }),
      onError: options.onError,
    }), { transport, onerror: options.onProtocolError });
  return { ended: transport.ended, close: () => handle.close() };
}
