import { cutText } from "@gateway/shared/text";
import { claimKey } from "./claim.ts";
import { groundingOf } from "./evidence.ts";
import { extractHypotheses, fallbackHypotheses, type FoundHypothesis } from "./review_marks.ts";
import { labelsFor } from "./labels.ts";
import { mergeHypotheses } from "./hypotheses.ts";
import { limitConfidence, NO_DECISION, withOutcome } from "./decision.ts";
import { type DebateState, type Decision, loggedTexts, type TurnText } from "./state.ts";
import { oneLine } from "./text.ts";

export interface SampleComparison {
  readonly diagnoses: number;
  /** The number of diagnoses that lead with each hypothesis, most votes first. */
  readonly votes: readonly { readonly id: string; readonly votes: number }[];
  /** All diagnoses lead with the same claim, and its evidence does not limit the confidence. */
  readonly agreed: boolean;
  /** Why a debate follows or not, in the language of the debate. */
  readonly reason: string;
  /** The hypotheses of all diagnoses, with the IDs that the debate uses. */
  readonly content: string;
}

interface Group {
  readonly key: string | undefined;
  readonly best: FoundHypothesis;
  readonly evidence: readonly string[];
  readonly shares: readonly number[];
  readonly votes: number;
}

const MAX_EVIDENCE = 10;

/** Merges the diagnoses into the state as the diagnosis of the first round. */
export function afterSamples(
  before: DebateState,
  turns: readonly TurnText[],
): { readonly state: DebateState; readonly comparison: SampleComparison } {
  const { round, task } = before;
  const labels = labelsFor(task.language);
  const calls = [...before.calls, ...turns.flatMap((turn) => turn.calls)];
  const diagnoses = turns.filter((turn) => !turn.isPlaceholder).map((turn) => hypothesesOf(turn, round));
  const groups = groupClaims(diagnoses);
  const named = groups.map((group, index) => toFinding(group, `H-${index + 1}`, diagnoses.length));
  const newCalls = new Set(turns.flatMap((turn) => turn.calls.map(({ call_id }) => call_id)));
  const origin = { round, agent: "diagnostic_agent", calls, newCalls } as const;
  const hypotheses = mergeHypotheses(before.hypotheses, named, origin);
  const votes = groups.flatMap((group, index) =>
    group.votes === 0 ? [] : [{ id: named[index]?.id ?? "", votes: group.votes }]
  );
  const isSame = diagnoses.length > 1 && diagnoses.length === turns.length && votes.length === 1 &&
    groups[0]?.key !== undefined;
  // Diagnoses that repeat an ungrounded claim do not prove it. The confidence of a partly grounded claim is
  // limited in any case.
  const counts = isSame && hypotheses[0] !== undefined && groundingOf(hypotheses[0]).level === "full";
  const lead = votes[0]?.id ?? "";
  const reason = counts
    ? labels.samplesAgree(diagnoses.length, lead)
    : isSame
    ? labels.samplesGuess(diagnoses.length, lead)
    : labels.samplesDiffer(votes.map(({ id, votes }) => `${id} (${votes})`).join(", "));
  const content = [reason, ...named.map(formatFinding)].join("\n\n");
  const comparison = { diagnoses: diagnoses.length, votes, agreed: counts, reason, content };
  return {
    comparison,
    state: {
      ...before,
      done: "diagnostic_agent",
      calls,
      hypotheses,
      texts: { ...before.texts, diagnostic: content },
      history: [...before.history, { role: "diagnostic_agent", content, round }],
      agreement: counts ? reason : "",
    },
  };
}

function hypothesesOf({ text }: TurnText, round: number): readonly FoundHypothesis[] {
  const found = extractHypotheses(text).filter((each) => each.text !== "");
  return found.length > 0 ? found : fallbackHypotheses(text, round);
}

function groupClaims(diagnoses: readonly (readonly FoundHypothesis[])[]): readonly Group[] {
  const groups = new Map<string, Group>();
  for (const found of diagnoses) {
    const lead = leadOf(found);
    const said = new Set<string>();
    for (const each of found) {
      const claim = claimKey(each.text);
      // Without a comparable claim, only identical texts are the same hypothesis.
      const key = claim ?? `text ${oneLine(each.text).toLowerCase()}`;
      const group = groups.get(key);
      const share = each.probability ?? 0;
      groups.set(key, {
        key: claim,
        best: group === undefined || share > Math.max(...group.shares) ? each : group.best,
        evidence: [...new Set([...group?.evidence ?? [], ...each.evidence])].slice(0, MAX_EVIDENCE),
        // A diagnosis counts once, even if it lists the same claim several times.
        shares: said.has(key) ? group?.shares ?? [share] : [...group?.shares ?? [], share],
        votes: (group?.votes ?? 0) + Number(each === lead),
      });
      said.add(key);
    }
  }
  const weight = ({ shares }: Group) => shares.reduce((sum, share) => sum + share, 0);
  return [...groups.values()].sort((a, b) => b.votes - a.votes || weight(b) - weight(a));
}

function leadOf(found: readonly FoundHypothesis[]): FoundHypothesis | undefined {
  return found.toSorted((a, b) => (b.probability ?? 0) - (a.probability ?? 0))[0];
}

function toFinding({ best, evidence, shares }: Group, id: string, diagnoses: number): FoundHypothesis {
  const sum = shares.reduce((total, share) => total + share, 0);
  const probability = diagnoses === 0 ? null : Math.round(sum / diagnoses * 1000) / 1000;
  return { ...best, id, evidence, probability };
}

function formatFinding({ id, text, probability, evidence }: FoundHypothesis): string {
  const share = probability === null ? "" : ` [P=${probability}]`;
  return [`### HYPOTHESIS-${id}${share}`, `Text: ${text}`, ...evidence.map((line) => `- ${line}`)].join("\n");
}

/** Decides by a vote instead of a debate. The claim with the most votes wins; a tie has no winner. */
export function afterVote(state: DebateState, { votes, diagnoses, reason }: SampleComparison): DebateState {
  const [first, second] = votes;
  const lead = first === undefined || first.votes === second?.votes ? undefined : first;
  const hypothesis = state.hypotheses.find(({ id }) => id === lead?.id);
  const { confidenceThreshold, language } = state.task;
  const voted: Decision = {
    ...NO_DECISION,
    ...(hypothesis !== undefined && {
      status: diagnoses === 0 ? "structured_uncertainty" : "final_diagnosis",
      confidence: hypothesis.probability ?? 0,
      leading_hypothesis: cutText(`${hypothesis.id}: ${hypothesis.text}`, 1000),
      evidence: hypothesis.supporting_evidence,
    }),
    stop_reason: reason,
  };
  const said = limitConfidence(voted, state.hypotheses, language);
  const decision = withOutcome(said, { confidenceThreshold, earlyOutConfirmed: false });
  const { round, texts } = state;
  const logged = { ...loggedTexts(texts), round, moderator: decision };
  return { ...state, done: "moderator_agent", decision, roundLog: [...state.roundLog, logged] };
}
