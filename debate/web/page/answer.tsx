import type { JSX } from "preact";
import { Badge, Icon, type IconName, Problem, type Tone, VisibleText } from "@gateway/shared/ui";
import type { Decision, Hypothesis } from "../../engine/graph/state.ts";
import { formatDuration } from "../../report/duration.ts";
import { CodeBlock, CopyButton } from "./code_block.tsx";
import { coded, evidenceItems, Lines, missingItem, reviewItems } from "./evidence.tsx";
import type { FollowedRun } from "./follow.ts";
import { percent } from "./format.ts";
import { t } from "./language.ts";
import { causeOf, dollarsOf, leadOf, type Summary, tokensOf, verdictOf } from "./summary.ts";

const ICONS: Readonly<Partial<Record<Tone, IconName>>> = { good: "check", bad: "alert", warn: "alert" };

const RISKS: Readonly<Record<string, Tone>> = { high: "bad", medium: "warn" };

/** The answer: verdict, cause, confidence and its reason, risk, what to do next, evidence and objections. */
export function Answer({ run: { summary, record } }: { readonly run: FollowedRun }): JSX.Element {
  const { decision, imported, problem } = summary;
  const status = record.status ?? "unknown";
  const { tone, title } = verdictOf(summary, status);
  const lead = leadOf(summary);
  const cause = causeOf(summary);
  // The evidence of an imported run was not checked here.
  const isSure = decision?.grounding?.outcome === "cause" && !imported;
  const isFailed = status === "error" || status === "interrupted";
  const icon = ICONS[tone];
  return (
    <section id="answer" class={`card answer ${tone}`} aria-labelledby="answer-title" tabIndex={-1}>
      <div class="main stack">
        <h2 id="answer-title" class="verdict row">
          {icon !== undefined && <Icon name={icon} />}
          {t(title)}
        </h2>
        {isFailed && problem !== "" && (
          <Problem>
            <VisibleText text={problem} lines />
          </Problem>
        )}
        {isFailed && (
          <p class="actions">
            <button type="submit" form="resume-form" class="primary">{t("Continue from here")}</button>
          </p>
        )}
        {cause !== "" && (
          <div>
            {!isSure && !imported && (
              <p class="note">{t(status === "running" ? "Leading so far" : "Best candidate")}</p>
            )}
            <p class={isSure ? "cause" : "cause guess"}>
              <VisibleText text={cause} lines />
            </p>
          </div>
        )}
        {cause === "" && !isFailed && <p class="note">{t("No hypothesis leads.")}</p>}
        {decision !== undefined && (
          <>
            <p class="sure row">
              <span>
                <b class={isSure ? "figure" : "figure guess"}>{percent(decision.confidence)}</b>
                {t(imported ? " stated elsewhere " : " confidence ")}
              </span>
              {/* Green would call an unproved step safe. */}
              <Badge tone={RISKS[decision.risk_level] ?? (isSure ? "good" : "idle")}>
                {t(isSure ? "{risk} risk" : "{risk} risk, unproved", { risk: t(decision.risk_level) })}
              </Badge>
            </p>
            <p class="muted because">
              <VisibleText text={reasonOf(decision)} lines />
            </p>
            <Next decision={decision} isSure={isSure} />
          </>
        )}
      </div>
      {(lead !== undefined || decision !== undefined) && (
        <Proof lead={lead} decision={decision} calls={summary.calls} isSure={isSure} />
      )}
      <p class="note costs">{costsOf(summary, record)}</p>
    </section>
  );
}

function reasonOf({ confidence, grounding }: Decision): string {
  if (grounding === undefined) return t("The run is from before evidence was checked.");
  const { stated_confidence: stated, cap, reason } = grounding;
  if (stated <= confidence) return `${reason.charAt(0).toUpperCase()}${reason.slice(1)}.`;
  const limits = { stated: percent(stated), cap: percent(cap), reason };
  return t("The moderator stated {stated}; limited to {cap} because {reason}.", limits);
}

/** The engine marks a step that changes production without proof in its text. */
function Next({ decision, isSure }: {
  readonly decision: Decision;
  readonly isSure: boolean;
}): JSX.Element | null {
  const { next_step, recommended_fix, status, grounding } = decision;
  const isOver = grounding?.outcome !== null || status !== "continue";
  const steps = [
    { label: t("Next step"), text: next_step },
    {
      label: t(isSure ? "Recommended fix" : "Fix, if this is the cause"),
      text: isOver ? recommended_fix : undefined,
    },
  ].flatMap(({ label, text }) => text ? [{ label, text }] : []);
  if (steps.length === 0) return null;
  return (
    <div class="next">
      <h3>{t("What to do next")}</h3>
      <dl class="facts">
        {steps.map(({ label, text }) => (
          <div key={label}>
            <dt>{label}</dt>
            <dd>
              <p class="row">
                <span>{coded(text)}</span>
                <CopyButton text={text} />
              </p>
              {text.split("`").filter((code, index) => index % 2 === 1 && code.includes(" "))
                .map((command) => <CodeBlock key={command} text={command} />)}
            </dd>
          </div>
        ))}
      </dl>
    </div>
  );
}

function Proof({ lead, decision, calls, isSure }: {
  readonly lead: Hypothesis | undefined;
  readonly decision: Decision | undefined;
  readonly calls: Summary["calls"];
  readonly isSure: boolean;
}): JSX.Element {
  const { reviews: all = [], proposer = "diagnostic_agent" } = lead ?? {};
  // Only the last review of each reviewer counts.
  const reviews = [...new Map(all.map((review) => [review.agent, review])).values()];
  const said = (isAccepted: boolean) =>
    reviews.filter(({ verdict }) => (verdict === "accepted") === isAccepted)
      .flatMap((review) => reviewItems(review, proposer, calls));
  const missing = (decision?.missing_evidence ?? []).map(missingItem);
  return (
    <div class="proof stack">
      {/* Without a proved cause, the next question is what would prove one. */}
      {!isSure && <Lines title={t("Missing evidence")} items={first(missing)} />}
      <Lines
        title={t("Evidence for it")}
        items={[...first(evidenceItems(lead ?? {}, calls)), ...said(true)]}
        none={t("No evidence.")}
      />
      <Lines
        title={t(isSure ? "Against it, or missing" : "Against it")}
        items={first([...said(false), ...(isSure ? missing : [])])}
        none={reviews.length === 0 ? t("Not reviewed yet.") : t("No objections.")}
      />
    </div>
  );
}

const MAX_SHOWN = 3;

/** The first items. The hypotheses below show all. */
function first(items: readonly JSX.Element[]): readonly JSX.Element[] {
  const more = items.length - MAX_SHOWN;
  if (more <= 0) return items;
  return [
    ...items.slice(0, MAX_SHOWN),
    <li key="more" class="note">{t("{count} more below", { count: more })}</li>,
  ];
}

function costsOf({ round, maxRounds, tokens }: Summary, record: FollowedRun["record"]): string {
  const { cost_estimate, duration_seconds: seconds, token_totals } = record;
  const usd = cost_estimate?.total_usd;
  return [
    round > 0 && maxRounds !== undefined
      ? t("round {round} of {most}", { round: Math.min(round, maxRounds), most: maxRounds })
      : "",
    typeof seconds === "number" ? formatDuration(seconds) : "",
    tokensOf(token_totals?.total ?? { total_tokens: tokens }),
    typeof usd === "number" ? dollarsOf(usd) : "",
  ].filter((each) => each !== "").join(" · ");
}
