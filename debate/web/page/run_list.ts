import type { Tone } from "@gateway/shared/ui";
import { t } from "./language.ts";
import { titleOf } from "./summary.ts";
import type { ListedRun } from "./views.ts";

/** A state with its color, in the language of the page. */
interface State {
  readonly tone: Tone;
  readonly text: string;
}

const OUTCOMES: Readonly<Record<string, State>> = {
  cause: { tone: "good", text: t("Cause found") },
  no_confident_cause: { tone: "warn", text: t("No confident cause") },
};
const STATES: typeof OUTCOMES = {
  running: { tone: "accent", text: t("Running") },
  completed: { tone: "idle", text: t("Completed") },
  cancelled: { tone: "idle", text: t("Stopped") },
  interrupted: { tone: "warn", text: t("Interrupted") },
  error: { tone: "bad", text: t("Failed") },
};
const UNKNOWN: State = { tone: "idle", text: t("Unknown") };

/** The state of a run in a list. */
export function stateOf(
  { status, waits_for, conclusion, imported }: Pick<
    ListedRun,
    "status" | "waits_for" | "conclusion" | "imported"
  >,
): State {
  if (imported === true) return { tone: "idle", text: t("Imported") };
  if (status === "running" && typeof waits_for === "string") {
    return { tone: "warn", text: t("Waits for you") };
  }
  const state = STATES[status ?? ""] ?? UNKNOWN;
  return status === "completed" ? OUTCOMES[conclusion?.outcome ?? ""] ?? state : state;
}

/** The color of a severity. Senders use their own words. */
export function severityTone(severity: string): Tone {
  const word = severity.toLowerCase();
  if (["critical", "emergency", "page", "high", "error", "fatal", "p1", "sev1", "1"].includes(word)) {
    return "bad";
  }
  return ["warning", "warn", "medium", "p2", "p3", "sev2", "sev3", "2", "3"].includes(word) ? "warn" : "idle";
}

/** The name of a run in a list. */
export function nameOf({ run_id, title, topic }: Pick<ListedRun, "run_id" | "title" | "topic">): string {
  return title || titleOf(topic) || run_id;
}

/** The distinct models of all runs, sorted. */
export function modelsIn(runs: readonly ListedRun[]): readonly string[] {
  return [...new Set(runs.flatMap(({ models }) => Object.values(models ?? {})))].filter((each) => each !== "")
    .toSorted();
}

/** The choices of the user above the list. Empty texts match every run. */
export interface Filter {
  readonly search: string;
  readonly state: string;
  readonly model: string;
}

/** Whether a run passes the filter. All words of the search must occur. */
export function passes(run: ListedRun, { search, state, model }: Filter): boolean {
  const values = Object.values(run.models ?? {});
  if (model !== "" && !values.includes(model)) return false;
  if (!hasState(run, state)) return false;
  const text = [run.run_id, run.title, run.topic, run.conclusion?.cause, run.problem, ...values].join(" ")
    .toLowerCase();
  return search.toLowerCase().split(" ").every((word) => text.includes(word));
}

function hasState({ status, conclusion, imported }: ListedRun, state: string): boolean {
  switch (state) {
    case "":
      return true;
    case "stopped":
      return status === "cancelled" || status === "error" || status === "interrupted";
    case "imported":
      return imported === true;
    case "running":
      return status === "running";
    default:
      return conclusion?.outcome === state;
  }
}

/** The newest runs for the start page, with those in progress first. */
export function recentRuns(runs: readonly ListedRun[], count: number): readonly ListedRun[] {
  return runs.toSorted((a, b) => Number(b.status === "running") - Number(a.status === "running")).slice(
    0,
    count,
  );
}
