/** The answer of an alert run in five lines, for a chat. The texts of the alert and of agents are untrusted. */
import { shortenText, visibleText } from "@gateway/shared/text";
import { groundingOf } from "../engine/graph/evidence.ts";
import { fieldsOf, oneLine, textOf } from "../engine/graph/text.ts";
import type { Settings } from "../settings/config.ts";
import { lastDecision, type ReadRecord } from "../runs/record.ts";

type AnswerFormat = Settings["ALERT_ANSWER_FORMAT"];

const MAX_TITLE = 160;
const MAX_LINE = 400;

interface Facts {
  readonly title: string;
  readonly severity: string;
  /** The page of the run. */
  readonly url: string;
}

/** The four lines of an answer above its link: cause, confidence, evidence, next step. */
export function answerLines(
  { title, severity }: Pick<Facts, "title" | "severity">,
  record: Pick<ReadRecord, "status" | "conclusion" | "hypotheses" | "events">,
): readonly string[] {
  const { status, conclusion, hypotheses, events } = record;
  const decision = fieldsOf(lastDecision(events));
  const { hypothesis_id } = fieldsOf(decision.grounding);
  const lead = hypotheses.find(({ id }) => id === hypothesis_id);
  const isProved = status === "completed" && conclusion?.outcome === "cause" && lead !== undefined;
  // The engine marks unproved steps. A run that fails after a decision has proved nothing.
  const isLate = !isProved && conclusion?.outcome === "cause";
  const name = shortenText(oneLine(title), MAX_TITLE);
  const about = severity === "" ? name : `${name} (${shortenText(oneLine(severity), 40)})`;
  const said = lead?.text ?? textOf(decision.leading_hypothesis);
  const { grounded, cited, results } = lead === undefined
    ? { grounded: 0, cited: 0, results: 0 }
    : groundingOf(lead);
  const share = typeof decision.confidence === "number" ? `${Math.round(decision.confidence * 100)} %` : "";
  const next = textOf(decision.next_step);
  return [
    `${about}. ${isProved ? "Cause: " : ""}${isProved ? said : unproved(record, said)}`,
    isProved ? `Confidence: ${share}` : `No confident cause${share === "" ? "" : ` (${share})`}`,
    `Evidence: ${grounded} of ${cited} lines count, from ${results} ${results === 1 ? "result" : "results"}`,
    `Next: ${next === "" ? "open the run and check its evidence" : isLate ? `Unproved: ${next}` : next}`,
  ].map((line) => shortenText(visibleText(oneLine(line)), MAX_LINE));
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

/** The body of the request to a chat. The only link is the one to the run. */
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
