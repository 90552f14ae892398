import {
  accessKind,
  canonicalSudoUser,
  describeAccess,
  describeChange,
  describeDiff,
  describeSpan,
} from "@gateway/shared/policy";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { cutText, visibleText } from "@gateway/shared/text";

interface Fact {
  readonly name: string;
  /** One line of bounded length that contains only visible characters. Not escaped for any markup. */
  readonly value: string;
}

/** UTF-16 units: a card with all facts stays below the 28 KB that Teams accepts. */
export const MAX_COMMAND_LENGTH = 2000;
export const MAX_VALUE_LENGTH = 300;

/** The approval's page shows the others. */
const MOST_CHANGES = 5;

export function factsOf(record: ApprovalRecord): readonly Fact[] {
  const changes = (record.k8s_diff?.changes ?? []).slice(0, MOST_CHANGES).map(describeChange);
  const facts: readonly (readonly [name: string, value: string | undefined])[] = [
    ["Approval ID", record.id],
    ["Status", record.status],
    ["Created", record.created_at.replace(/\.\d+/, "")],
    ["Request", accessKind(record) === "command" ? undefined : describeAccess(record)],
    [record.target_type === "k8s" ? "Cluster" : "Host", record.host],
    ["Address", record.addr],
    ["Command", record.command],
    ["Caller (broker)", record.caller],
    ["End user", record.end_user],
    ["Elevation", record.sudo === true ? `sudo → ${canonicalSudoUser(true, record.sudo_user)}` : undefined],
    ["Access", record.access?.join(", ")],
    [
      "Certificate lifetime",
      record.life_seconds === undefined ? undefined : describeSpan(record.life_seconds),
    ],
    ["Reason given", record.reason],
    [
      "Writes",
      record.content_sha256 === undefined
        ? undefined
        : `${record.content_bytes ?? 0} bytes, SHA-256 ${record.content_sha256}`,
    ],
    ["Manifest", record.k8s_manifest_sha256 && `SHA-256 ${record.k8s_manifest_sha256}`],
    ["Changes", record.k8s_diff && [describeDiff(record.k8s_diff), ...changes].join("; ")],
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

// Renderers drop spaces at the start, read four as a code block, and collapse several into one.
const LOST_BLANK = /^ | (?= )/g;

/** At most `maxLength` UTF-16 units of a text, with a note if it is truncated. */
export function cutWithNote(text: string, maxLength: number): string {
  const head = cutText(text, maxLength);
  return head === text ? text : `${head}… [TRUNCATED: ${head.length} of ${text.length} characters]`;
}

/** Text of unknown origin as one bounded line: controls, bidirectional marks and invisible characters are written out. */
export function plainLine(text: string, maxLength: number): string {
  return cutWithNote(visibleText(text), maxLength);
}

/**
 * Markdown that renders as the line itself. A client may still make bare addresses clickable; such a link shows its
 * target.
 */
export function escapeMarkdown(line: string): string {
  return line
    // "(" too, because cards expand {{DATE(…)}}.
    .replace(/[\\`*_[\]()#~>|<!&]/g, "\\$&")
    .replace(/^( *)([-+])/, "$1\\$2")
    .replace(/^( *\d+)\./, "$1\\.")
    .replace(LOST_BLANK, "\u00a0");
}

/** HTML that renders as the line itself. A harmless `&` stays, because some clients show the source of `a && b`. */
export function escapeHtml(line: string): string {
  return line
    .replace(/[<>]|&(?=[#A-Za-z])/g, (character) => {
      return character === "<" ? "&lt;" : character === ">" ? "&gt;" : "&amp;";
    })
    .replace(LOST_BLANK, "\u00a0");
}
