import { startMonitor } from "@gateway/shared/http/monitor";
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
}

/** Starts the monitor listener. A broker works without it, so failing to start it is logged and no more. */
export async function startBrokerMonitor(
  { monitor_listen: listen }: BrokerConfig,
  { metrics, logger, keepsRecords }: MonitorPorts,
): Promise<BrokerMonitor> {
  let isReady = false;
  const setReady = (ready: boolean) => {
    isReady = ready;
  };
  const nothing: BrokerMonitor = { setReady, close: () => Promise.resolve() };
  if (listen === "") return nothing;
  try {
    const server = await startMonitor({ listen, isReady: () => isReady && keepsRecords(), metrics });
    return { setReady, close: () => server.close() };
  } catch (error) {
    logger.error("Cannot start monitor listener", { listen, error });
    return nothing;
  }
}
