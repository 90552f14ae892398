import { reliabilityOf } from "../benchmark/metrics.ts";
import { FAULT_KINDS } from "../engine/graph/claim.ts";
import { type Arm, ARM_NAMES } from "./arms.ts";
import type { Cause, Incident } from "./incident.ts";
import type { Protocol } from "./protocol.ts";
import { scoreAnswer } from "./score.ts";
import { brierOf, type Difference, differenceOf, mean, round, type Share, shareOf } from "./statistics.ts";
import type { Trial } from "./trial.ts";

/** The whole comparison, in the form of its file. */
export interface Comparison {
  readonly generated_at: string;
  readonly protocol: Protocol;
  readonly incidents: number;
  readonly incidents_sha256: string;
  readonly protocol_sha256: string;
  readonly arms: readonly ArmResult[];
  /** Answers that are right for another incident's truth; anything but 0 says that the score can be fooled. */
  readonly right_for_another_incident: number;
  readonly notes: readonly string[];
  readonly trials: readonly Trial[];
}

export type ArmResult = Readonly<ReturnType<typeof toResult>> & {
  /** Compared with the first arm on the same incidents; absent for itself. */
  readonly against_first?: Difference;
  /** The same for answers that are called the cause and wrong: more is worse. */
  readonly harm_against_first?: Difference;
};

export function compareArms(
  trials: readonly Trial[],
  incidents: readonly Incident[],
  facts: Pick<Comparison, "generated_at" | "protocol" | "incidents_sha256" | "protocol_sha256" | "notes">,
): Comparison {
  const [first] = facts.protocol.arms;
  const firstTrials = trials.filter(({ arm }) => arm === first);
  return {
    ...facts,
    incidents: incidents.length,
    arms: facts.protocol.arms.flatMap((arm) => {
      const own = trials.filter((trial) => trial.arm === arm);
      if (own.length === 0) return [];
      const result = toResult(arm, own, incidents);
      const against = differenceOf(pairsOf(own, firstTrials, ({ score }) => score.right));
      const harm = differenceOf(
        pairsOf(own, firstTrials, ({ confident, score }) => confident && !score.right),
      );
      return arm === first || against === undefined || harm === undefined
        ? [result]
        : [{ ...result, against_first: against, harm_against_first: harm }];
    }),
    right_for_another_incident: rightForAnother(trials, incidents),
    trials,
  };
}

function toResult(arm: Arm, trials: readonly Trial[], incidents: readonly Incident[]) {
  const share = (holds: (trial: Trial) => boolean, of: readonly Trial[] = trials) =>
    shareOf([...byIncident(of).values()].map((own) => mean(own.map((trial) => Number(holds(trial))))));
  const all = (holds: (trial: Trial) => boolean) =>
    share(holds) ?? { value: 0, low: 0, high: 1, incidents: 0 };
  const tempting = new Set(
    incidents.filter(({ rivals }) => rivals.some((rival) => rival.tempting)).map(({ id }) => id),
  );
  const isRight = ({ score }: Trial) => score.right;
  const alarms = share(
    ({ confident, score }) => confident && !score.right,
    trials.filter(({ kind }) => kind === "none"),
  );
  const tempted = share(isRight, trials.filter(({ incident }) => tempting.has(incident)));
  const forecasts = trials.map(({ confidence, score }) => ({ confidence, right: score.right }));
  const calls = trials.reduce((sum, { tool_calls }) => sum + tool_calls, 0);
  const useful = trials.reduce((sum, { useful_tool_calls }) => sum + useful_tool_calls, 0);
  const costs = trials.map(({ cost_usd }) => cost_usd).filter((cost) => cost !== null);
  return {
    arm,
    name: ARM_NAMES[arm],
    trials: trials.length,
    right: all(isRight),
    component: all(({ score }) => score.component),
    fault: all(({ score }) => score.fault),
    confidently_wrong: all(({ confident, score }) => confident && !score.right),
    confidently_right: all(({ confident, score }) => confident && score.right),
    ...(alarms !== undefined && { false_alarms: alarms }),
    ...(tempted !== undefined && { tempting: tempted }),
    brier: brierOf(forecasts),
    calibration: reliabilityOf(forecasts),
    tokens_mean: Math.round(mean(trials.map(({ tokens }) => tokens))),
    cost_usd: costs.length === 0 ? null : round(costs.reduce((sum, cost) => sum + cost, 0)),
    tool_calls_mean: round(mean(trials.map(({ tool_calls }) => tool_calls))),
    tool_efficiency: calls === 0 ? null : round(useful / calls),
    out_of_budget: trials.filter(({ ending }) => ending === "out_of_budget").length,
    failed: trials.filter(({ ending }) => ending === "error").length,
    by_kind: Object.fromEntries<Share | undefined>(FAULT_KINDS.flatMap((kind) => {
      const found = share(isRight, trials.filter((trial) => trial.kind === kind));
      return found === undefined ? [] : [[kind, found]];
    })),
  };
}

function byIncident(trials: readonly Trial[]): ReadonlyMap<string, readonly Trial[]> {
  return Map.groupBy(trials, ({ incident }) => incident);
}

function pairsOf(
  ours: readonly Trial[],
  theirs: readonly Trial[],
  holds: (trial: Trial) => boolean,
): readonly (readonly [number, number])[] {
  const others = byIncident(theirs);
  const rate = (trials: readonly Trial[]) => mean(trials.map((trial) => Number(holds(trial))));
  return [...byIncident(ours)].flatMap(([incident, own]) => {
    const other = others.get(incident);
    return other === undefined ? [] : [[rate(own), rate(other)] as const];
  });
}

/** A control of the score: the answer to one incident is no answer to another with a fault, unless both had the same. */
function rightForAnother(trials: readonly Trial[], incidents: readonly Incident[]): number {
  const broken = incidents.filter(({ truth }) => truth.fault !== "none");
  return trials.filter(({ answer, incident }) => {
    const own = incidents.find(({ id }) => id === incident);
    return broken.some((other) =>
      other.id !== incident && !(own !== undefined && isSame(own.truth, other.truth)) &&
      scoreAnswer(answer, other).right
    );
  }).length;
}

function isSame(one: Cause, other: Cause): boolean {
  const key = ({ component, fault, path }: Cause) => JSON.stringify([component, fault, path].flat());
  return key(one) === key(other);
}
