import type { Clock } from "@gateway/shared/clock";
import { type UpstreamClient, UpstreamWatch } from "@gateway/shared/http";
import { startServiceMonitor } from "@gateway/shared/http/monitor";
import type { Metrics, ServiceLogger } from "@gateway/shared/service";
import type { BrokerConfig } from "../config/config.ts";
import type { BrokerFrontend } from "../config/permissions.ts";

/** Starts the monitor listener. A broker works without it, so a failure to start is only logged. */
export async function startBrokerMonitor(
  config: BrokerConfig,
  { metrics, logger, keepsRecords, upstream: client, clock, frontend }: {
    readonly metrics: Metrics;
    readonly logger: ServiceLogger;
    readonly keepsRecords: () => boolean;
    readonly upstream: UpstreamClient | undefined;
    readonly clock: Clock;
    readonly frontend: BrokerFrontend;
  },
) {
  const { monitor_listen: listen, signer } = config;
  let isReady = false;
  let server: { close(): Promise<void> } | undefined;
  try {
    if (listen !== "") {
      server = await startServiceMonitor({
        service: "broker",
        listen,
        isReady: () => isReady && keepsRecords(),
        metrics,
        certificates: {
          ...(frontend === "serve-mcp" ? {} : { server_cert: config.server_cert }),
          ...(frontend === "serve-http" ? { client_ca: config.client_ca } : {}),
          ...(signer === undefined
            ? {}
            : { "signer.client_cert": signer.client_cert, "signer.ca": signer.ca }),
        },
        upstream: client && new UpstreamWatch({
          // The broker does not know which of the two it has.
          what: "the control plane or signer at signer.url",
          client,
          clock,
        }),
        clock,
      });
    }
  } catch (error) {
    logger.error("Cannot start monitor listener", { listen, error });
  }
  return {
    setReady(ready: boolean): void {
      isReady = ready;
    },
    close: async (): Promise<void> => await server?.close(),
  };
}
