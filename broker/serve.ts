import { AppError } from "@gateway/shared/errors";
import {
  keepFresh,
  keepListenerFresh,
  ListenerMetrics,
  loadListenerTls,
  loadTlsKeyPair,
  startMtlsServer,
  startTlsServer,
} from "@gateway/shared/http";
import { type BrokerPorts, createBroker } from "./app.ts";
import type { BrokerConfig } from "./config/config.ts";
import { createHttpFrontend } from "./frontends/http.ts";
import { openMcpSockets } from "./frontends/mcp_sockets.ts";
import { startBrokerMonitor } from "./frontends/monitor.ts";
import { serveMcpStdio, type StdioStreams } from "./frontends/mcp_stdio.ts";
import { describeTools } from "./tools/instructions.ts";
import { createToolset } from "./tools/toolset.ts";
import type { EndUserOidcConfig } from "@gateway/shared/oidc/model";
import { loadEndUserVerifier } from "@gateway/shared/oidc";
import type { Random } from "@gateway/shared/clock";
import { createMcpHttp } from "./frontends/mcp_http.ts";

/** Serves the HTTP frontend until `stopped` resolves. */
export async function serveHttp(
  config: BrokerConfig,
  ports: BrokerPorts,
  stopped: Promise<unknown>,
): Promise<void> {
  const { logger } = ports;
  requireListenerKeys(config);
  const tls = await loadListenerTls(config);
  const broker = await createBroker(config, ports);
  try {
    const hosts = await broker.loadHosts();
    await using _sockets = await openMcpSockets(config.sockets, broker, ports);
    const traffic = new ListenerMetrics(broker.metrics);
    const server = await startMtlsServer({
      listen: config.listen,
      ...tls,
      handler: createHttpFrontend({ ...broker, runCallers: config.run_callers }),
      onAnswer: traffic.onAnswer,
      onError: (error, requestId) => logger.error("Request failed", { request_id: requestId, error }),
    });
    traffic.watch(server);
    const monitor = await startBrokerMonitor(config, { ...ports, ...broker, frontend: "serve-http" });
    const stop = new AbortController();
    const fresh = keepListenerFresh(
      { clock: ports.clock, signal: stop.signal, logger, current: tls },
      config,
      server,
    );
    monitor.setReady(true);
    logger.info(`broker (http) ready; ${hosts.size} hosts configured`, { ...server.address });
    await stopped;
    monitor.setReady(false);
    stop.abort();
    await fresh;
    await server.close();
    await monitor.close();
  } finally {
    await broker.close();
  }
}

function requireListenerKeys(config: BrokerConfig): void {
  const missing = (["server_cert", "server_key", "client_ca"] as const).filter((key) => config[key] === "");
  if (missing.length === 0) return;
  throw new AppError("invalid_config", `Cannot serve HTTP: broker config has no ${missing.join(", ")}`);
}

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

/** What the MCP frontend over HTTP needs beside a broker's ports. */
interface ServeMcpHttpPorts extends BrokerPorts {
  readonly random: Random;
  readonly fetch: typeof fetch;
}

const TIMEOUTS = { requestMs: 15_000, idleMs: 120_000 };

/**
 * Serves MCP over HTTPS until `stopped` resolves, to end users who show a token of the OpenID provider with
 * every request. The provider must answer at the start.
 */
export async function serveMcpHttp(
  config: BrokerConfig,
  ports: ServeMcpHttpPorts,
  stopped: Promise<unknown>,
): Promise<void> {
  const { logger } = ports;
  const oauth = requireKeys(config);
  const load = () =>
    loadTlsKeyPair({
      cert: { key: "server_cert", path: config.server_cert },
      key: { key: "server_key", path: config.server_key },
    });
  const tls = await load();
  const verifier = await loadEndUserVerifier(oauth, ports, "oauth");
  const broker = await createBroker(config, ports);
  try {
    const hosts = await broker.loadHosts();
    await using _sockets = await openMcpSockets(config.sockets, broker, ports);
    const mcp = createMcpHttp({
      ...ports,
      tools: createToolset(broker),
      instructions: describeTools(broker.limits),
      resource: {
        resourceUrl: config.resource_url,
        issuer: oauth.issuer,
        scopes: oauth.required_scopes,
      },
      verifier,
      onError: (error) => logger.warn("Tool call failed", { error }),
      onProtocolError: (error) => logger.warn("MCP message refused", { error: error.message }),
      onRefusal: (reason) => logger.warn("Bearer token refused", { reason }),
    });
    const traffic = new ListenerMetrics(broker.metrics);
    const server = await startTlsServer({
      listen: config.listen,
      ...tls,
      timeouts: TIMEOUTS,
      handler: (request, { trust }) => mcp.fetch(request, trust),
      onAnswer: traffic.onAnswer,
      onError: (error, requestId) => logger.error("Request failed", { request_id: requestId, error }),
    });
    traffic.watch(server);
    const monitor = await startBrokerMonitor(config, { ...ports, ...broker, frontend: "serve-mcp-http" });
    const stop = new AbortController();
    const fresh = keepFresh(
      { clock: ports.clock, signal: stop.signal, logger, what: "the listener's certificate", current: tls },
      { load, take: (tls) => server.renew(tls) },
    );
    monitor.setReady(true);
    logger.info(`mcp-broker (http) ready; ${hosts.size} hosts configured`, { ...server.address });
    await stopped;
    monitor.setReady(false);
    stop.abort();
    await fresh;
    mcp.drain();
    await server.close();
    await mcp.close();
    await monitor.close();
  } finally {
    await broker.close();
  }
}

function requireKeys(config: BrokerConfig): EndUserOidcConfig {
  const { oauth } = config;
  const missing = (["server_cert", "server_key", "resource_url"] as const).filter((key) =>
    config[key] === ""
  );
  if (oauth !== undefined && missing.length === 0) return oauth;
  const keys = [...missing, ...(oauth === undefined ? ["oauth"] : [])];
  throw new AppError("invalid_config", `Cannot serve MCP over HTTP: broker config has no ${keys.join(", ")}`);
}
