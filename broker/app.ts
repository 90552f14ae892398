import { openServiceAudit } from "@gateway/shared/audit";
import { AppError, describeFault } from "@gateway/shared/errors";
import type { UpstreamClient } from "@gateway/shared/http";
import type { Random } from "@gateway/shared/clock";
import { createRedactor } from "@gateway/shared/redact";
import { createMetrics } from "@gateway/shared/service/metrics";
import type { Metrics } from "@gateway/shared/service";
import { loadAuthority } from "./authority/load.ts";
import type { Authority, AuthorityPorts } from "./authority/authority.ts";
import type { BrokerConfig } from "./config/config.ts";
import { countEvents, createTimings, type Events, timeAuthority, trackRuns } from "./request/records.ts";
import { type Execute, execute } from "./request/execute.ts";
import { Clusters, connectTo } from "./kubernetes/clusters.ts";
import { type RunAction, runAction } from "./kubernetes/run_action.ts";
import { type Hosts, type HostsView, Inventory } from "./request/route.ts";
import type { Sessions } from "./sessions/sessions.ts";
import { startSessions } from "./sessions/start.ts";
import { createEphemeralKey } from "./ssh/login.ts";
import { runCommand, type RunCommandOptions } from "./ssh/run_command.ts";
import type { ToolLimits } from "./tools/tool.ts";
import { type GetFile, getFile, type PutFile, putFile, type TransferPorts } from "./request/transfer.ts";

/** What a broker is made of besides its config. */
export interface BrokerPorts extends AuthorityPorts {
  /** Whether several processes may run with one config, each with an audit log of its own; by default only one may. */
  readonly mayShareConfig?: boolean;
}

interface Broker {
  readonly execute: Execute;
  readonly putFile: PutFile;
  readonly getFile: GetFile;
  readonly sessions: Sessions;
  readonly runAction: RunAction;
  readonly clusters: Pick<Clusters, "isEmpty" | "watch">;
  readonly currentClusters: () => ReturnType<Clusters["current"]>;
  readonly currentHosts: () => Promise<Hosts>;
  /** What may be done on hosts, as the authority tells. */
  readonly hostRules: Authority["rules"];
  readonly limits: ToolLimits;
  readonly random: Random;
  readonly metrics: Metrics;
  readonly events: Events;
  /** Whether the audit log is in its place, or need not be. */
  readonly keepsRecords: () => boolean;
  /** The signer or a control plane in front of it, to be asked whether it answers; nobody in local mode. */
  readonly upstream: UpstreamClient | undefined;
  /**
   * Fetches the first lists of hosts and clusters and keeps them fresh from then on.
   *
   * @throws {AppError} `upstream_failure`: without a list of hosts there is nothing to serve
   */
  loadHosts(): Promise<Hosts>;
  /** Ends the commands that run and all sessions, waits for their records, and closes the audit log. */
  close(): Promise<void>;
}

/**
 * Wires a broker of its config: reads credentials, opens the audit log. It does not talk to anybody yet.
 *
 * @throws {AppError} `invalid_config` or `audit_unavailable`, with a text for the operator
 */
export async function createBroker(config: BrokerConfig, ports: BrokerPorts): Promise<Broker> {
  const { clock, logger, mayShareConfig } = ports;
  const openAuthority = await loadAuthority(config, ports);
  const metrics = createMetrics();
  const counter = metrics.counter("broker_events_total", "Audit events by outcome", ["outcome"]);
  const gate = await openServiceAudit({ config, clock, metrics, logger, mayShareConfig });
  const events = countEvents(gate, (outcome) => counter.inc({ outcome }));
  const opened = openAuthority(events);
  const timings = createTimings(metrics);
  const authority = timeAuthority(opened.authority, timings);
  const hosts = new Inventory(() => authority.hosts());
  const clusters = new Clusters({ clock, fetch: () => authority.clusters(), connect: connectTo(clock) });
  const { max_ttl_seconds: maxTtlSeconds } = config;
  const oneShot = {
    authority,
    hosts,
    clock,
    createKey: createEphemeralKey,
    runCommand: (options: RunCommandOptions) => runCommand({ ...options, timings }),
    events,
    maxTtlSeconds,
  };
  const transfer: TransferPorts = {
    execute: (request, signal) => execute(oneShot, request, signal),
    events,
    maxBytes: config.file_transfer_max_bytes,
  };
  const actions = {
    authority,
    clusters,
    events,
    clock,
    redact: createRedactor(config.redact),
    maxOutputBytes: config.max_output_bytes,
  };
  const runs = trackRuns();
  const sessions = startSessions(config, {
    ...oneShot,
    ...ports,
    signer: opened.signer,
    metrics,
    timings,
    runs,
  });

  const stop = new AbortController();
  let refreshing: Promise<unknown> = Promise.resolve();
  return {
    execute: runs.track((request, signal) => execute(oneShot, request, signal)),
    putFile: runs.track((request, signal) => putFile(transfer, request, signal)),
    getFile: runs.track((request, signal) => getFile(transfer, request, signal)),
    sessions: sessions.sessions,
    runAction: runs.track((request, signal) => runAction(actions, request, signal)),
    clusters,
    currentClusters: () => clusters.current(),
    currentHosts: () => hosts.current(),
    hostRules: runs.track((names, signal) => authority.rules(names, signal)),
    limits: limitsOf(config),
    random: ports.random,
    metrics,
    events,
    keepsRecords: () => gate.isOpen,
    upstream: opened.upstream,
    async loadHosts() {
      const loaded = await loadFirst(hosts);
      // Without them there are hosts to serve: their tools come when the list does.
      await clusters.refresh().catch((error) => {
        logger.warn("Cannot load cluster list, there are no clusters until it can be loaded", { error });
      });
      // In local mode the lists are the config's: they do not change.
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
        clusters.refreshEvery(refresh("cluster")),
      ]);
      return loaded;
    },
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

function limitsOf(config: BrokerConfig): ToolLimits {
  return {
    maxOutputBytes: config.max_output_bytes,
    maxFileBytes: config.file_transfer_max_bytes,
    maxTtlSeconds: config.max_ttl_seconds,
    approvalWaitSeconds: config.signer?.approval_wait_seconds ?? 0,
    sessionIdleSeconds: config.session_idle_seconds,
    sessionMaxSeconds: config.session_max_seconds,
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
