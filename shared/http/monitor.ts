/**
 * The monitor listener of a service: is it alive, does it accept requests, what are its counters. No TLS and
 * no authentication: bind it to loopback or a private interface.
 *
 * ```ts ignore
 * import { startMonitor } from "@gateway/shared/http/monitor";
 * import { createMetrics } from "@gateway/shared/service/metrics";
 *
 * await using monitor = await startMonitor({
 *   listen: "127.0.0.1:9090",
 *   isReady: () => true,
 *   metrics: createMetrics(),
 * });
 * ```
 *
 * @module
 */
import { type Clock, every } from "../clock.ts";
import { addProcessMetrics, type Metrics } from "../service/metrics.ts";
import { addCertificateMetrics } from "./keep_fresh.ts";
import { type RunningListener, startPlainServer } from "./plain_server.ts";
import type { UpstreamWatch } from "./upstream.ts";

export type { ConnectionCounts, ConnectionLimits, RunningListener } from "./plain_server.ts";

/** What {@linkcode startMonitor} needs. */
interface MonitorOptions {
  readonly listen: string;
  /** Whether the service accepts requests; false before it listens and while it drains. */
  readonly isReady: () => boolean;
  /** What keeps a service that accepts requests from doing what they ask; shown to whoever asks `/readyz`. */
  readonly problem?: () => string | undefined;
  readonly metrics: Pick<Metrics, "text" | "contentType">;
}

/** A monitor, and whose it is. */
interface ServiceMonitorOptions extends Omit<MonitorOptions, "metrics"> {
  readonly service: string;
  /** What `/metrics` shows; those of the process and of the certificates are added. */
  readonly metrics: Metrics;
  /** Certificates by the config key that names their file; an empty path is no file. */
  readonly certificates: Readonly<Record<string, string>>;
  /** Whom the service can do nothing without; nobody in local mode. */
  readonly upstream?: UpstreamWatch | undefined;
  /** Measures how late the event loop runs. */
  readonly clock: Clock;
}

/** A running monitor listener. */
export type Monitor = RunningListener;

/** How often the files of certificates are looked at. */
const CERTIFICATE_SECONDS = 60;

/** Whoever asks is a stranger: each connection ends after its answer, and few are open at a time. */
const LIMITS = { strangers: 64, strangersPerSource: 32, known: 0 };

/**
 * Starts the listener.
 *
 * @throws {AppError} `invalid_config` when it cannot listen on the address
 */
export function startMonitor(options: MonitorOptions): Promise<Monitor> {
  return startPlainServer({
    listen: options.listen,
    limits: LIMITS,
    handler: (request) => respondToMonitor(request, options),
    onError: () => {},
  });
}

/**
 * Starts the monitor of a service, with what every service has: process, certificates, and the upstream, which is asked
 * as long as the monitor runs.
 *
 * @throws {AppError} `invalid_config` when it cannot listen on the address, or a certificate can't be read
 */
export async function startServiceMonitor(options: ServiceMonitorOptions): Promise<Monitor> {
  const { metrics, upstream, certificates } = options;
  const readCertificates = await addCertificateMetrics(metrics, certificates);
  const monitor = await startMonitor({ problem: () => upstream?.problem(), ...options });
  const stop = new AbortController();
  const running = [
    addProcessMetrics(metrics, options, stop.signal),
    every({ clock: options.clock, seconds: CERTIFICATE_SECONDS, signal: stop.signal }, readCertificates),
  ];
  if (upstream !== undefined) {
    metrics.gauge(
      "upstream_silence_seconds",
      "How long the upstream has not answered",
      () => upstream.silentMs / 1000,
    );
    running.push(upstream.run(stop.signal));
  }
  const close = async () => {
    stop.abort();
    await Promise.all(running);
    await monitor.close();
  };
  return { ...monitor, close, [Symbol.asyncDispose]: close };
}

/** Answers one request of the monitor listener; any method will do. */
export async function respondToMonitor(
  request: Request,
  { isReady, problem, metrics }: Omit<MonitorOptions, "listen">,
): Promise<Response> {
  switch (URL.parse(request.url)?.pathname) {
    case "/healthz":
      return text(200, "ok\n");
    case "/readyz":
      return readiness(isReady(), problem?.());
    case "/metrics":
      return text(200, await metrics.text(), metrics.contentType);
    default:
      return text(404, "not found\n");
  }
}

function readiness(isReady: boolean, problem: string | undefined): Response {
  if (!isReady) return text(503, "not ready\n");
  return problem === undefined ? text(200, "ready\n") : text(503, `not ready: ${problem}\n`);
}

function text(status: number, body: string, contentType = "text/plain; charset=utf-8"): Response {
  const headers = {
    "content-type": contentType,
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
  };
  return new Response(body, { status, headers });
}
