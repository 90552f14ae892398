/**
 * Counters, gauges and histograms of one service, in the Prometheus text format.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { createMetrics } from "@gateway/shared/service/metrics";
 *
 * const metrics = createMetrics();
 * const requests = metrics.counter("signer_sign_requests_total", "Sign requests by outcome.", ["outcome"]);
 * requests.inc({ outcome: "issued" });
 * assert.match(await metrics.text(), /^signer_sign_requests_total\{outcome="issued"\} 1$/m);
 * ```
 *
 * @module
 */
// Part by part: an idle service would pay 5 MB for the rest of the package.
// @ts-types="./prom_client/counter.d.ts"
import PromCounter from "prom-client/lib/counter.js";
// @ts-types="./prom_client/gauge.d.ts"
import PromGauge from "prom-client/lib/gauge.js";
// @ts-types="./prom_client/histogram.d.ts"
import PromHistogram from "prom-client/lib/histogram.js";
// @ts-types="./prom_client/registry.d.ts"
import Registry from "prom-client/lib/registry.js";
import process from "node:process";
import { type Clock, every } from "../clock.ts";
import { AppError } from "../errors.ts";
import { VERSION } from "./version.ts";

/** Names and values of a time series' labels. */
type Labels = Readonly<Record<string, string>>;

/** Counts events. With labels a series appears with its first event; without, it starts at 0. */
interface Counter {
  /** Adds to the series of these labels, by default 1. */
  inc(labels?: Labels, by?: number): void;
}

/** A value that goes up and down. */
interface Gauge {
  set(value: number): void;
}

/** How long something takes, in seconds, by what came of it. */
export interface Histogram {
  /** Adds a duration that was measured elsewhere. */
  observe(seconds: number, result?: string): void;
  /** Begins to measure a duration; what it gives ends that. */
  start(): (result?: string) => void;
  /**
   * Measures a step; its result is `ok`, or the code of what it throws. The set of codes is closed, so that no caller
   * can make a series of his own.
   *
   * @param describe the result of what it gives, out of a closed set as well
   * @throws what the step throws
   */
  measure<T>(step: () => Promise<T>, describe?: (value: T) => string): Promise<T>;
}

/** What is measured, which says how long it may take. */
type Measured = "computing" | "exchange" | "command" | "human";

/** The bounds of a histogram's buckets, in seconds. */
const BUCKETS: Readonly<Record<Measured, readonly number[]>> = {
  computing: [0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05],
  exchange: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  command: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600],
  human: [1, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600],
};

/** A value of a gauge with labels, for the moment of a scrape. */
export interface LabelledValue {
  /** One value for each name of the gauge's labels. */
  readonly labels: Labels;
  readonly value: number;
}

/** The metrics of one service; several services in one process don't share them. */
export interface Metrics {
  /** The content type of {@linkcode Metrics.text}. */
  readonly contentType: string;
  /**
   * Adds a counter.
   *
   * @throws {Error} when the name is taken
   */
  counter(name: string, help: string, labelNames?: readonly string[]): Counter;
  /**
   * Adds a gauge.
   *
   * @param read gives the value at the time of each scrape; without it the value is what was set last
   * @throws {Error} when the name is taken
   */
  gauge(name: string, help: string, read?: () => number): Gauge;
  /**
   * Adds a counter of what is counted elsewhere.
   *
   * @param read gives the total at the time of each scrape
   * @throws {Error} when the name is taken
   */
  total(name: string, help: string, read: () => number): void;
  /**
   * Adds a gauge with labels.
   *
   * @param read gives all values at the time of each scrape
   * @throws {Error} when the name is taken
   */
  gauges(
    name: string,
    help: string,
    labelNames: readonly string[],
    read: () => readonly LabelledValue[],
  ): void;
  /**
   * Adds a histogram, whose one label is `result`.
   *
   * @throws {Error} when the name is taken
   */
  histogram(name: string, help: string, measured: Measured): Histogram;
  text(): Promise<string>;
}

/** An empty set of metrics. */
export function createMetrics(): Metrics {
  const registry = new Registry();
  return {
    contentType: registry.contentType,
    counter(name, help, labelNames = []) {
      const counter = new PromCounter({ name, help, labelNames: [...labelNames], registers: [registry] });
      return { inc: (labels = {}, by = 1) => counter.inc({ ...labels }, by) };
    },
    gauge(name, help, read) {
      const gauge = new PromGauge({
        name,
        help,
        registers: [registry],
        ...(read === undefined ? {} : {
          collect() {
            this.set(read());
          },
        }),
      });
      return { set: (value) => gauge.set(value) };
    },
    total(name, help, read) {
      new PromCounter({
        name,
        help,
        registers: [registry],
        collect() {
          this.reset();
          this.inc(read());
        },
      });
    },
    gauges(name, help, labelNames, read) {
      new PromGauge({
        name,
        help,
        labelNames: [...labelNames],
        registers: [registry],
        collect() {
          this.reset();
          for (const { labels, value } of read()) this.set({ ...labels }, value);
        },
      });
    },
    histogram(name, help, measured) {
      const bounds = [...BUCKETS[measured]];
      return durations(
        new PromHistogram({ name, help, labelNames: ["result"], buckets: bounds, registers: [registry] }),
      );
    },
    text: () => writeSorted(registry),
  };
}

/** The result of what has not failed. */
const OK = "ok";

function durations(histogram: PromHistogram<"result">): Histogram {
  const observe = (seconds: number, result = OK) => histogram.observe({ result }, seconds);
  const start = () => {
    const startedAt = performance.now();
    return (result?: string) => observe((performance.now() - startedAt) / 1000, result);
  };
  return {
    observe,
    start,
    async measure(step, describe = () => OK) {
      const end = start();
      let result = "internal";
      try {
        const value = await step();
        result = describe(value);
        return value;
      } catch (error) {
        if (error instanceof AppError) result = error.code;
        throw error;
      } finally {
        end(result);
      }
    },
  };
}

async function writeSorted(registry: Registry): Promise<string> {
  const names = registry.getMetricsAsArray().map(({ name }) => name).sort();
  const blocks = await Promise.all(
    names.map(async (name) => sortSeries(await registry.getSingleMetricAsString(name))),
  );
  return blocks.map((block) => `${block}\n`).join("");
}

/** HELP and TYPE stay in front, the series follow in the order of their labels; buckets stay in ascending order. */
function sortSeries(block: string): string {
  const lines = block.split("\n");
  if (lines[1]?.endsWith(" histogram")) return block;
  return [...lines.slice(0, 2), ...lines.slice(2).sort()].join("\n");
}

interface ProcessMetricsOptions {
  readonly service: string;
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
