/**
 * The tokens of a run, also of calls that failed.
 *
 * @module
 */
import type { TokenTotals } from "../events.ts";
import type { NodeName } from "../graph/state.ts";
import type { Usage } from "../models/model.ts";

const NONE: Usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };

/** Sums up what models report. */
export class UsageMeter {
  readonly #byNode = new Map<NodeName, Usage>();

  /** Counts one call; a total that is missing or too small is input plus output. */
  add(node: NodeName, usage: Usage | undefined): void {
    if (usage === undefined) return;
    const input_tokens = count(usage.input_tokens);
    const output_tokens = count(usage.output_tokens);
    const total_tokens = Math.max(count(usage.total_tokens), input_tokens + output_tokens);
    this.#byNode.set(
      node,
      sum(this.#byNode.get(node) ?? NONE, { input_tokens, output_tokens, total_tokens }),
    );
  }

  /** What was counted so far. */
  totals(): TokenTotals {
    return {
      by_node: Object.fromEntries(this.#byNode),
      total: [...this.#byNode.values()].reduce(sum, NONE),
    };
  }
}

/** A provider's number may be anything. */
function count(value: number): number {
  return Number.isSafeInteger(value) && value > 0 ? value : 0;
}

function sum(a: Usage, b: Usage): Usage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    total_tokens: a.total_tokens + b.total_tokens,
  };
}
