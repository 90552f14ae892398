import { createMetrics } from "@gateway/shared/service/metrics";
import type { AlertDesk } from "../alerts/desk.ts";
import { type Model, ModelError } from "../engine/ports.ts";
import type { RunEvent, Usage } from "../engine/events.ts";
import type { RunManager } from "../runs/manager.ts";

/**
 * The metrics of `GET /metrics` on MONITOR_LISTEN. A label has only values of closed sets and names of the
 * settings, because clients and models could otherwise create any number of series.
 */
export function createRunMetrics(toolNames: readonly string[]) {
  const metrics = createMetrics();
  const durations = metrics.histogram(
    "debate_run_duration_seconds",
    "Duration of runs by final status",
    "human",
  );
  const calls = metrics.counter("debate_model_calls_total", "Model calls by outcome", [
    "provider",
    "outcome",
  ]);
  const tokens = metrics.counter(
    "debate_model_tokens_total",
    "Tokens of model calls, as the provider reports them",
    ["provider", "direction"],
  );
  const toolCalls = metrics.counter("debate_tool_calls_total", "Tool calls by outcome", ["tool", "outcome"]);
  return {
    metrics,
    /** Counts an event of a run that started at `startedAt`. */
    observe(event: RunEvent, startedAt: number, now: number): void {
      if (event.type === "run_finished") durations.observe((now - startedAt) / 1000, event.status);
      if (event.type !== "tool_call") return;
      const { tool_name, approval, error } = event;
      const wasNotRun = approval === "rejected" || approval === "timeout" || approval === "cached";
      // A model can request a tool of any name.
      const tool = toolNames.includes(tool_name) ? tool_name : "unknown";
      toolCalls.inc({ tool, outcome: wasNotRun ? approval : error ? "error" : "ok" });
    },
    /** Adds the gauges of runs and alerts. */
    watch(manager: Pick<RunManager, "live">, alerts: Pick<AlertDesk, "list">): void {
      metrics.gauge("debate_runs_in_progress", "Runs in progress", () => manager.live.length);
      metrics.gauge(
        "debate_approvals_pending",
        "Tool calls that wait for an approval",
        () => manager.live.reduce((sum, { pendingApprovals }) => sum + pendingApprovals, 0),
      );
      metrics.gauges(
        "debate_alerts_open",
        "Open alerts by the state of their answer",
        ["answer"],
        () =>
          (["waiting", "sent", "failed", "off"] as const).map((answer) => ({
            labels: { answer },
            value: alerts.list().filter((alert) => alert.answer === answer).length,
          })),
      );
      metrics.gauge(
        "debate_alert_failed_deliveries",
        "Failed deliveries of the answers of open alerts",
        () => alerts.list().reduce((sum, { tries }) => sum + tries, 0),
      );
    },
    /** The model, with its calls counted. */
    measured(model: Model): Model {
      const [provider = ""] = model.id.split("/");
      const count = (outcome: string, usage: Usage | undefined) => {
        calls.inc({ provider, outcome });
        tokens.inc({ provider, direction: "input" }, usage?.input_tokens ?? 0);
        tokens.inc({ provider, direction: "output" }, usage?.output_tokens ?? 0);
      };
      return {
        id: model.id,
        async complete(request) {
          try {
            const reply = await model.complete(request);
            count("ok", reply.usage);
            return reply;
          } catch (error) {
            if (error instanceof ModelError) count(error.kind, error.usage);
            else count("internal", undefined);
            throw error;
          }
        },
      };
    },
  };
}
