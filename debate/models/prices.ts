/**
 * What a run costs, estimated from its tokens.
 *
 * @module
 */
import { type ConfigKind, loadConfig } from "@gateway/shared/config";
import * as z from "@zod/zod";
import type { CostEstimate, NodeCost, TokenTotals } from "../engine/events.ts";
import { type NodeName, NODES } from "../engine/graph/state.ts";
import { LIST_PRICES, type Price } from "./list_prices.ts";
import type { Usage } from "../engine/model.ts";

/** Prices by the normalised name of the model. */
type PriceTable = ReadonlyMap<string, Price>;

/** Which model a role has, by id. */
interface RoleModels {
  readonly diagnostic: string;
  readonly skeptic: string;
  readonly moderator: string;
  readonly summary: string;
  /** Absent: the diagnostic agent's. */
  readonly sample?: string;
}

const price = z.number().min(0).max(1_000_000);

const priceFile: ConfigKind<Readonly<Record<string, Price>>> = {
  what: "model prices",
  schema: z.record(z.string().min(1), z.strictObject({ input: price, output: price })),
};

/** List prices; the operator's own take precedence. */
export function priceTable(own: Readonly<Record<string, Price>> = {}): PriceTable {
  const table = new Map<string, Price>();
  for (const [name, price] of [...Object.entries(LIST_PRICES), ...Object.entries(own)]) {
    table.set(normalise(name), price);
  }
  return table;
}

/**
 * List prices; those of a file take precedence.
 *
 * @throws {AppError} `invalid_config` when the file does not match the schema
 */
export async function loadPrices(path: string): Promise<PriceTable> {
  return priceTable(path === "" ? {} : await loadConfig({ ...priceFile, path }));
}

/**
 * The price of a model: that of its own name, or else of the longest listed name that is a whole part of it, so
 * that `gpt-4o-2024-11-20` costs what `gpt-4o` does.
 */
export function findPrice(id: string, prices: PriceTable): Price | undefined {
  const name = normalise(id);
  const exact = prices.get(name);
  if (exact !== undefined) return exact;
  // Names are compared by whole segments: `o1` is not a part of `proto1`, nor `gpt-4` of `gpt-4o`.
  const keys = [...prices.keys()].filter((key) => `-${name}-`.includes(`-${key}-`));
  const longest = keys.reduce((best, key) => key.length > best.length ? key : best, "");
  return prices.get(longest);
}

/** The cost of a run's tokens. */
export function estimateCost(totals: TokenTotals, models: RoleModels, prices: PriceTable): CostEstimate {
  const by_node: Partial<Record<NodeName, NodeCost>> = {};
  let total: number | undefined;
  for (const node of NODES) {
    const [role, usage] = [ROLE_OF_NODE[node], totals.by_node[node]];
    if (role === undefined || usage === undefined) continue;
    const model = models[role] ?? models.diagnostic;
    const usd = costOf(usage, findPrice(model, prices));
    by_node[node] = { model, ...usage, estimated_usd: usd === undefined ? null : round(usd) };
    if (usd !== undefined) total = (total ?? 0) + usd;
  }
  return { by_node, total_usd: total === undefined ? null : round(total), has_prices: total !== undefined };
}

const ROLE_OF_NODE: Readonly<Partial<Record<NodeName, keyof RoleModels>>> = {
  sample_agent: "sample",
  diagnostic_agent: "diagnostic",
  skeptic_agent: "skeptic",
  diagnostic_rebuttal_agent: "diagnostic",
  moderator_agent: "moderator",
  summarize_history: "summary",
};

function costOf({ input_tokens, output_tokens }: Usage, price: Price | undefined): number | undefined {
  if (price === undefined) return undefined;
  return (input_tokens * price.input + output_tokens * price.output) / 1_000_000;
}

function round(usd: number): number {
  return Math.round(usd * 1e6) / 1e6;
}

/** A model's name without vendor or provider, and with versions written in one way. */
function normalise(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1).toLowerCase().replace(/[._:\s]/g, "-");
}
