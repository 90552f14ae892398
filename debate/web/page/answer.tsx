import type { JSX } from "preact";
import { Badge, Icon, type IconName, type Tone, VisibleText } from "@gateway/shared/ui";
import type { Decision, Hypothesis } from "../../engine/graph/state.ts";
import { sendForm } from "./api.ts";
import { CodeBlock, CopyButton } from "./code_block.tsx";
import { coded, evidenceItems, missingItem, reviewItems } from "./evidence.tsx";
import type { FollowedRun } from "./follow.ts";
import { formatDuration, percent } from "./format.ts";
import { t } from "./language.ts";
import { useAction } from "./notices.tsx";
import { causeOf, dollarsOf, leadOf, type Summary, tokensOf, verdictOf } from "./summary.ts";

const MAX_SHOWN = 3;

const ICONS: Readonly<Partial<Record<Tone, IconName>>> = { good: "check", bad: "alert", warn: "alert" };

/** The answer: verdict, cause, confidence and its reason, risk, what to do next, evidence and objections. */
export function Answer({ run }: { readonly run: FollowedRun }): JSX.Element {
  const { summary, record } = run;
  const { decision, calls, imported, problem } = summary;
  const status = record.status ?? "unknown";
  const { tone, title } = verdictOf(summary, status);
  const lead = leadOf(summary);
  const cause = causeOf(summary);
  // The evidence of an imported run was not checked here.
  const isSure = decision?.grounding?.outcome === "cause" && !imported;
  const isFailed = status === "error" || status === "interrupted";
  return (
    <section id="answer" class={`card answer ${tone}`} aria-labelledby="answer-title" tabIndex={-1}>
      <div class="main">
        <h2 id="answer-title" class="verdict">
          {ICONS[tone] !== undefined && <Icon name={ICONS[tone]} />}
          {t(title)}
        </h2>
        {isFailed && (
          <>
            {problem !== "" && (
              <p class="problem">
                <VisibleText text={problem} lines />
              </p>
            )}
            <ContinueFromHere run={run} />
          </>
        )}
        {cause === ""
          ? !isFailed && (
            <p class="note">{t(status === "running" ? "No hypothesis yet." : "No hypothesis leads.")}</p>
          )
          : (
            <div>
              {!isSure && !imported && (
                <p class="note">{t(status === "running" ? "Leading so far" : "Best candidate")}</p>
              )}
              <p class={isSure ? "cause" : "cause guess"}>
                <VisibleText text={cause} lines />
              </p>
              {decision === undefined && typeof lead?.probability === "number" && (
                <p class="note">{t("The agents say {share}", { share: percent(lead.probability) })}</p>
              )}
            </div>
          )}
        {decision !== undefined && (
          <>
            <Certainty decision={decision} isSure={isSure} imported={imported} />
            <Next decision={decision} isSure={isSure} />
          </>
        )}
      </div>
      {(lead !== undefined || decision !== undefined) && (
        <div class="proof">
          <Proof lead={lead} decision={decision} calls={calls} isSure={isSure} />
        </div>
      )}
      <p class="note costs">{costsOf(summary, record)}</p>
    </section>
  );
}

/** After a failure of a provider, a new run continues with what this one found. */
function ContinueFromHere({ run: { record: { run_id } } }: { readonly run: FollowedRun }): JSX.Element {
  const [isBusy, attempt] = useAction();
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        const form = event.currentTarget;
        attempt(async () => {
          const started = await sendForm<{ run_id: string }>(`/api/runs/${run_id}/resume`, form);
          location.hash = `#/runs/${started.run_id}`;
        });
      }}
    >
      <input type="hidden" name="new_evidence" value="" />
      <p class="actions">
        <button type="submit" class="primary" disabled={isBusy}>{t("Continue from here")}</button>
      </p>
    </form>
  );
}

function Certainty({ decision, isSure, imported }: {
  readonly decision: Decision;
  readonly isSure: boolean;
  readonly imported: boolean;
}): JSX.Element {
  const { confidence, grounding, risk_level } = decision;
  const cap = grounding?.cap ?? null;
  return (
    <>
      <p class="sure">
        <span>
          <b class={isSure ? "figure" : "figure guess"}>{percent(confidence)}</b>
          {t(imported ? " stated elsewhere " : " confidence ")}
        </span>
        <Badge tone={riskTone(risk_level, isSure)}>
          {t(isSure ? "{risk} risk" : "{risk} risk, unproved", { risk: t(risk_level) })}
        </Badge>
      </p>
      <Meter confidence={confidence} cap={cap} />
      <p class="because">{reasonOf(decision)}</p>
    </>
  );
}

/** Green would call an unproved step safe. */
function riskTone(risk: string, isSure: boolean): Tone {
  if (risk === "high") return "bad";
  if (risk === "medium") return "warn";
  return isSure ? "good" : "idle";
}

function reasonOf({ confidence, grounding }: Decision): JSX.Element | string {
  if (grounding === undefined) return t("The run is from before evidence was checked.");
  const { stated_confidence: stated, cap, reason } = grounding;
  const sentence = `${reason}.`;
  if (stated <= confidence) {
    return <VisibleText text={sentence.charAt(0).toUpperCase() + sentence.slice(1)} lines />;
  }
  const limits = { stated: percent(stated), cap: percent(cap) };
  return (
    <>
      {t("The moderator stated {stated}; limited to {cap} because ", limits)}
      <VisibleText text={sentence} lines />
    </>
  );
}

