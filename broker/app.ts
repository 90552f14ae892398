import { openFileAuditLog } from "@gateway/shared/audit/file_log";
import { AuditGate } from "@gateway/shared/audit/gate";
import type { Clock } from "@gateway/shared/clock";
import type { BrokerConfig } from "@gateway/shared/config/broker";
import { AppError } from "@gateway/shared/errors";
import { JsonClient } from "@gateway/shared/http/json_client";
import type { ServiceLogger } from "@gateway/shared/log";
import { createMetrics, type Metrics } from "@gateway/shared/metrics";
import { createRedactor } from "@gateway/shared/redact/redact";
import { RemoteAuthority } from "./authority/remote.ts";
import { loadTlsMaterial, readAuditKey } from "./credentials.ts";
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
  const [tls, seed] = await Promise.all([
    loadTlsMaterial({
      cert: { key: "signer.client_cert", path: signer.client_cert },
      key: { key: "signer.client_key", path: signer.client_key },
      ca: { key: "signer.ca", path: signer.ca },
    }),
    readAuditKey({ key: "audit_key", path: config.audit_key }),
  ]);
  const redact = createRedactor(config.redact);
  const log = await openFileAuditLog({ path: config.audit_log, seed, clock, redact, logger });

  const metrics = createMetrics();
  const counters = createCounters(metrics);
  const gate = new AuditGate({
    log,
    failMode: config.audit_fail_mode,
    logger,
    onAppendFailure: () => counters.appendFailures.inc(),
    onBlocked: () => counters.blocked.inc(),
  });
  const client = new JsonClient({ what: "the signer", baseUrl: signer.url, ...tls });
  const authority = new RemoteAuthority(client);
  const hosts = new HostsView(() => authority.hosts());
  const events = countEvents(gate, (outcome) => counters.events.inc({ outcome }));
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

function createCounters(metrics: Metrics) {
  return {
    events: metrics.counter("broker_events_total", "Audit events by outcome", ["outcome"]),
    appendFailures: metrics.counter("audit_append_failures_total", "Audit append errors"),
    blocked: metrics.counter(
      "audit_blocked_total",
      "Actions denied because the audit log could not be written in closed mode",
    ),
  };
}
