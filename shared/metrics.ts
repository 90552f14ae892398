/**
 * Counters and gauges of one service, in the Prometheus text format.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { createMetrics } from "@gateway/shared/metrics";
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
// @ts-types="./prom_client/registry.d.ts"
import Registry from "prom-client/lib/registry.js";

/** Names and values of a time series' labels. */
export type Labels = Readonly<Record<string, string>>;

/** Counts events. With labels a series appears with its first event; without, it starts at 0. */
export interface Counter {
  /** Adds to the series of these labels, by default 1. */
  inc(labels?: Labels, by?: number): void;
}

/** A value that goes up and down. */
export interface Gauge {
  /** Replaces the value. */
  set(value: number): void;
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
  /** All metrics, sorted by name. */
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
    text: () => writeSorted(registry),
  };
}

async function writeSorted(registry: Registry): Promise<string> {
  const names = registry.getMetricsAsArray().map(({ name }) => name).sort();
  const blocks = await Promise.all(names.map((name) => registry.getSingleMetricAsString(name)));
  return blocks.map((block) => `${sortSeries(block)}\n`).join("");
}

/** HELP and TYPE stay in front, the series follow in the order of their labels. */
function sortSeries(block: string): string {
  const lines = block.split("\n");
  return [...lines.slice(0, 2), ...lines.slice(2).sort()].join("\n");
}
