/**
 * What a listener of a service shows of itself: its answers by status and cause, and its connections.
 *
 * ```ts ignore
 * import { ListenerMetrics } from "@gateway/shared/http/listener_metrics";
 *
 * const traffic = new ListenerMetrics(metrics);
 * const server = await startMtlsServer({ ...options, onAnswer: traffic.onAnswer });
 * traffic.watch(server);
 * ```
 *
 * @module
 */
import type { ErrorCode } from "../errors.ts";
import type { Metrics } from "../metrics.ts";
import type { RunningListener } from "./listener.ts";

/** The metrics of a service's one listener. */
export class ListenerMetrics {
  /** Counts an answer; statuses and codes are closed sets. */
  readonly onAnswer: (status: number, code: ErrorCode | undefined) => void;
  #listener: Pick<RunningListener, "connections"> | undefined;

  /** Adds them; there are no connections yet. */
  constructor(metrics: Metrics) {
    const answers = metrics.counter(
      "http_server_responses_total",
      "Answers by status, and by the code of the fault that they tell of",
      ["status", "code"],
    );
    this.onAnswer = (status, code) => answers.inc({ status: String(status), code: code ?? "" });
    metrics.gauges(
      "http_server_connections",
      "Open connections, of peers that have identified themselves and of others",
      ["standing"],
      () => this.#counts("open"),
    );
    metrics.gauges(
      "http_server_connections_limit",
      "How many of them there may be; those of reserved callers have room beyond that",
      ["standing"],
      () => this.#counts("limits"),
    );
  }

  /** Begins to show the connections of a listener. */
  watch(listener: Pick<RunningListener, "connections">): void {
    this.#listener = listener;
  }

  #counts(of: "open" | "limits") {
    if (this.#listener === undefined) return [];
    const { known, strangers } = this.#listener.connections()[of];
    return [
      { labels: { standing: "known" }, value: known },
      { labels: { standing: "stranger" }, value: strangers },
    ];
  }
}
