/**
 * The report of a run: who it was, what was said, what it came to. For people, as Markdown.
 *
 * @module
 */
import type { ReadRecord, RunStatus } from "../runs/record.ts";
import { inline } from "./markdown_text.ts";
import { renderCost, renderSummary, renderTimeline } from "./summary.ts";
import { renderTranscript } from "./transcript.ts";

const STATUS_WORDS: Readonly<Record<RunStatus, string>> = {
  running: "Running",
  completed: "Completed",
  cancelled: "Stopped",
  error: "Error",
  interrupted: "Interrupted",
};

/** The whole report. */
export function renderReport(record: ReadRecord): string {
  const sections = [
    `# Diagnosis report: ${inline(record.topic ?? "") || "no topic"}`,
    renderFacts(record),
    renderTranscript(record.events),
    renderTimeline(record.hypotheses),
    renderSummary(record),
    renderCost(record),
  ];
  return `${sections.filter((section) => section !== "").join("\n\n")}\n`;
}

/** The name that a browser gives to the saved report. */
export function reportFileName(runId: string): string {
  return `diagnosis-${runId.slice(0, 8)}.md`;
}

function renderFacts(record: ReadRecord): string {
  const { models, reasoning_effort: efforts } = record;
  const thinking = Object.entries(efforts).filter(([, effort]) => effort !== "none" && effort !== "");
  const facts: readonly (readonly [string, string])[] = [
    ["Run", inline(record.run_id)],
    ["Started", inline(record.timestamp ?? "")],
    ["Ended", inline(record.finished_at ?? "")],
    ["Duration", record.duration_seconds === null ? "" : formatDuration(record.duration_seconds)],
    ["Status", record.status === null ? "" : STATUS_WORDS[record.status]],
    ["Resumed from", inline(record.parent_run_id ?? "")],
    ["Diagnostic model", inline(models?.diagnostic ?? "")],
    ["Skeptic model", inline(models?.skeptic ?? "")],
    ["Moderator model", inline(models?.moderator ?? "")],
    ["Thinking", thinking.map(([role, effort]) => `${role} ${inline(effort)}`).join(", ")],
    ["Template", `${inline(record.template ?? "")} (${inline(record.language ?? "")})`],
  ];
  return facts.filter(([, value]) => value !== "").map(([name, value]) => `- **${name}:** ${value}`).join(
    "\n",
  );
}

/** `45s`, `2m 5s`, `1h 3m`. */
export function formatDuration(seconds: number): string {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole}s`;
  if (whole < 3600) return `${Math.floor(whole / 60)}m ${whole % 60}s`;
  return `${Math.floor(whole / 3600)}h ${Math.floor((whole % 3600) / 60)}m`;
}
