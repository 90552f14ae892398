import { type ConfigKind, loadConfig } from "@gateway/shared/config";
import * as z from "@zod/zod";
import type { CostEstimate, NodeCost, TokenTotals } from "../engine/events.ts";
import { type CallingNode, MODEL_NODES } from "../engine/graph/state.ts";

type PriceTable = ReadonlyMap<string, Price>;

type RoleModels = Readonly<
  Record<"diagnostic" | "skeptic" | "moderator" | "summary", string> & { sample?: string }
>;

const price = z.number().min(0).max(1_000_000);

const priceFile: ConfigKind<Readonly<Record<string, Price>>> = {
  what: "model prices",
  schema: z.record(z.string().min(1), z.strictObject({ input: price, output: price })),
};

export function priceTable(own: Readonly<Record<string, Price>> = {}): PriceTable {
  const all = [...Object.entries(LIST_PRICES), ...Object.entries(own)];
  return new Map(all.map(([name, price]) => [normalize(name), price]));
}

export async function loadPrices(path: string): Promise<PriceTable> {
  return priceTable(path === "" ? {} : await loadConfig({ ...priceFile, path }));
}

/**
 * The price of a model: the price of its exact name, or of the longest listed name that is a part of it. So
 * `gpt-4o-2024-11-20` has the price of `gpt-4o`.
 */
export function findPrice(id: string, prices: PriceTable): Price | undefined {
  const name = normalize(id);
  const exact = prices.get(name);
  if (exact !== undefined) return exact;
  // Only whole segments match: `o1` is not a part of `proto1`, and `gpt-4` is not a part of `gpt-4o`.
  const keys = [...prices.keys()].filter((key) => `-${name}-`.includes(`-${key}-`));
  const longest = keys.reduce((best, key) => key.length > best.length ? key : best, "");
  return prices.get(longest);
}

export function estimateCost(totals: TokenTotals, models: RoleModels, prices: PriceTable): CostEstimate {
  const by_node: Partial<Record<CallingNode, NodeCost>> = {};
  let total: number | undefined;
  for (const node of Object.keys(MODEL_NODES) as CallingNode[]) {
    const usage = totals.by_node[node];
    if (usage === undefined) continue;
    const model = models[MODEL_NODES[node].role] ?? models.diagnostic;
    const price = findPrice(model, prices);
    const usd = price && (usage.input_tokens * price.input + usage.output_tokens * price.output) / 1_000_000;
    by_node[node] = { model, ...usage, estimated_usd: usd === undefined ? null : round(usd) };
    if (usd !== undefined) total = (total ?? 0) + usd;
  }
  return { by_node, total_usd: total === undefined ? null : round(total), has_prices: total !== undefined };
}

function round(usd: number): number {
  return Math.round(usd * 1e6) / 1e6;
}

/** A model's name without vendor or provider, with one spelling of versions. */
function normalize(name: string): string {
  return name.slice(name.lastIndexOf("/") + 1).toLowerCase().replace(/[._:\s]/g, "-");
}

/** A price in US dollars per million tokens. */
interface Price {
  readonly input: number;
  readonly output: number;
}

const at = (input: number, output: number): Price => ({ input, output });

/** Prices by model name. A name also covers its dated and longer variants that are not listed. */
const LIST_PRICES: Readonly<Record<string, Price>> = {
  "gpt-4o": at(2.5, 10),
  "gpt-4o-mini": at(0.15, 0.6),
  "gpt-4.1": at(2, 8),
  "gpt-4.1-mini": at(0.4, 1.6),
  "gpt-4.1-nano": at(0.1, 0.4),
  "gpt-4-turbo": at(10, 30),
  "gpt-5": at(1.25, 10),
  "gpt-5-mini": at(0.25, 2),
  "gpt-5-nano": at(0.05, 0.4),
  "gpt-5-pro": at(15, 120),
  "o1": at(15, 60),
  "o1-mini": at(1.1, 4.4),
  "o1-pro": at(150, 600),
  "o3": at(2, 8),
  "o3-mini": at(1.1, 4.4),
  "o3-pro": at(20, 80),
  "o4-mini": at(1.1, 4.4),
  "claude-3-haiku": at(0.25, 1.25),
  "claude-3.5-haiku": at(0.8, 4),
  "claude-haiku-4.5": at(1, 5),
  "claude-3.5-sonnet": at(3, 15),
  "claude-3.7-sonnet": at(3, 15),
  "claude-sonnet-4": at(3, 15),
  "claude-3-opus": at(15, 75),
  "claude-opus-4": at(15, 75),
  "claude-opus-4.5": at(5, 25),
  "claude-opus-4.6": at(5, 25),
  "gemini-2.0-flash": at(0.1, 0.4),
  "gemini-2.5-flash": at(0.3, 2.5),
  "gemini-2.5-pro": at(1.25, 10),
  "deepseek-v3": at(0.27, 1.1),
  "deepseek-r1": at(0.55, 2.19),
  "grok-3": at(3, 15),
  "grok-3-mini": at(0.3, 0.5),
  "mistral-large": at(2, 6),
};
