import { startServiceMonitor } from "@gateway/shared/http/monitor";
import { type UpstreamClient, UpstreamWatch } from "@gateway/shared/http";
import type { Clock } from "@gateway/shared/clock";
import type { Metrics, ServiceLogger } from "@gateway/shared/service";
import type { BrokerConfig } from "../config/config.ts";
import type { BrokerFrontend } from "../config/permissions.ts";

/** The monitor listener of a broker, or nothing where none is configured. */
interface BrokerMonitor {
  /** What `/readyz` answers from now on. */
  setReady(ready: boolean): void;
  close(): Promise<void>;
}

/** What the listener shows, and where it reports that it could not start. */
interface MonitorPorts {
  readonly metrics: Metrics;
  readonly logger: ServiceLogger;
  readonly keepsRecords: () => boolean;
  /** Whom the broker can do nothing without; nobody in local mode. */
  readonly upstream: UpstreamClient | undefined;
  readonly clock: Clock;
  /** It says which certificates the process has read. */
  readonly frontend: BrokerFrontend;
}

/** The broker can't tell which of them it has been given. */
const UPSTREAM = "the control plane or signer at signer.url";

/** Starts the monitor listener. A broker works without it, so failing to start it is logged and no more. */
export async function startBrokerMonitor(
  config: BrokerConfig,
  { metrics, logger, keepsRecords, upstream: client, clock, frontend }: MonitorPorts,
): Promise<BrokerMonitor> {
  const { monitor_listen: listen, signer } = config;
  let isReady = false;
  const setReady = (ready: boolean) => {
    isReady = ready;
  };
  const nothing: BrokerMonitor = { setReady, close: () => Promise.resolve() };
  if (listen === "") return nothing;
  const upstream = client && new UpstreamWatch({ what: UPSTREAM, client, clock });
  try {
    const server = await startServiceMonitor({
      service: "broker",
      listen,
      isReady: () => isReady && keepsRecords(),
      metrics,
      certificates: {
        ...(frontend === "serve-mcp" ? {} : { server_cert: config.server_cert }),
        ...(frontend === "serve-http" ? { client_ca: config.client_ca } : {}),
        ...(signer === undefined ? {} : { "signer.client_cert": signer.client_cert, "signer.ca": signer.ca }),
      },
      upstream,
      clock,
    });
    return { setReady, close: () => server.close() };
  } catch (error) {
    logger.error("Cannot start monitor listener", { listen, error });
    return nothing;
  }
}
