/**
 * What the parts of one run share while it lasts.
 *
 * @module
 */
import type { AgentNode, ToolLogEntry } from "../graph/state.ts";
import type { ReasoningEffort } from "../models/model.ts";
import type { DebateEfforts, DebatePorts, DebateSetup } from "./debate.ts";
import { ToolCache } from "./tool_cache.ts";
import { UsageMeter } from "./usage.ts";

const MODEL_MS = 600_000;
const TOOL_MS = 300_000;

/** One run. */
export interface Run {
  readonly setup: DebateSetup;
  readonly ports: DebatePorts;
  /** Aborted when the run is cancelled or has used up its time. */
  readonly signal: AbortSignal;
  readonly modelMs: number;
  readonly toolMs: number;
  readonly meter: UsageMeter;
  readonly cache: ToolCache;
  readonly toolLog: ToolLogEntry[];
  /** The nodes whose ignored effort was told. */
  readonly ignoredEfforts: Set<AgentNode | "moderator_agent">;
}

/** What a run starts with. */
export function openRun(setup: DebateSetup, ports: DebatePorts, signal: AbortSignal): Run {
  return {
    setup,
    ports,
    signal,
    modelMs: setup.timeouts?.modelMs ?? MODEL_MS,
    toolMs: setup.timeouts?.toolMs ?? TOOL_MS,
    meter: new UsageMeter(),
    cache: new ToolCache(ports.clock),
    toolLog: [],
    ignoredEfforts: new Set(),
  };
}

/** Who plays a node, how hard it thinks, and how freely. */
export const CASTING = {
  diagnostic_agent: { role: "diagnostic", temperature: 0.2 },
  skeptic_agent: { role: "skeptic", temperature: 0.1 },
  diagnostic_rebuttal_agent: { role: "diagnostic", temperature: 0.2 },
  moderator_agent: { role: "moderator", temperature: 0 },
} as const satisfies Record<
  AgentNode | "moderator_agent",
  { role: keyof DebateEfforts; temperature: number }
>;

/** The effort asked of a node, if any. */
export function effortFor(run: Run, node: AgentNode | "moderator_agent"): ReasoningEffort | undefined {
  const effort = run.setup.efforts[CASTING[node].role];
  return effort === "none" ? undefined : effort;
}
