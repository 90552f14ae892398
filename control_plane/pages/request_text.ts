import { askedKind, askedParts, askedTitle, canonicalSudoUser } from "@gateway/shared/policy";
import type { ApprovalRecord, ApprovalStatus } from "@gateway/shared/wire";
import { hasAskedFor } from "../approvals/approval.ts";
import { type Html, markup } from "./html.ts";
import { showText } from "./shown_text.ts";
import { formatDuration, formatUtc } from "./text_format.ts";

const STATUS: Readonly<Record<ApprovalStatus, { readonly word: string; readonly sign: string }>> = {
  pending: { word: "Pending", sign: "●" },
  approved: { word: "Approved", sign: "✓" },
  denied: { word: "Denied", sign: "✕" },
  expired: { word: "Expired", sign: "–" },
};

export function statusWord(status: ApprovalStatus): string {
  return STATUS[status].word;
}

/** A status as a word with a sign and a colour. */
export function showStatus(status: ApprovalStatus): Html {
  const { word, sign } = STATUS[status];
  return markup`<span class="status status-${status}"><span aria-hidden="true">${sign}</span> ${word}</span>`;
}

/** What it runs as beyond the login on the host; it stands out. */
export function showElevation({ sudo, sudo_user }: Pick<ApprovalRecord, "sudo" | "sudo_user">): Html {
  const user = canonicalSudoUser(sudo, sudo_user);
  return user === ""
    ? markup`<span class="muted">none</span>`
    : markup`<span class="elevated">sudo as ${showText(user)}</span>`;
}

/** What is asked, to go on "asks …"; the texts of others stand out. */
export function showAsked(approval: ApprovalRecord): Html {
  return markup`${
    askedParts(approval).map((part) =>
      typeof part === "string"
        ? part
        : part.kind === "elevated"
        ? markup`<span class="elevated">${showText(part.text)}</span>`
        : markup`<b>${showText(part.text)}</b>`
    )
  }`;
}

/** The command, cut, or what stands in the place of one. */
export function showWhat(approval: ApprovalRecord, limit: number): Html {
  const title = askedTitle(askedKind(approval));
  const command = markup`<code>${showText(approval.command, { limit })}</code>`;
  return title === undefined ? command : markup`<span class="elevated">${title}</span>`;
}

/** A rule. Blanks at its end are usual in a pattern, and no alarm. */
export function showRule(rule: string, limit = Infinity): Html {
  const blanks = rule.length <= limit ? /(?<! ) *$/.exec(rule)?.[0].length ?? 0 : 0;
  return markup`<code>${showText(rule.slice(0, rule.length - blanks), { limit })}${
    blanks > 0 && markup`<span class="muted" title="blank">${"␣".repeat(Math.min(blanks, 8))}</span>`
  }</code>`;
}

/** Whether the reader has asked for it, and so must not decide it. */
export function isOwnRequest({ caller, end_user }: ApprovalRecord, reader: string): boolean {
  return hasAskedFor({ caller, endUser: end_user ?? "" }, reader);
}

/** How long ago something was; the script keeps it going. */
export function showAge(since: number, now: number): Html {
  return markup`<time class="count" datetime="${isoTime(since)}" title="${
    formatUtc(since)
  }" data-since="${since}">${formatDuration(now - since)}</time>`;
}

/** How much time is left; the script keeps it going. */
export function showTimeLeft(until: number, now: number): Html {
  return markup`<time class="count" datetime="${isoTime(until)}" title="${
    formatUtc(until)
  }" data-until="${until}">${formatDuration(until - now)}</time>`;
}

function isoTime(ms: number): string {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? "" : date.toISOString();
}

/** A time of the wire, in milliseconds since the epoch. */
export function parseTime(timestamp: string): number {
  return Date.parse(timestamp);
}
