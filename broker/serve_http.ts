import { AppError } from "@gateway/shared/errors";
import { keepListenerFresh, ListenerMetrics, loadListenerTls, startMtlsServer } from "@gateway/shared/http";
import { type BrokerPorts, createBroker } from "./app.ts";
import type { BrokerConfig } from "./config/config.ts";
import { createHttpFrontend } from "./frontends/http.ts";
import { openMcpSockets } from "./frontends/mcp_sockets.ts";
import { startBrokerMonitor } from "./frontends/monitor.ts";

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
