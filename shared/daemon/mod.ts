/**
 * The common parts of all daemons: start, reload, stop, listeners and state.
 *
 * @module
 */

import { type AuditGate, openServiceAudit } from "../audit/mod.ts";
import { type Clock, type Elapsed, type Random, systemClock, systemElapsed, systemRandom } from "../clock.ts";
import { findExposedFiles, type UsedFile } from "../files/mod.ts";
import {
  keepFresh,
  keepListenerFresh,
  ListenerMetrics,
  type ListenerOptions,
  loadListenerTls,
  type MtlsServer,
  type MtlsServerOptions,
  startMtlsServer,
  startTlsServer,
  type TlsServerOptions,
  type UnknownPeer,
} from "../http/mod.ts";
import { startServiceMonitor } from "../http/monitor.ts";
import { SharedGroup } from "../instances/group.ts";
import type { Shared } from "../instances/postgres_link.ts";
import { configureLogging, getServiceLogger } from "../service/log.ts";
import { createMetrics, type Metrics } from "../service/metrics.ts";
import {
  describeVersion,
  type LogFields,
  parseServiceArguments,
  type ServiceLogger,
  VERSION,
  waitForStop,
} from "../service/mod.ts";
import { isPostgresUrl } from "../state/postgres_settings.ts";
import { writeAllSync } from "../text.ts";

/** The environment of a daemon: its config file, time, randomness and machine. */
export interface Environment {
  readonly configPath: string;
  readonly clock: Clock;
  readonly elapsed: Elapsed;
  readonly random: Random;
  readonly readHostname: () => string;
  readonly readEnv: (name: string) => string | undefined;
  readonly fetch: typeof fetch;
  readonly logger: ServiceLogger;
}

interface MainOptions {
  /** In logs, such as `control-plane`. */
  readonly name: string;
  readonly usage: string;
  readonly defaultConfig: string;
  readonly start: (environment: Environment) => Promise<{
    readonly address: MtlsServer["address"];
    /** Facts for the log when the daemon is ready. */
    readonly facts: LogFields;
    /** Called for SIGHUP. */
    readonly reload?: () => void;
    readonly close: () => Promise<void>;
  }>;
}

/** Runs a daemon until SIGINT or SIGTERM. @returns its exit code */
export async function runDaemon(
  args: readonly string[],
  { name, usage, defaultConfig, start }: MainOptions,
): Promise<number> {
  const { help, version, verbose, config: configPath, logFormat } = parseServiceArguments(args, {
    defaultConfig,
  });
  if (help || version) {
    writeAllSync(Deno.stdout, help ? usage : `${describeVersion({ verbose })}\n`);
    return 0;
  }
  configureLogging(logFormat);
  const logger = getServiceLogger(name);
  const daemon = await start({
    configPath,
    clock: systemClock,
    elapsed: systemElapsed,
    random: systemRandom,
    readHostname: () => Deno.hostname(),
    readEnv: (name) => Deno.env.get(name),
    fetch,
    logger,
  });
  const { address: { hostname, port }, facts, reload } = daemon;
  const title = name.replace("-", " ");
  logger.info(`${title} ready`, { listen: `${hostname}:${port}`, ...facts });
  if (reload !== undefined) Deno.addSignalListener("SIGHUP", reload);
  const signal = await waitForStop();
  logger.info(`${title} stopping`, { signal });
  if (reload !== undefined) Deno.removeSignalListener("SIGHUP", reload);
  await daemon.close();
  return 0;
}

type ListenerConfig = Parameters<typeof loadListenerTls>[0] & {
  readonly listen: string;
  readonly monitor_listen: string;
};

interface DaemonOptions {
  readonly name: string;
  readonly config: ListenerConfig & Parameters<typeof openServiceAudit>[0]["config"];
  /** The files of the service. The rights of other users on these files are checked. */
  readonly usedFiles: readonly UsedFile[];
  readonly environment: Environment;
}

/** The parts of a daemon that every service has. */
interface Daemon {
  readonly metrics: Metrics;
  readonly gate: AuditGate;
  /** The resources of the daemon, closed in reverse order. */
  readonly opened: AsyncDisposableStack;
  /** Aborted when the daemon begins to stop. */
  readonly stopping: AbortSignal;
  /** Starts the monitor, if one is configured. */
  startMonitor(
    options: Pick<Parameters<typeof startServiceMonitor>[0], "problem" | "upstream" | "certificates">,
  ): Promise<void>;
  /** Starts the listener. */
  listen(
    options: Pick<MtlsServerOptions, "handler" | "isReserved" | "unauthenticatedPage">,
  ): Promise<MtlsServer>;
  /** Starts another listener, with TLS and without client certificates. */
  listenWithoutCertificates(options: PlainTlsOptions): Promise<void>;
}

interface PlainTlsOptions extends Pick<TlsServerOptions<UnknownPeer>, "listen" | "handler"> {
  /** The config key of the address, for the log. */
  readonly key: string;
  readonly loadTls: () => Promise<Pick<TlsServerOptions<UnknownPeer>, "cert" | "key">>;
}

