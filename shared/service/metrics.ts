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
import type * as prom from "prom-client";
// Import the parts separately, because the rest of the package would take 5 MB in an idle service.
import counter from "prom-client/lib/counter.js";
import gauge from "prom-client/lib/gauge.js";
import histogram from "prom-client/lib/histogram.js";
import registry from "prom-client/lib/registry.js";
import process from "node:process";
import { type Clock, every } from "../clock.ts";
import { AppError } from "../errors.ts";
import { VERSION } from "./version.ts";

const PromCounter: typeof prom.Counter = counter;
const PromGauge: typeof prom.Gauge = gauge;
const PromHistogram: typeof prom.Histogram = histogram;
const Registry: typeof prom.Registry = registry;

type Labels = Readonly<Record<string, string>>;

/** The duration of steps in seconds, by result. */
export interface Histogram {
  /** Observes a duration. The default result is `ok`. */
  observe(seconds: number, result?: string): void;
  /** Starts a measurement. @returns a function that ends it */
  start(): (result?: string) => void;
  /**
   * Measures a step. Its result is `ok`, or the code of the error that it throws. Results are closed sets, so that a
   * caller cannot create series.
   *
   * @param describe the result of a value
   */
  measure<T>(step: () => Promise<T>, describe?: (value: T) => string): Promise<T>;
}

/** The bounds of a histogram's buckets in seconds, by the kind of step. */
const BUCKETS = {
  computing: [0.000_01, 0.000_025, 0.000_05, 0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.05],
  exchange: [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30],
  command: [0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600],
  human: [1, 5, 10, 30, 60, 120, 300, 600, 900, 1800, 3600],
};

/** A value of a gauge with labels. */
export interface LabelledValue {
  readonly labels: Labels;
  readonly value: number;
}

/** An empty set of metrics. */
export function createMetrics(): Metrics {
  return new Metrics();
}

/** The metrics of one service. Adding a name twice throws an `Error`. */
export class Metrics {
  readonly #registry = new Registry();
  /** The content type of {@linkcode text}. */
  readonly contentType: string = this.#registry.contentType;

  /** Adds a counter. Without labels it starts at 0, with labels each series starts with its first event. */
  counter(
    name: string,
    help: string,
    labelNames: readonly string[] = [],
  ): { inc(labels?: Labels, by?: number): void } {
    const counter = new PromCounter({ name, help, labelNames: [...labelNames], registers: [this.#registry] });
    return { inc: (labels = {}, by = 1) => counter.inc({ ...labels }, by) };
  }

  /** Adds a gauge. `read` gives the value at each scrape. */
  gauge(name: string, help: string, read?: () => number): { set(value: number): void } {
    const collect = read && function (this: prom.Gauge) {
      this.set(read());
    };
    const gauge = new PromGauge({ name, help, registers: [this.#registry], ...(collect && { collect }) });
    return { set: (value) => gauge.set(value) };
  }

  /** Adds a counter of events that are counted elsewhere. `read` gives the total at each scrape. */
  total(name: string, help: string, read: () => number): void {
    new PromCounter({
      name,
      help,
      registers: [this.#registry],
      collect() {
        this.reset();
        this.inc(read());
      },
    });
  }

  /** Adds a gauge with labels. `read` gives all values at each scrape. */
  gauges(
    name: string,
    help: string,
    labelNames: readonly string[],
    read: () => readonly LabelledValue[],
  ): void {
    new PromGauge({
      name,
      help,
      labelNames: [...labelNames],
      registers: [this.#registry],
      collect() {
        this.reset();
        for (const { labels, value } of read()) this.set({ ...labels }, value);
      },
    });
  }

  /** Adds a histogram with the label `result`. */
  histogram(name: string, help: string, kind: keyof typeof BUCKETS): Histogram {
    const buckets = [...BUCKETS[kind]];
    const histogram = new PromHistogram({
      ...{ name, help, labelNames: ["result"], buckets, registers: [this.#registry] },
    });
    const observe = (seconds: number, result = "ok") => histogram.observe({ result }, seconds);
    const start = () => {
      const startedAt = performance.now();
      return (result?: string) => observe((performance.now() - startedAt) / 1000, result);
    };
    return {
      observe,
      start,
      async measure(step, describe = () => "ok") {
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

  /** All metrics by name, and their series by labels. Buckets stay in ascending order. */
  async text(): Promise<string> {
    const names = this.#registry.getMetricsAsArray().map(({ name }) => name).sort();
    const blocks = await Promise.all(names.map((name) => this.#registry.getSingleMetricAsString(name)));
    return blocks.map((block) => {
      const [help, type, ...series] = block.split("\n");
      if (type?.endsWith(" histogram")) return `${block}\n`;
      return `${[help, type, ...series.sort()].join("\n")}\n`;
    }).join("");
  }
}

const LAG_SECONDS = 1;

/** Adds the metrics of the process, and measures the event loop until the signal is aborted. */
export function addProcessMetrics(
  metrics: Metrics,
  { service, clock }: { readonly service: string; readonly clock: Clock },
  signal: AbortSignal,
): Promise<void> {
  const startedAt = clock.now() / 1000;
  const labels = { service, version: VERSION, deno: Deno.version.deno };
  metrics.gauges(
    "gateway_build_info",
    "Always 1; build of the process",
    ["service", "version", "deno"],
    () => [{ labels, value: 1 }],
  );
  metrics.gauge(
    "process_start_time_seconds",
    "Start time of the process, in seconds since the epoch",
    () => startedAt,
  );
  metrics.gauge("gateway_process_id", "Process ID", () => Deno.pid);
  metrics.gauge(
    "process_resident_memory_bytes",
    "Resident memory of the process",
    () => Deno.memoryUsage().rss,
  );
  metrics.gauge("process_heap_bytes", "Used heap of the process", () => Deno.memoryUsage().heapUsed);
  metrics.total("process_cpu_seconds_total", "CPU time since the start", () => {
    const { user, system } = process.cpuUsage();
    return (user + system) / 1e6;
  });
  const lag = metrics.histogram(
    "process_event_loop_lag_seconds",
    "Delay of timers in the event loop",
    "exchange",
  );
  let before = clock.now();
  return every({ clock, seconds: LAG_SECONDS, signal }, () => {
    const now = clock.now();
    // A clock that was set back would give a negative value.
    lag.observe(Math.max(0, (now - before) / 1000 - LAG_SECONDS));
    before = now;
  });
}
