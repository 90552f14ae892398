import { startMonitor } from "@gateway/shared/http/monitor";
import type { Clock } from "@gateway/shared/clock";
import { type UpstreamClient, UpstreamWatch } from "@gateway/shared/http/upstream";
import type { ServiceLogger } from "@gateway/shared/log";
import type { Metrics } from "@gateway/shared/metrics";
import type { BrokerConfig } from "./config.ts";

/** The monitor listener of a broker, or nothing where none is configured. */
export interface BrokerMonitor {
  /** What `/readyz` answers from now on. */
  setReady(ready: boolean): void;
  close(): Promise<void>;
}

/** What the listener shows, and where it reports that it could not start. */
export interface MonitorPorts {
  readonly metrics: Metrics;
  readonly logger: ServiceLogger;
  /** Whether records can be kept. */
  readonly keepsRecords: () => boolean;
  /** Whom the broker can do nothing without; nobody in local mode. */
  readonly upstream: UpstreamClient | undefined;
  readonly clock: Clock;
}

/** The broker can't tell which of them it has been given. */
const UPSTREAM = "the control plane or signer at signer.url";

/** Starts the monitor listener. A broker works without it, so failing to start it is logged and no more. */
export async function startBrokerMonitor(
  { monitor_listen: listen }: BrokerConfig,
  { metrics, logger, keepsRecords, upstream: client, clock }: MonitorPorts,
): Promise<BrokerMonitor> {
  let isReady = false;
  const setReady = (ready: boolean) => {
    isReady = ready;
  };
  const nothing: BrokerMonitor = { setReady, close: () => Promise.resolve() };
  if (listen === "") return nothing;
  const upstream = client && new UpstreamWatch({ what: UPSTREAM, client, clock });
  const stop = new AbortController();
  try {
    const server = await startMonitor({
      listen,
      isReady: () => isReady && keepsRecords(),
      problem: () => upstream?.problem(),
      metrics,
    });
    const watching = upstream?.run(stop.signal);
    return {
      setReady,
      async close() {
        stop.abort();
        await watching;
        await server.close();
      },
    };
  } catch (error) {
    logger.error("Cannot start monitor listener", { listen, error });
    return nothing;
  }
}
