import {
  askedKind,
  canonicalSudoUser,
  describeAsked,
  describeChange,
  describeDiff,
  describeSpan,
} from "@gateway/shared/policy";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { plainLine } from "./text.ts";

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
