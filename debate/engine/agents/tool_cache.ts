import type { Clock } from "@gateway/shared/clock";
import type { ToolArgs } from "../events.ts";
import type { AgentRole } from "../graph/state.ts";

const MAX_AGE_MS = 300_000;

interface CachedResult {
  readonly text: string;
  readonly role: AgentRole;
  readonly round: number;
}

export function toolCache(clock: Clock) {
  let entries = new Map<string, CachedResult & { readonly storedAt: number }>();
  return {
    /** The result of the same call in the same round, if it is not too old. */
    find(tool: string, args: ToolArgs, round: number): CachedResult | undefined {
      const entry = entries.get(callKey(tool, args));
      const ageMs = clock.now() - (entry?.storedAt ?? 0);
      return entry?.round === round && ageMs >= 0 && ageMs <= MAX_AGE_MS ? entry : undefined;
    },
    /** Keeps the result of a call that was allowed and succeeded. */
    store(tool: string, args: ToolArgs, result: CachedResult): void {
      entries = new Map([...entries].filter(([, { round }]) => round === result.round));
      entries.set(callKey(tool, args), { ...result, storedAt: clock.now() });
    },
  };
}

/** The same text for two calls of the same tool with the same arguments. */
export function callKey(tool: string, args: ToolArgs): string {
  return JSON.stringify([tool, sorted(args)]);
}

/** The same value with the keys of every object in one order. Recursion is bounded: see `parseArguments`. */
export function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1);
  return Object.fromEntries(entries.map(([key, member]) => [key, sorted(member)]));
}
