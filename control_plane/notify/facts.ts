import {
  askedKind,
  canonicalSudoUser,
  describeAsked,
  describeChange,
  describeDiff,
  describeSpan,
} from "@gateway/shared/policy";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { cutText, visibleText } from "@gateway/shared/text";

/** One line of what an approver has to know. */
interface Fact {
  readonly name: string;
  /** Bounded, one line, everything in it visible; not escaped for any markup. */
  readonly value: string;
}

/** The longest command shown, in UTF-16 units: a card with all facts stays below the 28 KB that Teams takes. */
export const MAX_COMMAND_LENGTH = 2000;
/** The longest of any other value shown. */
export const MAX_VALUE_LENGTH = 300;

/** More stand on the approval's page. */
const MOST_CHANGES = 5;

function changesOf({ k8s_diff }: ApprovalRecord): readonly string[] {
  return (k8s_diff?.changes ?? []).slice(0, MOST_CHANGES).map(describeChange);
}

/** The facts of an approval in the order in which they are shown; those that are empty are left out. */
export function factsOf(record: ApprovalRecord): readonly Fact[] {
  const facts: readonly (readonly [name: string, value: string | undefined])[] = [
    ["Approval ID", record.id],
    ["Status", record.status],
    ["Created", record.created_at.replace(/\.\d+/, "")],
    ["Asks", askedKind(record) === "command" ? undefined : describeAsked(record)],
    [record.target_type === "k8s" ? "Cluster" : "Host", record.host],
    ["Address", record.addr],
    ["Command", record.command],
    ["Caller (broker)", record.caller],
    ["End user", record.end_user],
    ["Elevation", record.sudo === true ? `sudo → ${canonicalSudoUser(true, record.sudo_user)}` : undefined],
    ["Access", record.access?.join(", ")],
    [
      "Certificate",
      record.life_seconds === undefined ? undefined : `lives ${describeSpan(record.life_seconds)}`,
    ],
    ["Reason given", record.reason],
    [
      "Writes",
      record.content_sha256 === undefined
        ? undefined
        : `${record.content_bytes ?? 0} bytes, SHA-256 ${record.content_sha256}`,
    ],
    ["Manifest", record.k8s_manifest_sha256 && `SHA-256 ${record.k8s_manifest_sha256}`],
    ["Changes", record.k8s_diff && [describeDiff(record.k8s_diff), ...changesOf(record)].join("; ")],
    ["Takes over fields", record.k8s_force_fields?.join(", ")],
    ["Policy rule", record.rule],
    ["Anomalies", record.anomalies?.join(", ")],
  ];
  return facts.flatMap(([name, value]) => {
    if (value === undefined || value === "") return [];
    return [{
      name,
      value: plainLine(value, name === "Command" ? MAX_COMMAND_LENGTH : MAX_VALUE_LENGTH),
    }];
  });
}

// Renderers drop blanks at the start, take four for a code block, and show a run of them as one.
const LOST_BLANK = /^ | (?= )/g;

/** The start of a text, at most `maxLength` UTF-16 units of it, with a note that says so where something is cut. */
export function cutWithNote(text: string, maxLength: number): string {
  const head = cutText(text, maxLength);
  return head === text ? text : `${head}… [TRUNCATED: ${head.length} of ${text.length} characters]`;
}

/**
 * Text of unknown origin as one line in which everything shows: controls, bidirectional marks, invisible
 * letters and odd blanks are written out. What is longer than `maxLength` is cut.
 */
export function plainLine(text: string, maxLength: number): string {
  return cutWithNote(visibleText(text), maxLength);
}

/**
 * A line as Markdown that renders as the line itself: CommonMark's own characters, those of the usual extensions,
 * and what would begin a list get a backslash.
 *
 * Not prevented: a client that makes bare addresses clickable. Such a link shows where it leads.
 */
export function escapeMarkdown(line: string): string {
  return line
    // Without "(" a card's {{DATE(…)}} is text too.
    .replace(/[\\`*_[\]()#~>|<!&]/g, "\\$&")
    .replace(/^( *)([-+])/, "$1\\$2")
    .replace(/^( *\d+)\./, "$1\\.")
    .replace(LOST_BLANK, "\u00a0");
}

/**
 * A line as HTML that renders as the line itself. An ampersand that no character reference can begin at stays:
 * so a client that shows the source instead still shows `a && b` as it is.
 */
export function escapeHtml(line: string): string {
  return line
    .replace(/[<>]|&(?=[#A-Za-z])/g, (character) => {
      return character === "<" ? "&lt;" : character === ">" ? "&gt;" : "&amp;";
    })
    .replace(LOST_BLANK, "\u00a0");
}
