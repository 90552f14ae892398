import { askedKind, askedTitle } from "@gateway/shared/policy";
import type { ApprovalRecord } from "@gateway/shared/wire";
import type { ApprovalLink } from "./approval_link.ts";
import { explanationOf, TITLE, VIEW_REQUEST } from "./card_words.ts";
import { factsOf } from "./facts.ts";
import { escapeHtml, plainLine } from "./text.ts";

const MAX_SUMMARY_PART = 150;

/**
 * A message for a Teams or Outlook connector, the older format. Its section says that it is not Markdown; HTML tags
 * still count in connector cards, so texts are escaped as HTML.
 */
export function teamsMessageCard(record: ApprovalRecord, link: ApprovalLink): object {
  const url = link(record.id);
  const what = askedTitle(askedKind(record)) ?? record.command;
  const [asked, host] = [what, record.host].map((text) => plainLine(text, MAX_SUMMARY_PART));
  return {
    "@type": "MessageCard",
    "@context": "http://schema.org/extensions",
    themeColor: "FFA500",
    summary: escapeHtml(`Approval required: ${asked} on ${host}`),
    sections: [{
      activityTitle: TITLE,
      activitySubtitle: explanationOf(record),
      facts: factsOf(record).map(({ name, value }) => ({ name, value: escapeHtml(value) })),
      markdown: false,
    }],
    ...(url === undefined ? {} : {
      potentialAction: [{
        "@type": "OpenUri",
        name: VIEW_REQUEST,
        targets: [{ os: "default", uri: url }],
      }],
    }),
  };
}
