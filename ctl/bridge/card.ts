import { createHash } from "node:crypto";
import type { Redactor } from "@gateway/shared/redact";
import { visibleText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { formatDetails } from "../approvals/text.ts";

export type Verb =
  | { readonly kind: "approve" | "deny" }
  | { readonly kind: "learn"; readonly ttlSeconds: number };

/** The content of a message. Only `lines` contains foreign text, which is visible, bounded and not escaped for markup. */
export interface Card {
  readonly approval: string;
  /** Part of the buttons' values, so that they decide only this request. */
  readonly nonce: string;
  readonly title: string;
  readonly lines: readonly string[];
  readonly note: string;
  readonly page: string;
  readonly verbs: readonly Verb["kind"][];
}

/** Lengths are in UTF-16 units. */
const LONGEST_COMMAND = 2_000;
const LONGEST_LINE = 600;
const MOST_LINES = 40;
/** The length of all lines. Mattermost accepts 16,383 characters, with markup and broken lines. */
export const LONGEST_CARD = 9_000;

const SIGNED = "Approvals of this request must be signed. To approve it, open its page.";
const NOT_WHOLE = "This message does not show the complete request. To approve it, open its page.";

/** The times for which a decision can be learned in a chat, in seconds. */
export const LEARN_TIMES: readonly number[] = [3600, 8 * 3600, 86_400, 7 * 86_400];

const TITLES = {
  pending: "Approval required",
  approved: "Approved",
  denied: "Denied",
  expired: "Expired, not run",
} as const satisfies Record<ApprovalRecord["status"], string>;

/**
 * Creates the card of a request. A request that the card does not show completely, because it is long or contains a
 * secret, cannot be approved from the card.
 *
 * @param record undefined if the control plane no longer knows the request
 * @param options `joined` has the IDs of the identical requests that are decided with it
 */
export function makeCard(
  approval: string,
  record: ApprovalRecord | undefined,
  { nonce, joined, redact, pageOf }: {
    readonly nonce: string;
    readonly joined: readonly string[];
    readonly redact: Redactor;
    readonly pageOf: (approval: string) => string;
  },
): Card {
  const common = { approval, nonce, page: pageOf(approval) };
  if (record === undefined) {
    const lines = [`id         ${visibleText(approval)}`];
    return {
      ...common,
      title: "Closed: the control plane no longer lists this request",
      lines,
      note: "",
      verbs: [],
    };
  }
  const { lines, isWhole } = linesOf(record, redact);
  const count = joined.length === 0 ? "" : ` (${joined.length + 1} identical requests)`;
  const isPending = record.status === "pending";
  // A chat cannot sign.
  const obstacle = record.signed_approval !== undefined ? SIGNED : isWhole ? "" : NOT_WHOLE;
  return {
    ...common,
    title: `${TITLES[record.status]}${count}`,
    lines,
    note: isPending ? obstacle : "",
    verbs: !isPending ? [] : obstacle === "" ? ["approve", "deny", "learn"] : ["deny"],
  };
}

export function cardDigest(card: Card): string {
  return digestOf([card.title, card.lines, card.note, card.page, card.verbs]);
}

const DECISION_KEYS: readonly string[] = [
  ...["status", "decided_by", "decided_at", "learn_ttl", "comment", "joined", "collected", "expires_at"],
];

/** Equal for two records with the same content, even if their decisions differ. */
export function contentDigest(record: ApprovalRecord): string {
  const { signed_approval: signed } = record;
  // A signature must not take away the button that denies.
  const content = { ...record, ...(signed && { signed_approval: { ...signed, approved_by: [] } }) };
  const entries = Object.entries(content).filter(([key]) => !DECISION_KEYS.includes(key))
    .sort(([a], [b]) => a < b ? -1 : 1);
  return digestOf(entries);
}

function digestOf(value: unknown): string {
  return createHash("sha256").update(JSON.stringify(value)).digest("base64url");
}

/** The lines of `broker-ctl approval show`, without file contents and manifests. */
function linesOf(record: ApprovalRecord, redact: Redactor) {
  const { content_head, k8s_manifest, joined: _joined, collected: _collected, ...shown } = record;
  const all = formatDetails(shown).map(visibleText);
  // Also mask before quoting: the backslashes of a quote could split a secret.
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
  return end < 0 ? lines : [...lines.slice(0, end), `[TRUNCATED: ${end} of ${lines.length} lines]`];
}

function cutLine(line: string, longest: number): string {
  if (line.length <= longest) return line;
  const head = line.slice(0, longest).toWellFormed();
  return `${head}… [TRUNCATED: ${head.length} of ${line.length} characters]`;
}
