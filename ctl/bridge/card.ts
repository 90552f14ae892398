import { createHash } from "node:crypto";
import type { Redactor } from "@gateway/shared/redact";
import { visibleText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { formatDetails } from "../approvals/text.ts";

/** What can be decided in a chat. */
export type Verb =
  | { readonly kind: "approve" | "deny" }
  | { readonly kind: "learn"; readonly ttlSeconds: number };

/** What a message shows; the text of others is in `lines` alone, visible and bounded, and not escaped for any markup. */
export interface Card {
  readonly approval: string;
  /** What a button carries, so that it decides this and nothing else. */
  readonly nonce: string;
  readonly title: string;
  readonly lines: readonly string[];
  /** Our words about it; empty: none. */
  readonly note: string;
  /** Where all of it is shown. */
  readonly page: string;
  /** Empty once it is decided. */
  readonly verbs: readonly Verb["kind"][];
}

/** What a card is made with. */
interface CardContext {
  readonly nonce: string;
  /** The ids of the identical requests that are decided with it. */
  readonly joined: readonly string[];
  readonly redact: Redactor;
  readonly pageOf: (approval: string) => string;
}

/** How long a command is shown, in UTF-16 units, quoted. */
const LONGEST_COMMAND = 2_000;
const LONGEST_LINE = 600;
const MOST_LINES = 40;
/** How long all lines are, in UTF-16 units. Mattermost takes 16,383 characters, markup and broken lines included. */
export const LONGEST_CARD = 9_000;

const NOT_WHOLE = "Not all of it can be shown here: approve it on its page, where it stands whole.";

/** The times for which a decision can be learned in a chat, in seconds. */
export const LEARN_TIMES: readonly number[] = [3600, 8 * 3600, 86_400, 7 * 86_400];

/** The card of a request. What is not shown whole, for its length or for what is masked, can't be approved from it. */
export function makeCard(record: ApprovalRecord, { nonce, joined, redact, pageOf }: CardContext): Card {
  const { lines, isWhole } = linesOf(record, redact);
  const count = joined.length === 0 ? "" : ` (${joined.length + 1} identical requests)`;
  const isPending = record.status === "pending";
  return {
    approval: record.id,
    nonce,
    title: `${TITLES[record.status]}${count}`,
    lines,
    note: isPending && !isWhole ? NOT_WHOLE : "",
    page: pageOf(record.id),
    verbs: !isPending ? [] : isWhole ? ["approve", "deny", "learn"] : ["deny"],
  };
}

const TITLES = {
  pending: "Approval required",
  approved: "Approved",
  denied: "Denied",
  expired: "Expired: nothing ran",
} as const satisfies Record<ApprovalRecord["status"], string>;

/** In the place of the card of a request that the control plane has forgotten. */
export function makeLostCard(
  approval: string,
  { nonce, pageOf }: Omit<CardContext, "redact" | "joined">,
): Card {
  const title = "Over: the control plane knows it no longer";
  const lines = [`id         ${visibleText(approval)}`];
  return { approval, nonce, title, lines, note: "", page: pageOf(approval), verbs: [] };
}

/** Equal for two cards that look the same. */
export function cardDigest(card: Card): string {
  return digestOf([card.title, card.lines, card.note, card.page, card.verbs]);
}

/** Equal for two records that ask for the same, whatever became of them. */
export function contentDigest(record: ApprovalRecord): string {
  const entries = Object.entries(record).filter(([key]) => !FATES.includes(key))
    .sort(([a], [b]) => a < b ? -1 : 1);
  return digestOf(entries);
}

const FATES: readonly string[] = [
  ...["status", "decided_by", "decided_at", "learn_ttl", "comment", "joined", "collected", "expires_at"],
];

function digestOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("base64url");
}

/** The lines that an operator's terminal shows, without file contents and manifests: those are on the page. */
function linesOf(
  record: ApprovalRecord,
  redact: Redactor,
): { readonly lines: readonly string[]; readonly isWhole: boolean } {
  const { content_head, k8s_manifest, joined: _joined, collected: _collected, ...shown } = record;
  const all = formatDetails(shown).map(visibleText);
  // Masked before it is quoted too: a quote's backslashes could part what a rule looks for.
  const masked = formatDetails(maskTexts(shown, redact)).map((line) => redact(visibleText(line)));
  const lines = cutLines(
    masked.map((line) => cutLine(line, line.startsWith("command ") ? LONGEST_COMMAND : LONGEST_LINE)),
  );
  const isWhole = content_head === undefined && k8s_manifest === undefined && lines.length === all.length &&
    lines.every((line, index) => line === all[index]);
  return { lines, isWhole };
}

function maskTexts(record: ApprovalRecord, redact: Redactor): ApprovalRecord {
  const mask = (value: string | undefined) => value === undefined ? undefined : redact(value);
  return {
    ...record,
    command: redact(record.command),
    rule: mask(record.rule),
    reason: mask(record.reason),
    comment: mask(record.comment),
    end_user: mask(record.end_user),
    anomalies: record.anomalies?.map(redact),
  };
}

function cutLines(lines: readonly string[]): readonly string[] {
  let length = 0;
  const isTooMuch = (line: string, index: number) =>
    (length += line.length + 1) > LONGEST_CARD || index >= MOST_LINES;
  const end = lines.findIndex(isTooMuch);
  return end < 0 ? lines : [...lines.slice(0, end), `[CUT: ${end} of ${lines.length} lines]`];
}

function cutLine(line: string, longest: number): string {
  if (line.length <= longest) return line;
  const head = line.slice(0, longest).toWellFormed();
  return `${head}… [CUT: ${head.length} of ${line.length} characters]`;
}
