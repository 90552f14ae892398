import {
  accessKind,
  describeAccess,
  describeChange,
  describeDiff,
  describeSpan,
  elevationLabel,
  isCommandShown,
} from "@gateway/shared/policy";
import { formatDuration, quoteText, visibleText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { ageCell, type Cell, shortenIds, type Table } from "../kit/table.ts";

/** Approvals as a table. What is not a command is described instead of it. */
export function formatApprovals(approvals: readonly ApprovalRecord[], none: string, now: number): Table {
  const shortId = shortenIds(approvals.map(({ id }) => id));
  const rows = approvals.map((approval) => {
    const { status, caller, end_user: user = "", host, command, reason = "", rule = "", created_at } =
      approval;
    const asks = isCommandShown(accessKind(approval)) ? command : describeAccess(approval);
    const elevation = describeElevation(approval);
    const rights = [...elevation === "none" ? [] : [elevation], ...approval.access ?? []];
    const mark = rights.length === 0 ? "" : `[${rights.map(quoteOdd).join(" ")}] `;
    return [
      shortId(approval.id),
      ageCell(created_at, now),
      describeLeft(approval, now),
      {
        text: quoteStrange(user || caller),
        wide: user ? `${quoteStrange(user)} through ${quoteStrange(caller)}` : quoteStrange(caller),
      },
      quoteStrange(host),
      {
        text: mark + quoteStrange(asks),
        wide: mark + (asks === command ? "" : `${asks}: `) + quoteText(command),
      },
      quoteStrange(reason),
      status,
      rule,
    ];
  });
  const columns = "ID AGE LEFT AGENT HOST COMMAND REASON +STATUS +RULE".split(" ");
  return { none, columns, rows };
}

/** Quotes a text that could be read as several cells, or that has invisible characters. */
function quoteStrange(text: string): string {
  return text === "" || (/^(?!\[)\S+(?: \S+)*$/.test(text) && visibleText(text) === text)
    ? text
    : quoteText(text);
}

/** The time to decide a pending request, or what became of it. */
function describeLeft({ status, expires_at = "" }: ApprovalRecord, now: number): Cell {
  if (status !== "pending") return { text: status, role: status === "approved" ? "ok" : "dim" };
  const left = Date.parse(expires_at) - now;
  if (Number.isNaN(left)) return { text: "" };
  return {
    text: formatDuration(Math.floor(Math.max(left, 0) / 1000) * 1000),
    wide: expires_at,
    role: left < 60_000 ? "warn" : undefined,
  };
}

/** All details of an approval, one per line. */
export function formatDetails(approval: ApprovalRecord): readonly string[] {
  const { id, status, caller, end_user, host, command, access, rule, anomalies = [] } = approval;
  const { created_at, expires_at, decided_by, decided_at, joined = [], collected = 0 } = approval;
  const facts: readonly Fact[] = [
    ["id", id],
    ["status", status],
    ["caller", caller],
    ["end user", end_user],
    ["asks", accessKind(approval) === "command" ? undefined : describeAccess(approval)],
    [approval.target_type === "k8s" ? "cluster" : "host", host],
    ["address", approval.addr],
    ["account", approval.account],
    ["elevation", describeElevation(approval)],
    ["access", access?.join(", ")],
    ["command", quoteText(command)],
    ...contentFacts(approval),
    ["reason", approval.reason === undefined ? undefined : quoteText(approval.reason)],
    ["cert", describeLife(approval)],
    ["rule", rule],
    ["unusual", anomalies.length > 0 ? anomalies.join(", ") : undefined],
    ["created", created_at],
    ["expires", expires_at],
    ["decided", decided_by && `${decided_at} by ${decided_by}`],
    ["signed", describeSignatures(approval)],
    ["comment", approval.comment === undefined ? undefined : quoteText(approval.comment)],
    ["learning", describeLearning(approval)],
    ["same", joined.join(", ")],
    // Identical requests are decided together, and collected one by one.
    ["collected", status === "approved" ? `${collected} of ${joined.length + 1}` : undefined],
  ];
  return facts.flatMap(([name, value]) => value ? [`${name.padEnd(9)}  ${value}`] : []);
}

function describeSignatures({ signed_approval: signed }: ApprovalRecord): string | undefined {
  if (signed === undefined) return undefined;
  const { required, approved_by } = signed;
  const names = approved_by.length === 0 ? "" : `: ${approved_by.map(quoteStrange).join(", ")}`;
  return `${approved_by.length} of ${required} people have signed${names}`;
}

/** The time to learn without `--ttl`. */
export const DEFAULT_LEARN = "1h";

/** A name and its value; a fact without a value is left out. */
type Fact = readonly [name: string, value: string | undefined];

/** What the approver of a pending request must know, the most important facts first. */
export function keyFacts(approval: ApprovalRecord): readonly Fact[] {
  const { host, addr, account, caller, end_user: user, reason, rule, anomalies = [], joined = [] } = approval;
  const elevation = describeElevation(approval);
  const address = addr === undefined ? "" : ` (${quoteOdd(addr)})`;
  const as = account === undefined ? "" : ` as ${quoteOdd(account)}`;
  const and = elevation === "none" ? "" : ` with elevation ${quoteOdd(elevation)}`;
  const unusual = anomalies.length > 0 ? anomalies.map(quoteOdd).join(", ") : undefined;
  const facts: readonly Fact[] = [
    ["asks", accessKind(approval) === "command" ? undefined : describeAccess(approval)],
    [approval.target_type === "k8s" ? "cluster" : "host", `${quoteOdd(host)}${address}${as}${and}`],
    ["agent", user ? `${quoteOdd(user)} through ${quoteOdd(caller)}` : quoteOdd(caller)],
    ["reason", reason === undefined ? undefined : quoteText(reason)],
    ["rule", rule === "behavior" ? "none: the guardrails found the request unusual" : rule],
    ["unusual", unusual],
    ["covers", joined.length > 0 ? `${joined.length + 1} identical requests` : undefined],
    ["access", approval.access?.join(", ")],
    ...contentFacts(approval),
    ["cert", describeLife(approval)],
  ];
  return facts.filter(([, value]) => value);
}

function describeLife({ life_seconds: seconds }: ApprovalRecord): string | undefined {
  return seconds === undefined ? undefined : `valid for ${describeSpan(seconds)}`;
}

function contentFacts(approval: ApprovalRecord): readonly Fact[] {
  const { content_sha256, content_bytes = 0 } = approval;
  return [
    ["writes", content_sha256 && `${content_bytes} bytes, SHA-256 ${content_sha256}`],
    ["first", approval.content_head === undefined ? undefined : quoteText(approval.content_head)],
    ["manifest", approval.k8s_manifest === undefined ? undefined : quoteText(approval.k8s_manifest)],
    ["sha256", approval.k8s_manifest_sha256],
    ["changes", approval.k8s_diff && describeDiff(approval.k8s_diff)],
    ...(approval.k8s_diff?.changes ?? []).map((change) => ["", describeChange(change)] as const),
    ["forces", approval.k8s_force_fields?.map(quoteText).join(", ")],
  ];
}

/** Learning starts when the broker collects the approval, and the signer can shorten it. */
export function describeLearnTime(ttlSeconds: number): string {
  const longest = formatDuration(ttlSeconds * 1000);
  return `identical requests are approved automatically for at most ${longest} after the broker collects this approval`;
}

function describeElevation({ sudo, sudo_user }: ApprovalRecord): string {
  return elevationLabel(sudo, sudo_user) || "none";
}

function describeLearning({ status, learn_ttl: nanoseconds = 0n }: ApprovalRecord) {
  // An approval that expired before its collection created no waiver.
  if (status !== "approved" || nanoseconds <= 0n) return undefined;
  return describeLearnTime(Number(nanoseconds / 1_000_000_000n));
}

/** Quotes a value that contains a space, or a character with a special meaning in the line. */
function quoteOdd(value: string): string {
  return /^[^\s"=[\]]+$/.test(value) ? value : quoteText(value);
}