/** The confidence as a bar, with a line where the evidence limits it. */
function Meter(
  { confidence, cap }: { readonly confidence: number; readonly cap: number | null },
): JSX.Element {
  const label = cap === null
    ? t("Confidence {share}", { share: percent(confidence) })
    : t("Confidence {share}, at most {cap}", { share: percent(confidence), cap: percent(cap) });
  return (
    <svg class="meter" viewBox="0 0 100 4" preserveAspectRatio="none" role="img" aria-label={label}>
      <rect class="track" width="100" height="4" />
      <rect class="fill" width={Math.round(confidence * 100)} height="4" />
      {cap !== null && <rect class="cap" x={cap * 100 - .4} width=".8" height="4" />}
    </svg>
  );
}

function Next(
  { decision, isSure }: { readonly decision: Decision; readonly isSure: boolean },
): JSX.Element | null {
  const { next_step, recommended_fix, status } = decision;
  const isOver = decision.grounding?.outcome !== null || status !== "continue";
  const fix = isOver ? recommended_fix ?? "" : "";
  if (!next_step && fix === "") return null;
  return (
    <div class="next">
      <h3>{t("What to do next")}</h3>
      <dl>
        {next_step && <Step text={next_step} label={t("Next step")} hedged={t("Unproved step")} />}
        {fix !== "" && (
          <Step
            text={fix}
            label={t(isSure ? "Recommended fix" : "Fix, if this is the cause")}
            hedged={t("Unproved fix")}
          />
        )}
      </dl>
    </div>
  );
}

/** The engine marks a step that changes production without proof. */
function Step({ text, label, hedged }: {
  readonly text: string;
  readonly label: string;
  /** The label of a marked step. */
  readonly hedged: string;
}): JSX.Element {
  const plain = text.replace(/^(?:Unproved|Sin probar): /, "");
  const isMarked = plain !== text;
  const commands = [...plain.matchAll(/`([^`]+)`/g)].map(([, code = ""]) => code)
    .filter((code) => code.includes(" "));
  return (
    <div>
      <dt class={isMarked ? "warn" : ""}>{isMarked ? hedged : label}</dt>
      <dd>
        <p class="row">
          <span>{coded(plain)}</span>
          <CopyButton text={text} />
        </p>
        {commands.map((each) => <CodeBlock key={each} text={each} />)}
      </dd>
    </div>
  );
}

function Proof({ lead, decision, calls, isSure }: {
  readonly lead: Hypothesis | undefined;
  readonly decision: Decision | undefined;
  readonly calls: Summary["calls"];
  readonly isSure: boolean;
}): JSX.Element {
  // Only the last review of each reviewer counts.
  const reviews = [...new Map((lead?.reviews ?? []).map((review) => [review.agent, review])).values()];
  const agreed = reviews.find(({ verdict }) => verdict === "accepted");
  const missing = (decision?.missing_evidence ?? []).map(missingItem);
  const against = reviews.filter(({ verdict }) => verdict !== "accepted")
    .flatMap((review) => reviewItems(review, lead?.proposer ?? "diagnostic_agent", calls));
  return (
    <>
      {/* Without a proved cause, the next question is what would prove one. */}
      {!isSure && missing.length > 0 && <List title={t("Missing evidence")} items={missing} none="" />}
      <List
        title={t("Evidence for it")}
        items={lead === undefined ? [] : evidenceItems(lead, calls)}
        none={t("No evidence.")}
      />
      {agreed !== undefined && (
        <p class="note">
          {t(
            agreed.new_evidence
              ? "The skeptic agrees and cites further evidence."
              : "The skeptic agrees, without new evidence.",
          )}
        </p>
      )}
      <List
        title={t(isSure ? "Against it, or missing" : "Against it")}
        items={isSure ? [...against, ...missing] : against}
        none={reviews.length === 0 ? t("Not reviewed yet.") : t("No objections.")}
      />
    </>
  );
}

function List({ title, items, none }: {
  readonly title: string;
  readonly items: readonly JSX.Element[];
  readonly none: string;
}): JSX.Element {
  const more = items.length - MAX_SHOWN;
  return (
    <div>
      <h3>{title}</h3>
      {items.length === 0 ? <p class="note">{none}</p> : <ul class="lines">{items.slice(0, MAX_SHOWN)}</ul>}
      {more > 0 && <p class="note">{t("{count} more below", { count: more })}</p>}
    </div>
  );
}

function costsOf({ round, maxRounds, tokens }: Summary, record: FollowedRun["record"]): string {
  const usd = record.cost_estimate?.total_usd;
  return [
    round > 0 && maxRounds !== undefined
      ? t("round {round} of {most}", { round: Math.min(round, maxRounds), most: maxRounds })
      : "",
    typeof record.duration_seconds === "number" ? formatDuration(record.duration_seconds) : "",
    tokensOf(record.token_totals?.total ?? { total_tokens: tokens }),
    typeof usd === "number" ? dollarsOf(usd) : "",
  ].filter((each) => each !== "").join(" · ");
}
