/**
 * What every service says of its process: build, memory, processor, and how late its event loop runs.
 *
 * ```ts ignore
 * import { addProcessMetrics } from "./process_metrics.ts";
 *
 * const watching = addProcessMetrics(metrics, { service: "signer", clock }, stop.signal);
 * ```
 *
 * @module
 */
import process from "node:process";
import { type Clock, every } from "./clock.ts";
import type { Metrics } from "./metrics.ts";
import { VERSION } from "./version.ts";

/** Whose process it is. */
export interface ProcessMetricsOptions {
  /** As in `gateway_build_info`. */
  readonly service: string;
  /** Measures the lag. */
  readonly clock: Clock;
}

const LAG_SECONDS = 1;

/** Adds the metrics, and measures the event loop until the signal is aborted. */
export function addProcessMetrics(
  metrics: Metrics,
  { service, clock }: ProcessMetricsOptions,
  signal: AbortSignal,
): Promise<void> {
  const startedAt = clock.now() / 1000;
  const labels = { service, version: VERSION, deno: Deno.version.deno };
  metrics.gauges(
    "gateway_build_info",
    "Always 1; what runs",
    Object.keys(labels),
    () => [{ labels, value: 1 }],
  );
  metrics.gauge("process_start_time_seconds", "When the process began, since the epoch", () => startedAt);
  metrics.gauge(
    "gateway_process_id",
    "Which process it is, on its machine or in its container",
    () => Deno.pid,
  );
  metrics.gauge("process_resident_memory_bytes", "Memory of the process", () => Deno.memoryUsage().rss);
  metrics.gauge("process_heap_bytes", "Of it what JavaScript uses", () => Deno.memoryUsage().heapUsed);
  metrics.total("process_cpu_seconds_total", "Processor time since the start", () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  const lag = metrics.histogram("process_event_loop_lag_seconds", "How late timers run", "exchange");
  let before = clock.now();
  return every({ clock, seconds: LAG_SECONDS, signal }, () => {
    const now = clock.now();
    // Less than nothing is a clock that was set back.
    lag.observe(Math.max(0, (now - before) / 1000 - LAG_SECONDS));
    before = now;
  });
}
