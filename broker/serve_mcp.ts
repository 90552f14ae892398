import type { BrokerConfig } from "./config/config.ts";
import { type BrokerPorts, createBroker } from "./app.ts";
import { serveMcpStdio, type StdioStreams } from "./frontends/mcp_stdio.ts";
import { startBrokerMonitor } from "./frontends/monitor.ts";
import { describeTools } from "./tools/instructions.ts";
import { createToolset } from "./tools/toolset.ts";

/** What the stdio frontend needs beside a broker's ports. */
interface ServeMcpPorts extends BrokerPorts {
  readonly streams: StdioStreams;
}

/**
 * Serves MCP on the standard streams until the client closes its end or `stopped` resolves. The client is
 * answered while the first host list is still on its way; without a list the broker ends.
 */
export async function serveMcp(
  config: BrokerConfig,
  ports: ServeMcpPorts,
  stopped: Promise<unknown>,
): Promise<void> {
  const { logger, streams } = ports;
  // Every window of an MCP client starts a broker of its own, all with one config.
  const broker = await createBroker(config, { ...ports, mayShareConfig: true });
  const mcp = serveMcpStdio({
    ...streams,
    clock: ports.clock,
    random: ports.random,
    askInChat: config.approval_via_elicitation,
    tools: createToolset(broker),
    instructions: describeTools(broker.limits),
    onError: (error) => logger.warn("Tool call failed", { error }),
    onProtocolError: (error) => logger.warn("MCP message refused", { error: error.message }),
  });
  const monitor = await startBrokerMonitor(config, { ...ports, ...broker, frontend: "serve-mcp" });
  const ended = Promise.race([mcp.ended, stopped]);
  try {
    await Promise.race([ended, announce()]);
    await ended;
  } finally {
    monitor.setReady(false);
    await mcp.close();
    await broker.close();
    await monitor.close();
  }

  async function announce(): Promise<void> {
    const hosts = await broker.loadHosts();
    monitor.setReady(true);
    logger.info(`mcp-broker (stdio) ready; ${hosts.size} hosts configured`);
  }
}
