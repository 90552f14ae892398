import { type ListenerParts, openListener } from "@gateway/shared/daemon";
import { AppError } from "@gateway/shared/errors";
import {
  keepFresh,
  keepListenerFresh,
  ListenerMetrics,
  loadListenerTls,
  loadTlsKeyPair,
  startMtlsServer,
  startTlsServer,
  UpstreamWatch,
} from "@gateway/shared/http";
import { startServiceMonitor } from "@gateway/shared/http/monitor";
import { type BrokerPorts, createBroker } from "./app.ts";
import type { BrokerConfig } from "./config/config.ts";
import type { BrokerFrontend } from "./config/permissions.ts";
import { openMcpSockets } from "./frontends/mcp_sockets.ts";
import type { StdioStreams } from "./frontends/mcp_stdio.ts";

type RunningListener = Awaited<ReturnType<typeof startTlsServer>>;
type Broker = Awaited<ReturnType<typeof createBroker>>;

/** Starts and stops the listener of a frontend. */
interface Frontend<Server extends RunningListener> extends ListenerParts<Server> {
  /** Called before the listener closes. */
  readonly drain?: () => void;
  readonly close?: () => Promise<void>;
}

export async function serveHttp(config: BrokerConfig, ports: BrokerPorts, stopped: Promise<unknown>) {
  // The libraries of a frontend are loaded only by the process that serves it.
  const frontend = import("./frontends/http.ts");
  requireKeys(config, "HTTP", ["server_cert", "server_key", "client_ca"]);
  const current = await loadListenerTls(config);
  const { createHttpFrontend } = await frontend;
  await serveListener(config, ports, stopped, {
    frontend: "serve-http",
    name: "broker (http)",
    serve(broker) {
      const handler = createHttpFrontend({ ...broker, runCallers: config.run_callers });
      return {
        start: (common) => startMtlsServer({ ...common, ...current, handler }),
        keepFresh: (server, watch) => keepListenerFresh({ ...watch, current }, config, server),
      };
    },
  });
}

/**
 * Serves MCP over HTTPS until `stopped` resolves, to end users whose every request has a token of the OpenID
 * provider. The provider must be available at the start.
 */
export async function serveMcpHttp(
  config: BrokerConfig,
  ports: BrokerPorts & { readonly fetch: typeof fetch },
  stopped: Promise<unknown>,
) {
  const modules = Promise.all([import("./frontends/mcp_http.ts"), import("./frontends/mcp_server.ts")]);
  const { oauth } = config;
  const keys = ["server_cert", "server_key", "resource_url", "oauth"] as const;
  requireKeys(config, "MCP over HTTP", keys);
  if (oauth === undefined) throw new TypeError("Config has no oauth");
  const load = () =>
    loadTlsKeyPair({
      cert: { key: "server_cert", path: config.server_cert },
      key: { key: "server_key", path: config.server_key },
    });
  const current = await load();
  const { loadEndUserVerifier } = await import("@gateway/shared/oidc");
  const verifier = await loadEndUserVerifier(oauth, ports, "oauth");
  const [{ createMcpHttp }, { mcpOptions }] = await modules;
  await serveListener(config, ports, stopped, {
    frontend: "serve-mcp-http",
    name: "mcp-broker (http)",
    serve(broker) {
      const mcp = createMcpHttp({
        ...ports,
        ...mcpOptions(broker, ports.logger),
        resource: { resourceUrl: config.resource_url, issuer: oauth.issuer, scopes: oauth.required_scopes },
        verifier,
        onRefusal: (reason) => ports.logger.warn("Bearer token rejected", { reason }),
      });
      return {
        start: (common) =>
          startTlsServer({
            ...{ ...common, ...current, timeouts: { requestMs: 15_000, idleMs: 120_000 } },
            handler: (request, { trust }) => mcp.fetch(request, trust),
          }),
        keepFresh: (server, watch) =>
          keepFresh({ ...watch, what: "the listener's certificate", current }, {
            ...{ load, take: (tls) => server.renew(tls) },
          }),
        drain: () => mcp.drain(),
        close: () => mcp.close(),
      };
    },
  });
}

