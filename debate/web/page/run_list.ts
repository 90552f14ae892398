import type { Tone } from "@gateway/shared/ui";
import { t } from "./language.ts";
import { dollarsOf, titleOf, tokensOf } from "./summary.ts";
import type { ListedRun, RunView } from "./views.ts";

/** The states of runs in lists, each with its color and its name. */
export const STATES = {
  running: { tone: "accent", text: t("Running") },
  waits: { tone: "warn", text: t("Waits for you") },
  cause: { tone: "good", text: t("Cause found") },
  no_confident_cause: { tone: "warn", text: t("No confident cause") },
  completed: { tone: "idle", text: t("Completed") },
  cancelled: { tone: "idle", text: t("Stopped") },
  interrupted: { tone: "warn", text: t("Interrupted") },
  error: { tone: "bad", text: t("Failed") },
  imported: { tone: "idle", text: t("Imported") },
  unknown: { tone: "idle", text: t("Unknown") },
} as const satisfies Readonly<Record<string, { readonly tone: Tone; readonly text: string }>>;

/** The state of a run. A newer server can have other ones. */
export function stateOf({ status, conclusion, waits_for, imported }: {
  readonly status?: string | null;
  readonly conclusion?: { readonly outcome: string | null } | null;
  readonly waits_for?: string | null;
  readonly imported?: boolean;
}): keyof typeof STATES {
  if (imported === true) return "imported";
  if (status === "running" && typeof waits_for === "string") return "waits";
  const state = status === "completed" ? conclusion?.outcome ?? status : status ?? "";
  return Object.hasOwn(STATES, state) ? state as keyof typeof STATES : "unknown";
}

/** The color of a severity. Senders use their own words. */
export function severityTone(severity: string): Tone {
  const word = severity.toLowerCase();
  if (["critical", "emergency", "page", "high", "error", "fatal", "p1", "sev1", "1"].includes(word)) {
    return "bad";
  }
  return ["warning", "warn", "medium", "p2", "p3", "sev2", "sev3", "2", "3"].includes(word) ? "warn" : "idle";
}

export function nameOf({ run_id, title, topic }: Pick<RunView, "run_id" | "title" | "topic">): string {
  return title || titleOf(topic) || run_id;
}

/** The cost of a run in dollars, or else in tokens. */
export function costOf({ cost_estimate, token_totals }: RunView): string {
  const usd = cost_estimate?.total_usd;
  return typeof usd === "number" ? dollarsOf(usd) : tokensOf(token_totals?.total);
}

/** Whether a run has the state, or any state if it is empty, and all words of the search. */
export function passes(run: ListedRun, search: string, state: string): boolean {
  if (state !== "" && stateOf(run) !== state) return false;
  const { run_id, title, topic, conclusion, problem, models } = run;
  const text = [run_id, title, topic, conclusion?.cause, problem, ...Object.values(models ?? {})].join(" ")
    .toLowerCase();
  return search.toLowerCase().split(" ").every((word) => text.includes(word));
}
