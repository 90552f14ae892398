import { openServiceAudit } from "@gateway/shared/audit";
import { AppError, describeFault } from "@gateway/shared/errors";
import { ApiServer } from "@gateway/shared/kubernetes";
import { createRedactor } from "@gateway/shared/redact";
import { createMetrics } from "@gateway/shared/service/metrics";
import type { AuthorityPorts } from "./authority/authority.ts";
import { loadAuthority } from "./authority/load.ts";
import type { BrokerConfig } from "./config/config.ts";
import { Clusters } from "./kubernetes/clusters.ts";
import { runAction } from "./kubernetes/run_action.ts";
import { execute } from "./request/execute.ts";
import { countEvents, createTimings, timeAuthority, trackRuns } from "./request/records.ts";
import { Inventory } from "./request/route.ts";
import { getFile, putFile } from "./request/transfer.ts";
import { startSessions } from "./sessions/sessions.ts";
import { createEphemeralKey } from "./ssh/login.ts";
import { runCommand, type RunCommandOptions } from "./ssh/run_command.ts";

export interface BrokerPorts extends AuthorityPorts {
  /** Several processes may run with one config, each with its own audit log. By default only one process may. */
  readonly mayShareConfig?: boolean;
}

/**
 * Wires a broker from its config: reads credentials and opens the audit log. It sends no request yet.
 * @throws {AppError} `invalid_config` or `audit_unavailable`, with a text for the operator
 */
export async function createBroker(config: BrokerConfig, ports: BrokerPorts) {
  const { clock, logger, random, mayShareConfig } = ports;
  const { max_ttl_seconds: maxTtlSeconds, max_output_bytes: maxOutputBytes } = config;
  const maxFileBytes = config.file_transfer_max_bytes;
  const openAuthority = await loadAuthority(config, ports);
  const metrics = createMetrics();
  const counter = metrics.counter("broker_events_total", "Audit events by outcome", ["outcome"]);
  const gate = await openServiceAudit({ config, clock, metrics, logger, mayShareConfig });
  const events = countEvents(gate, (outcome) => counter.inc({ outcome }));
  const { signer, upstream, ...opened } = openAuthority(events);
  const timings = createTimings(metrics);
  const authority = timeAuthority(opened.authority, timings);
  const hosts = new Inventory(() => authority.hosts());
  const clusters = new Clusters({
    clock,
    fetch: () => authority.clusters(),
    connect: ({ api_server: url, ca_cert_pem: ca }) => new ApiServer({ url, ca, clock }),
  });
  const runs = trackRuns();
  const track = <Ports, Request, Result>(
    ports: Ports,
    run: (ports: Ports, request: Request, signal: AbortSignal) => Promise<Result>,
  ) => runs.track<Request, Result>((request, signal) => run(ports, request, signal));
  const requests = {
    ...{ authority, hosts, clock, events, maxTtlSeconds, createKey: createEphemeralKey },
    runCommand: (options: RunCommandOptions) => runCommand({ ...options, timings }),
  };
  const transfer = { ...requests, maxBytes: maxFileBytes };
  const redact = createRedactor(config.redact);
  const actions = { ...{ authority, clusters, events, clock, maxOutputBytes }, redact };
  const sessions = startSessions(config, { ...requests, ...ports, signer, metrics, timings, runs, redact });
  const stop = new AbortController();
  let refreshing: Promise<unknown> = Promise.resolve();
  return {
    execute: track(requests, execute),
    putFile: track(transfer, putFile),
    getFile: track(transfer, getFile),
    sessions: sessions.sessions,
    runAction: track(actions, runAction),
    clusters,
    currentClusters: () => clusters.inventory.current(),
    currentHosts: () => hosts.current(),
    hostRules: track(authority, ({ rules }, names: readonly string[], signal) => rules(names, signal)),
    limits: {
      maxOutputBytes,
      maxFileBytes,
      maxTtlSeconds,
      approvalWaitSeconds: config.signer?.approval_wait_seconds ?? 0,
      sessionIdleSeconds: config.session_idle_seconds,
      sessionMaxSeconds: config.session_max_seconds,
    },
    random,
    metrics,
    events,
    /** Whether actions can proceed: audit records can be written, or the fail mode does not require them. */
    keepsRecords: () => gate.isOpen,
    /** The client for readiness checks of the signer or control plane. Absent in local mode. */
    upstream,
    /**
     * Fetches the first lists of hosts and clusters, and refreshes them from then on.
     * @throws {AppError} `upstream_failure`: a broker without a list of hosts is useless
     */
    async loadHosts() {
      const loaded = await hosts.refresh().catch((cause) => {
        const text = `initial host load from signer: ${describeFault(cause)}`;
        throw new AppError("upstream_failure", text, { cause });
      });
      // A failure does not stop the broker. It serves hosts without clusters, and offers the cluster tools
      // when a list arrives.
      await clusters.inventory.refresh().catch((error) => {
        logger.warn("Cannot load cluster list, no cluster is available until a retry succeeds", { error });
      });
      // In local mode the lists come from the config and never change.
      if (config.signer === undefined) return loaded;
      const refresh = (what: string) => ({
        clock,
        seconds: config.hosts_refresh_seconds,
        signal: stop.signal,
        onError: (error: unknown) =>
          logger.warn(`Cannot refresh ${what} list, keeping the last one`, { error }),
      });
      refreshing = Promise.all([
        hosts.refreshEvery(refresh("host")),
        clusters.inventory.refreshEvery(refresh("cluster")),
      ]);
      return loaded;
    },
    /** Ends running commands and all sessions, waits for their records, and closes the audit log. */
    async close() {
      stop.abort();
      await runs.cancel();
      await sessions.close();
      await refreshing;
      clusters.close();
      opened.close();
      await gate.close();
    },
  };
}
