/** The answer of an alert run in five lines, for a chat. The texts of the alert and of agents are untrusted. */
import { shortenText, visibleText } from "@gateway/shared/text";
import { groundingOf } from "../engine/graph/evidence.ts";
import { count, fieldsOf, oneLine, textOf } from "../engine/graph/text.ts";
import type { Settings } from "../settings/config.ts";
import { lastDecision, type ReadRecord } from "../runs/record.ts";

type AnswerFormat = Settings["ALERT_ANSWER_FORMAT"];

const MAX_TITLE = 160;
const MAX_LINE = 400;

export interface Facts {
  readonly title: string;
  readonly severity: string;
  /** The page of the run. */
  readonly url: string;
}

/** One visible line. Secrets are masked before the cut, because half a secret is not recognized. */
export function chatLine(text: string, redact: (text: string) => string): string {
  return shortenText(visibleText(oneLine(redact(text))), MAX_LINE);
}

/** The title and the severity of an alert. */
export function headline({ title, severity }: Pick<Facts, "title" | "severity">): string {
  const name = shortenText(oneLine(title), MAX_TITLE);
  return severity === "" ? name : `${name} (${shortenText(oneLine(severity), 40)})`;
}

/** The four lines of an answer above its link: cause, confidence, evidence, next step. */
export function answerLines(
  about: Pick<Facts, "title" | "severity">,
  record: Pick<ReadRecord, "status" | "conclusion" | "hypotheses" | "events">,
  redact: (text: string) => string,
): readonly string[] {
  const { status, conclusion, hypotheses, events } = record;
  const decision = fieldsOf(lastDecision(events));
  const { hypothesis_id } = fieldsOf(decision.grounding);
  const lead = hypotheses.find(({ id }) => id === hypothesis_id);
  const isProved = status === "completed" && conclusion?.outcome === "cause" && lead !== undefined;
  // The engine marks unproved steps. A run that fails after a decision has proved nothing.
  const isLate = !isProved && conclusion?.outcome === "cause";
  const said = lead?.text ?? textOf(decision.leading_hypothesis);
  const { grounded, cited, results } = lead === undefined
    ? { grounded: 0, cited: 0, results: 0 }
    : groundingOf(lead);
  const share = typeof decision.confidence === "number" ? `${Math.round(decision.confidence * 100)} %` : "";
  const next = textOf(decision.next_step);
  const instead = status === "error"
    ? "fix the failure, then resume the run"
    : "open the run and check its evidence";
  return [
    `${headline(about)}. ${isProved ? "Cause: " : ""}${isProved ? said : unproved(record, said)}`,
    isProved ? `Confidence: ${share}` : `No confident cause${share === "" ? "" : ` (${share})`}`,
    `Evidence: ${grounded} of ${cited} lines count, from ${count(results, "result")}`,
    `Next: ${next === "" ? instead : isLate ? `Unproved: ${next}` : next}`,
  ].map((line) => chatLine(line, redact));
}

function unproved({ status, events }: Pick<ReadRecord, "status" | "events">, said: string): string {
  const candidate = said === "" ? "" : `Best candidate: ${said}`;
  switch (status) {
    case "completed":
      return candidate || "No hypothesis leads.";
    case "error": {
      const problem = textOf(events.findLast(({ type }) => type === "error")?.message);
      return `The run failed (${shortenText(oneLine(problem), MAX_TITLE)}). ${candidate}`;
    }
    case "cancelled":
      return `An operator stopped the run. ${candidate}`;
    default:
      return `The server stopped during the run. ${candidate}`;
  }
}

/** The body of the request to a chat. The only link is the one to the run. A webhook gets all facts. */
export function chatBody(format: AnswerFormat, lines: readonly string[], facts: Facts): object {
  const { url } = facts;
  const safe = lines.map(withoutMentions);
  switch (format) {
    case "slack":
      // Slack reads these three characters as links and mentions; `mrkdwn: false` turns off the others.
      return { text: [...safe.map(escapeSlack), url].join("\n"), mrkdwn: false, unfurl_links: false };
    case "mattermost":
      return { text: [...safe.map(escapeMarkdown), url].join("\n") };
    case "teams":
      return teamsMessage(safe, url);
    case "webhook":
      return { ...facts, lines: [...lines, url] };
  }
}

/** An invisible space after `@` and in `://` stops mentions and links, which chats find in plain text. */
function withoutMentions(line: string): string {
  return line.replaceAll("@", "@\u200b").replaceAll("://", ":\u200b//");
}

function escapeSlack(line: string): string {
  return line.replaceAll("&", "&amp;").replaceAll("<", "&lt;").replaceAll(">", "&gt;");
}

function escapeMarkdown(line: string): string {
  return line.replace(/[\\`*_{}[\]()#+\-.!|<>~&:]/g, "\\$&");
}

/** An Adaptive Card. Unlike a TextBlock, a TextRun is not Markdown. */
function teamsMessage(lines: readonly string[], url: string): object {
  const body = lines.map((text) => ({ type: "RichTextBlock", inlines: [{ type: "TextRun", text }] }));
  const link = { type: "TextBlock", wrap: true, text: `[${url}](${url})` };
  return {
    type: "message",
    attachments: [{
      contentType: "application/vnd.microsoft.card.adaptive",
      contentUrl: null,
      content: {
        $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
        type: "AdaptiveCard",
        version: "1.4",
        body: [...body, link],
      },
    }],
  };
}
