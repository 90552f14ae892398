/** Runs of one incident are not independent, so all statistics count incidents. */
import { brierOf, round } from "../benchmark/metrics.ts";
import { allFirstPrompts } from "../engine/agents/prompt.ts";
import { sorted } from "../engine/agents/debate.ts";
import type { PromptTemplate } from "../engine/ports.ts";
import { contextOf, type Incident } from "./incidents.ts";
import { type Arm, type Protocol, taskOf, type Trial } from "./trial.ts";

/** The hexadecimal SHA-256 of the protocol and the incidents. Results with different hashes are not comparable. */
export async function hashProtocol(protocol: Protocol, incidents: readonly Incident[]): Promise<string> {
  const forms = Object.fromEntries(incidents.map((each) => [each.id, contextOf(each)]));
  return await hash({ protocol, incidents, forms });
}

export async function withPrompts(
  protocol: Omit<Protocol, "prompts_sha256">,
  template: PromptTemplate,
): Promise<Protocol> {
  const prompts = allFirstPrompts({ topic: "", context: "", ...taskOf(protocol) }, template);
  return { ...protocol, prompts_sha256: await hash(prompts) };
}

async function hash(value: unknown): Promise<string> {
  const bytes = new TextEncoder().encode(JSON.stringify(sorted(value)));
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

export type Comparison = Readonly<ReturnType<typeof compareArms>>;

/** The result has the form of the JSON file. */
export function compareArms(
  trials: readonly Trial[],
  incidents: readonly Incident[],
  facts: {
    readonly generated_at: string;
    readonly protocol: Protocol;
    readonly protocol_sha256: string;
    readonly notes: readonly string[];
  },
) {
  const [first] = facts.protocol.arms;
  const firstTrials = trials.filter(({ arm }) => arm === first);
  return {
    ...facts,
    incidents: incidents.length,
    arms: facts.protocol.arms.flatMap((arm) => {
      const own = trials.filter((trial) => trial.arm === arm);
      if (own.length === 0) return [];
      const [against, harm] = [isRight, isHarm].map((holds) => {
        const theirs = new Map(ratesOf(firstTrials, holds));
        return differenceOf(
          ratesOf(own, holds).flatMap(([incident, rate]) => {
            const other = theirs.get(incident);
            return other === undefined ? [] : [[rate, other] as const];
          }),
        );
      });
      return [{
        ...toResult(arm, own),
        /** Difference to the first arm on the same incidents. */
        ...(arm !== first && against !== undefined && { against_first: against }),
        /** The same difference for confident wrong answers, where more is worse. */
        ...(arm !== first && harm !== undefined && { harm_against_first: harm }),
      }];
    }),
    trials,
  };
}

const isRight = ({ score }: Trial) => score.right;
const isHarm = ({ confident, score }: Trial) => confident && !score.right;

function toResult(arm: Arm, trials: readonly Trial[]) {
  const share = (holds: (trial: Trial) => boolean, of: readonly Trial[] = trials) =>
    shareOf(ratesOf(of, holds).map(([, rate]) => rate));
  const all = (holds: (trial: Trial) => boolean) =>
    share(holds) ?? { value: 0, low: 0, high: 1, incidents: 0 };
  const sum = (count: (trial: Trial) => number) => trials.reduce((total, trial) => total + count(trial), 0);
  const alarms = share(isHarm, trials.filter(({ kind }) => kind === "none"));
  const forecasts = trials.map(({ confidence, score }) => ({ confidence, right: score.right }));
  const calls = sum(({ tool_calls }) => tool_calls);
  return {
    arm,
    trials: trials.length,
    right: all(isRight),
    confidently_wrong: all(isHarm),
    ...(alarms !== undefined && { false_alarms: alarms }),
    brier: brierOf(forecasts),
    tokens_mean: Math.round(mean(trials.map(({ tokens }) => tokens))),
    cost_usd: trials.every(({ cost_usd }) => cost_usd === null)
      ? null
      : round(sum(({ cost_usd }) => cost_usd ?? 0)),
    tool_calls_mean: round(mean(trials.map(({ tool_calls }) => tool_calls))),
    tool_efficiency: calls === 0 ? null : round(sum(({ useful_tool_calls }) => useful_tool_calls) / calls),
    out_of_budget: trials.filter(({ ending }) => ending === "out_of_budget").length,
    failed: trials.filter(({ ending }) => ending === "error").length,
  };
}

/** For each incident, the share of its trials for which `holds` is true. */
function ratesOf(trials: readonly Trial[], holds: (trial: Trial) => boolean) {
  return [...Map.groupBy(trials, ({ incident }) => incident)]
    .map(([incident, own]) => [incident, mean(own.map((trial) => Number(holds(trial))))] as const);
}

/** A value and its 95 % confidence interval. */
export type Interval = Readonly<Record<"value" | "low" | "high", number>>;
type Share = Interval & { readonly incidents: number };

const Z = 1.959964;

/** Wilson's interval for the mean of shares, one for each incident. `undefined` without incidents. */
export function shareOf(perIncident: readonly number[]): Share | undefined {
  const n = perIncident.length;
  if (n === 0) return undefined;
  const p = mean(perIncident);
  const denominator = 1 + Z ** 2 / n;
  const center = (p + Z ** 2 / (2 * n)) / denominator;
  const half = Z * Math.sqrt(p * (1 - p) / n + Z ** 2 / (4 * n ** 2)) / denominator;
  const [low, high] = [round(Math.max(0, center - half)), round(Math.min(1, center + half))];
  return { value: round(p), low, high, incidents: n };
}

const RESAMPLES = 4000;

/** The mean difference of pairs, one for each incident. The interval comes from resampling with a fixed seed. */
export function differenceOf(pairs: readonly (readonly [number, number])[]): Interval | undefined {
  if (pairs.length === 0) return undefined;
  const differences = pairs.map(([ours, theirs]) => ours - theirs);
  const random = sequence(0x9e3779b9);
  const draw = () => differences[Math.floor(random() * differences.length)] ?? 0;
  const means = Array.from({ length: RESAMPLES }, () => mean(differences.map(draw))).sort((a, b) => a - b);
  const at = (index: number) => round(means[index] ?? 0);
  return {
    value: round(mean(differences)),
    low: at(Math.floor(RESAMPLES * 0.025)),
    high: at(Math.ceil(RESAMPLES * 0.975) - 1),
  };
}

/** Pseudorandom numbers from 0 to 1 (mulberry32). */
function sequence(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32;
  };
}

function mean(values: readonly number[]): number {
  return values.length === 0 ? 0 : values.reduce((sum, value) => sum + value, 0) / values.length;
}
