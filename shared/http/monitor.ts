/**
 * The monitor of a service: `/healthz`, `/readyz` and `/metrics`. It has neither TLS nor authentication, so bind it to
 * loopback or a private interface.
 *
 * @module
 */
import { X509Certificate } from "node:crypto";
import { type Clock, every } from "../clock.ts";
import { addProcessMetrics, type LabelledValue, type Metrics } from "../service/metrics.ts";
import { type RunningListener, startPlainServer } from "./listener.ts";
import { CERTIFICATE, readPemFile } from "./tls_files.ts";
import type { UpstreamWatch } from "./upstreams.ts";

interface MonitorOptions {
  readonly listen: string;
  /** Whether the service accepts requests. */
  readonly isReady: () => boolean;
  /** The reason why a service that accepts requests cannot do its work, for `/readyz`. */
  readonly problem?: () => string | undefined;
  readonly metrics: Pick<Metrics, "text" | "contentType">;
}

interface ServiceMonitorOptions extends Omit<MonitorOptions, "metrics"> {
  readonly service: string;
  /** The metrics of the service. The metrics of the process and the certificates are added. */
  readonly metrics: Metrics;
  /** Paths of certificate files by config key. An empty path means no file. */
  readonly certificates: Readonly<Record<string, string>>;
  /** The service that this one needs. */
  readonly upstream?: UpstreamWatch | undefined;
  readonly clock: Clock;
}

/** The pause between two reads of the certificates, in seconds. */
const CERTIFICATE_SECONDS = 60;
/** Clients of the monitor never authenticate, so each connection ends after its response. */
const LIMITS = { unauthenticated: 64, unauthenticatedPerSource: 32, authenticated: 0 };

/** @throws {AppError} `invalid_config` if it cannot listen on the address */
export function startMonitor(options: MonitorOptions): Promise<RunningListener> {
  return startPlainServer({
    listen: options.listen,
    limits: LIMITS,
    handler: (request) => respondToMonitor(request, options),
    onError: () => {},
  });
}

/**
 * Starts the monitor of a service, with the metrics of process and certificates. It probes the upstream while it runs.
 *
 * @throws {AppError} `invalid_config` if it cannot listen on the address, or a certificate cannot be read
 */
export async function startServiceMonitor(
  options: ServiceMonitorOptions,
): Promise<{ readonly close: () => Promise<void> }> {
  const { metrics, upstream, certificates, clock } = options;
  const readCertificates = await addCertificateMetrics(metrics, certificates);
  const monitor = await startMonitor({ problem: () => upstream?.problem(), ...options });
  const stop = new AbortController();
  const { signal } = stop;
  const running = [
    addProcessMetrics(metrics, options, signal),
    every({ clock, seconds: CERTIFICATE_SECONDS, signal }, readCertificates),
  ];
  if (upstream !== undefined) {
    metrics.gauge(
      "upstream_silence_seconds",
      "Time since the last upstream response",
      () => upstream.silentMs / 1000,
    );
    running.push(upstream.run(signal));
  }
  return {
    async close() {
      stop.abort();
      await Promise.all(running);
      await monitor.close();
    },
  };
}

/** Answers a request with any method. */
export async function respondToMonitor(
  request: Request,
  { isReady, problem, metrics }: Omit<MonitorOptions, "listen">,
): Promise<Response> {
  switch (URL.parse(request.url)?.pathname) {
    case "/healthz":
      return text(200, "ok\n");
    case "/readyz": {
      const found = isReady() ? problem?.() : "";
      if (found === undefined) return text(200, "ready\n");
      return text(503, found === "" ? "not ready\n" : `not ready: ${found}\n`);
    }
    case "/metrics":
      return text(200, await metrics.text(), metrics.contentType);
    default:
      return text(404, "not found\n");
  }
}

function text(status: number, body: string, contentType = "text/plain; charset=utf-8"): Response {
  const headers = {
    "content-type": contentType,
    "x-content-type-options": "nosniff",
    "cache-control": "no-store",
  };
  return new Response(body, { status, headers });
}

/**
 * Adds the expiry of the certificates in these files; of several in one file, the first expiry.
 *
 * @returns reads the files again. If one cannot be read, its time stays.
 * @throws {AppError} `invalid_config` if a file cannot be read or holds no PEM text
 */
export async function addCertificateMetrics(
  metrics: Metrics,
  files: Readonly<Record<string, string>>,
): Promise<() => Promise<void>> {
  const ends = new Map<string, number>();
  const named = Object.entries(files).filter(([, path]) => path !== "");
  const read = async ([certificate, path]: readonly [string, string]) => {
    const found = (await readPemFile(certificate, path)).match(CERTIFICATE) ?? [];
    const times = found.map((pem) => Date.parse(new X509Certificate(pem).validTo) / 1000);
    if (times.length > 0) ends.set(certificate, Math.min(...times));
  };
  await Promise.all(named.map(read));
  metrics.gauges(
    "certificate_expiry_timestamp_seconds",
    "Earliest expiry in a certificate file, in seconds since the epoch",
    ["certificate"],
    () => [...ends].map(([certificate, value]): LabelledValue => ({ labels: { certificate }, value })),
  );
  return async () => void await Promise.allSettled(named.map(read));
}
