import { openServiceAudit } from "@gateway/shared/audit/service_audit";
import type { Clock } from "@gateway/shared/clock";
import type { BrokerConfig } from "@gateway/shared/config/broker";
import { AppError } from "@gateway/shared/errors";
import { JsonClient } from "@gateway/shared/http/json_client";
import type { ServiceLogger } from "@gateway/shared/log";
import { loadTlsMaterial } from "@gateway/shared/http/tls_material";
import { createMetrics, type Metrics } from "@gateway/shared/metrics";
import { RemoteAuthority } from "./authority/remote.ts";
import { countEvents } from "./events.ts";
import { type Execute, execute } from "./execute.ts";
import { describeFault } from "./fault.ts";
import { type Hosts, HostsView } from "./hosts_view.ts";
import { trackRuns } from "./runs.ts";
import { createEphemeralKey } from "./ssh/ephemeral_key.ts";
import { runCommand } from "./ssh/run_command.ts";

/** What a broker is made of besides its config. */
export interface BrokerPorts {
  readonly clock: Clock;
  readonly logger: ServiceLogger;
}

/** A broker without a frontend. */
export interface Broker {
  readonly execute: Execute;
  readonly currentHosts: () => Promise<Hosts>;
  readonly metrics: Metrics;
  /**
   * Fetches the first host list and keeps it fresh from then on.
   *
   * @throws {AppError} `upstream_failure`: without a list there is nothing to serve
   */
  loadHosts(): Promise<Hosts>;
  /** Ends the commands that run, waits for their records, and closes the audit log. */
  close(): Promise<void>;
}

/**
 * Wires a broker of its config: reads credentials, opens the audit log. It does not talk to anybody yet.
 *
 * @throws {AppError} `invalid_config` or `audit_unavailable`, with a text for the operator
 */
export async function createBroker(config: BrokerConfig, ports: BrokerPorts): Promise<Broker> {
  const { clock, logger } = ports;
  const { signer } = config;
  const tls = await loadTlsMaterial({
    cert: { key: "signer.client_cert", path: signer.client_cert },
    key: { key: "signer.client_key", path: signer.client_key },
    ca: { key: "signer.ca", path: signer.ca },
  });
  const metrics = createMetrics();
  const counter = metrics.counter("broker_events_total", "Audit events by outcome", ["outcome"]);
  const gate = await openServiceAudit({ config, clock, metrics, logger });
  // A list of 10,000 hosts is about 2 MB.
  const client = new JsonClient({
    what: "the signer",
    baseUrl: signer.url,
    ...tls,
    maxResponseBytes: 8 << 20,
  });
  const authority = new RemoteAuthority(client);
  const hosts = new HostsView(() => authority.hosts());
  const events = countEvents(gate, (outcome) => counter.inc({ outcome }));
  const { max_ttl_seconds: maxTtlSeconds } = config;
  const executePorts = { authority, hosts, createKey: createEphemeralKey, runCommand, events, maxTtlSeconds };
  const runs = trackRuns((request, signal) => execute(executePorts, request, signal));

  const stop = new AbortController();
  let refreshing: Promise<void> = Promise.resolve();
  return {
    execute: runs.execute,
    currentHosts: () => hosts.current(),
    metrics,
    async loadHosts() {
      const loaded = await loadFirst(hosts);
      refreshing = hosts.refreshEvery({
        clock,
        seconds: config.hosts_refresh_seconds,
        signal: stop.signal,
        onError: (error) => logger.warn("Cannot refresh host list, keeping the last one", { error }),
      });
      return loaded;
    },
    async close() {
      stop.abort();
      await runs.cancel();
      await refreshing;
      client.close();
      await gate.close();
    },
  };
}

async function loadFirst(hosts: HostsView): Promise<Hosts> {
  try {
    return await hosts.refresh();
  } catch (cause) {
    throw new AppError("upstream_failure", `initial host load from signer: ${describeFault(cause)}`, {
      cause,
    });
  }
}