/**
 * Serves MCP on the standard streams until the client closes its end or `stopped` resolves. The broker
 * answers the client before the first host list has arrived, and exits if the list cannot be fetched.
 */
export async function serveMcp(
  config: BrokerConfig,
  ports: BrokerPorts & { readonly streams: StdioStreams },
  stopped: Promise<unknown>,
) {
  const { logger, streams, clock, random } = ports;
  const modules = Promise.all([import("./frontends/mcp_stdio.ts"), import("./frontends/mcp_server.ts")]);
  // Every window of an MCP client starts its own broker, all with one config.
  const broker = await createBroker(config, { ...ports, mayShareConfig: true });
  const [{ serveMcpStdio }, { mcpOptions }] = await modules;
  const mcp = serveMcpStdio({
    ...{ ...streams, clock, random, ...mcpOptions(broker, logger) },
    askInChat: config.approval_via_elicitation,
  });
  const monitor = await startMonitor(config, broker, ports, "serve-mcp");
  const announce = async () => {
    const hosts = await broker.loadHosts();
    monitor.setReady(true);
    logger.info(describeReady("mcp-broker (stdio)", hosts.size), { hosts: hosts.size });
  };
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
}

function describeReady(name: string, hosts: number): string {
  return `${name} ready; ${hosts} ${hosts === 1 ? "host" : "hosts"} configured`;
}

async function serveListener<Server extends RunningListener>(
  config: BrokerConfig,
  ports: BrokerPorts,
  stopped: Promise<unknown>,
  { frontend, name, serve }: {
    readonly frontend: BrokerFrontend;
    readonly name: string;
    readonly serve: (broker: Broker) => Frontend<Server>;
  },
): Promise<void> {
  const { logger, clock } = ports;
  const broker = await createBroker(config, ports);
  try {
    const hosts = await broker.loadHosts();
    await using _sockets = await openMcpSockets(config.sockets, broker, ports);
    const { drain, close, ...parts } = serve(broker);
    const { listen } = config;
    const traffic = new ListenerMetrics(broker.metrics);
    const listener = await openListener({ listen, traffic, clock, logger }, parts);
    const monitor = await startMonitor(config, broker, ports, frontend);
    monitor.setReady(true);
    const { address } = listener.server;
    const facts = { listen: `${address.hostname}:${address.port}`, hosts: hosts.size };
    logger.info(describeReady(name, hosts.size), { ...address, ...facts });
    await stopped;
    monitor.setReady(false);
    drain?.();
    await listener.close();
    await close?.();
    await monitor.close();
  } finally {
    await broker.close();
  }
}

/** Starts the monitor listener. A broker works without it, so a failure to start is only logged. */
async function startMonitor(
  { monitor_listen: listen, server_cert, client_ca, signer }: BrokerConfig,
  { metrics, keepsRecords, upstream: client }: Broker,
  { clock, logger }: BrokerPorts,
  frontend: BrokerFrontend,
) {
  let isReady = false;
  const start = () =>
    startServiceMonitor({
      ...{ service: "broker", listen, metrics, clock },
      isReady: () => isReady && keepsRecords(),
      certificates: {
        ...(frontend !== "serve-mcp" && { server_cert }),
        ...(frontend === "serve-http" && { client_ca }),
        ...(signer && { "signer.client_cert": signer.client_cert, "signer.ca": signer.ca }),
      },
      // The upstream is a signer or a control plane. The broker does not know which.
      upstream: client &&
        new UpstreamWatch({ what: "the control plane or signer at signer.url", client, clock }),
    });
  const server = listen === "" ? undefined : await start().catch((error) => {
    logger.error("Cannot start monitor listener", { listen, error });
  });
  return {
    setReady(ready: boolean): void {
      isReady = ready;
    },
    close: async (): Promise<void> => await server?.close(),
  };
}

function requireKeys(config: BrokerConfig, what: string, keys: readonly (keyof BrokerConfig)[]): void {
  const missing = keys.filter((key) => config[key] === "" || config[key] === undefined);
  if (missing.length === 0) return;
  throw new AppError("invalid_config", `Cannot serve ${what}: broker config has no ${missing.join(", ")}`);
}
