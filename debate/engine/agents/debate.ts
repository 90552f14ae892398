import type { TokenTotals } from "../events.ts";
import type { AgentNode, NodeName, ToolLogEntry } from "../graph/state.ts";
import type { ReasoningEffort, Usage } from "../model.ts";
import type { DebateEfforts, DebatePorts, DebateSetup } from "../ports.ts";
import { ToolCache } from "./tool_cache.ts";

const MODEL_MS = 600_000;
const TOOL_MS = 300_000;

/** One debate. */
export interface Debate {
  readonly setup: DebateSetup;
  readonly ports: DebatePorts;
  /** Aborted when the run is cancelled or has used up its time. */
  readonly signal: AbortSignal;
  readonly modelMs: number;
  readonly toolMs: number;
  readonly meter: UsageMeter;
  readonly cache: ToolCache;
  readonly toolLog: ToolLogEntry[];
  readonly ignoredEfforts: Set<AgentNode | "moderator_agent">;
}

export function openDebate(setup: DebateSetup, ports: DebatePorts, signal: AbortSignal): Debate {
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

export function effortFor(
  { setup }: Debate,
  node: AgentNode | "moderator_agent",
): ReasoningEffort | undefined {
  const effort = setup.efforts[CASTING[node].role];
  return effort === "none" ? undefined : effort;
}

const NONE: Usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };

class UsageMeter {
  readonly #byNode = new Map<NodeName, Usage>();

  /** Counts one call; a total that is missing or too small is input plus output. */
  add(node: NodeName, usage: Usage | undefined): void {
    if (usage === undefined) return;
    const input_tokens = count(usage.input_tokens);
    const output_tokens = count(usage.output_tokens);
    const total_tokens = Math.max(count(usage.total_tokens), input_tokens + output_tokens);
    this.#byNode.set(
      node,
      sum(this.#byNode.get(node) ?? NONE, {
        input_tokens,
        output_tokens,
        total_tokens,
        ...(usage.estimated && { estimated: true }),
      }),
    );
  }

  totals(): TokenTotals {
    return {
      by_node: Object.fromEntries(this.#byNode),
      total: [...this.#byNode.values()].reduce(sum, NONE),
    };
  }
}

function count(value: number): number {
  return Number.isSafeInteger(value) && value > 0 ? value : 0;
}

function sum(a: Usage, b: Usage): Usage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    total_tokens: a.total_tokens + b.total_tokens,
    ...((a.estimated || b.estimated) && { estimated: true }),
  };
}
