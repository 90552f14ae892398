import type { ApprovalRecord } from "@gateway/shared/wire";
import type { ApprovalLink } from "./approval_link.ts";
import { explanationOf, TITLE, VIEW_REQUEST } from "./card_words.ts";
import { factsOf } from "./facts.ts";
import { escapeMarkdown } from "./text.ts";

/**
 * A message for a Teams workflow: an Adaptive Card 1.4, whose facts are Markdown
 * (https://adaptivecards.io/explorer/FactSet.html).
 */
export function teamsWorkflowMessage(record: ApprovalRecord, link: ApprovalLink): object {
  const url = link(record.id);
  return {
    type: "message",
    attachments: [{
      contentType: "application/vnd.microsoft.card.adaptive",
      contentUrl: null,
      content: {
        $schema: "http://adaptivecards.io/schemas/adaptive-card.json",
        type: "AdaptiveCard",
        version: "1.4",
        body: [
          { type: "TextBlock", size: "Medium", weight: "Bolder", color: "Warning", wrap: true, text: TITLE },
          { type: "TextBlock", wrap: true, text: explanationOf(record) },
          { type: "FactSet", facts: factsOf(record).map(toFact) },
        ],
        ...(url === undefined ? {} : { actions: [{ type: "Action.OpenUrl", title: VIEW_REQUEST, url }] }),
      },
    }],
  };
}

/** The schema wants `title`; `name` is what existing flows read. */
function toFact({ name, value }: { readonly name: string; readonly value: string }) {
  return { title: name, name, value: escapeMarkdown(value) };
}
