import { accessKind, accessTitle, isCommandShown } from "@gateway/shared/policy";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { AppError } from "@gateway/shared/errors";
import { escapeHtml, escapeMarkdown, factsOf, plainLine } from "./facts.ts";

const TITLE = "Access Broker — Approval Required";
function explanationOf(record: ApprovalRecord): string {
  const what = isCommandShown(accessKind(record)) ? "command" : "request";
  return `A ${what} needs the approval of a second person. Nothing runs before that.`;
}

const VIEW_REQUEST = "View request";

type ApprovalLink = (id: string) => string | undefined;

const APPROVAL_ID = /^[0-9a-f]{32}$/;

/** Links from `approval_url_template`. @throws {AppError} `invalid_config` for an address that is not http or https */
export function createApprovalLink(template: string): ApprovalLink {
  if (template === "") return () => undefined;
  const protocol = URL.parse(template)?.protocol;
  if (protocol !== "https:" && protocol !== "http:") {
    throw new AppError(
      "invalid_config",
      `Cannot use approval.approval_url_template ${
        JSON.stringify(template)
      }: must be an https:// or http:// address`,
    );
  }
  // Insert only IDs of our own form into an address.
  return (id) => APPROVAL_ID.test(id) ? template.replaceAll("{id}", id) : undefined;
}

const MAX_SUMMARY_PART = 150;

/** A message for a Teams or Outlook connector. Connector cards interpret HTML even with `markdown: false`. */
export function teamsMessageCard(record: ApprovalRecord, link: ApprovalLink): object {
  const url = link(record.id);
  const what = accessTitle(accessKind(record)) ?? record.command;
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

/** An Adaptive Card 1.4, whose facts are Markdown (https://adaptivecards.io/explorer/FactSet.html). */
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