/**
 * Starts a daemon with mutual TLS. A failure closes everything before any request is answered.
 *
 * @param build starts the parts of this daemon, then calls `listen`
 */
export async function startDaemon<Running extends object>(
  { name, config, usedFiles, environment: { clock, logger } }: DaemonOptions,
  build: (daemon: Daemon) => Promise<Running>,
): Promise<Running & { readonly close: () => Promise<void> }> {
  for (const exposed of await findExposedFiles(usedFiles)) logger.warn(exposed);
  const tls = await loadListenerTls(config);
  const metrics = createMetrics();
  const traffic = new ListenerMetrics(metrics);
  let isReady = false;
  const stop = new AbortController();
  await using opened = new AsyncDisposableStack();
  const gate = await openServiceAudit({ config, clock, metrics, logger });
  opened.defer(() => gate.close());
  const running = await build({
    metrics,
    gate,
    opened,
    stopping: stop.signal,
    async startMonitor({ certificates, ...options }) {
      const { monitor_listen: listen, server_cert, client_ca } = config;
      if (listen === "") return;
      const monitor = await startServiceMonitor({
        ...options,
        ...{ service: name, listen, metrics, clock },
        certificates: { server_cert, client_ca, ...certificates },
        isReady: () => isReady && gate.isOpen,
      });
      opened.defer(() => monitor.close());
    },
    async listen(options) {
      const listener = await openListener({ listen: config.listen, traffic, clock, logger }, {
        start: (common) => startMtlsServer({ ...common, ...options, ...tls }),
        keepFresh: (server, watch) => keepListenerFresh({ ...watch, current: tls }, config, server),
      });
      opened.defer(() => listener.close());
      return listener.server;
    },
    async listenWithoutCertificates({ key, listen, handler, loadTls }) {
      const current = await loadTls();
      const what = `the certificate of ${key}`;
      const listener = await openListener({ listen, traffic, clock, logger }, {
        start: (common) => startTlsServer({ ...common, ...current, handler }),
        keepFresh: (server, watch) =>
          keepFresh({ ...watch, what, current }, { load: loadTls, take: (tls) => server.renew(tls) }),
      });
      opened.defer(() => listener.close());
    },
  });
  isReady = true;
  const closing = opened.move();
  return {
    ...running,
    close() {
      isReady = false;
      stop.abort();
      return closing.disposeAsync();
    },
  };
}

interface ListenerPorts {
  readonly listen: string;
  readonly traffic: ListenerMetrics;
  readonly clock: Clock;
  readonly logger: ServiceLogger;
}

/** A listener that can be watched and closed. */
type Server = { close(): Promise<void> } & Parameters<ListenerMetrics["watch"]>[0];

/** The functions that start a listener and load its new certificates. */
export interface ListenerParts<S extends Server = Server> {
  readonly start: (common: Pick<ListenerOptions<unknown>, "listen" | "onAnswer" | "onError">) => Promise<S>;
  readonly keepFresh: (
    server: S,
    watch: Pick<ListenerPorts, "clock" | "logger"> & { readonly signal: AbortSignal },
  ) => Promise<void>;
}

/** Starts a listener with its metrics, and keeps its certificates fresh until it is closed. */
export async function openListener<S extends Server>(
  { listen, traffic, clock, logger }: ListenerPorts,
  { start, keepFresh }: ListenerParts<S>,
): Promise<{ readonly server: S; readonly close: () => Promise<void> }> {
  const server = await start({
    listen,
    onAnswer: traffic.onAnswer,
    onError: (error, requestId) => logger.error("request failed", { error, request_id: requestId }),
  });
  traffic.watch(server);
  const stop = new AbortController();
  const fresh = keepFresh(server, { clock, logger, signal: stop.signal });
  return {
    server,
    async close() {
      stop.abort();
      await fresh;
      await server.close();
    },
  };
}

/** State of this instance alone, or state that several instances share. */
type OpenedState<Own, Joint extends { readonly shared: Shared }> =
  | { readonly store: Own; readonly group?: undefined; readonly shared?: undefined }
  | { readonly store: Joint; readonly group: SharedGroup; readonly shared: Joint["shared"] };

/**
 * Opens the state of a service. Services with the same PostgreSQL database form a group, each with its own name.
 *
 * @param what the service in messages
 */
export async function openState<Own, Joint extends { readonly shared: Shared; close(): Promise<void> }>(
  what: string,
  config: { readonly state_db: string; readonly instance: string },
  { clock, elapsed, random, logger, readHostname }: Environment,
  open: { readonly own: () => Own; readonly joint: (name: string) => Promise<Joint> },
): Promise<OpenedState<Own, Joint>> {
  if (!isPostgresUrl(config.state_db)) return { store: open.own() };
  const name = config.instance === "" ? readHostname() : config.instance;
  const store = await open.joint(name);
  const { shared } = store;
  try {
    const newSession = () => random.bytes(16).toHex();
    const identity = { shared, what, name, version: VERSION, newSession };
    return { store, shared, group: await SharedGroup.join({ ...identity, clock, elapsed, logger }) };
  } catch (error) {
    await store.close();
    throw error;
  }
}
