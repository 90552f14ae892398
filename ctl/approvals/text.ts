import {
  accessKind,
  describeAccess,
  describeChange,
  describeDiff,
  describeSpan,
  elevationLabel,
  isCommandShown,
} from "@gateway/shared/policy";
import { formatDuration, quoteText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { INDENT, shorten, shortenText } from "../kit/table.ts";

/** An approval in two lines, with further lines for a truncated command, an action that is not a command, and a reason. */
export function formatSummary(approval: ApprovalRecord, now: number): readonly string[] {
  const { id, status, caller, end_user: user = "", host, command, access, rule = "", reason } = approval;
  const who = `caller=${quoteOdd(caller)} user=${quoteOdd(user || "-")} host=${quoteOdd(host)}`;
  const listed = shorten(command);
  const more = access === undefined ? "" : ` access=${quoteOdd(access.join("+"))}`;
  const asks = isCommandShown(accessKind(approval)) ? [] : [`${INDENT}ASKS ${describeAccess(approval)}`];
  return [
    `${id}  [${status}]  ${who} elevation=${quoteOdd(describeElevation(approval))}${more}${
      describeTimes(approval, now)
    }`,
    `${INDENT}cmd=${quoteText(listed.shown)}${listed.cut === undefined ? "" : "…"} rule=${shortenText(rule)}`,
    ...(listed.cut === undefined ? [] : [
      `${INDENT}TRUNCATED: ${listed.cut} of the command; for all of it: broker-ctl approval show ${
        quoteOdd(id)
      }`,
    ]),
    ...asks,
    ...(reason === undefined ? [] : [`${INDENT}reason=${quoteText(reason)}`]),
  ];
}

/** The age of a request, and the remaining time to decide or collect it. */
function describeTimes({ status, created_at, expires_at = "" }: ApprovalRecord, now: number): string {
  const [age, left] = [now - Date.parse(created_at), Date.parse(expires_at) - now].map((ms) =>
    Number.isNaN(ms) ? "-" : formatDuration(Math.floor(Math.max(ms, 0) / 1000) * 1000)
  );
  return ` age=${age} left=${status === "pending" || status === "approved" ? left : "-"}`;
}

/** All details of an approval, one per line. */
export function formatDetails(approval: ApprovalRecord): readonly string[] {
  const { id, status, caller, end_user, host, command, access, rule, anomalies = [] } = approval;
  const { created_at, expires_at } = approval;
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
    ["lives", approval.life_seconds === undefined ? undefined : describeSpan(approval.life_seconds)],
    ["rule", rule],
    ["unusual", anomalies.length > 0 ? anomalies.join(", ") : undefined],
    ["created", created_at],
    ["expires", expires_at],
    ["decided", describeDecision(approval)],
    ["comment", approval.comment === undefined ? undefined : quoteText(approval.comment)],
    ["learning", describeLearning(approval)],
    ["same", approval.joined?.join(", ")],
    ["collected", describeCollected(approval)],
  ];
  return facts.flatMap(([name, value]) => value ? [`${name.padEnd(9)}  ${value}`] : []);
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
    ["lives", approval.life_seconds === undefined ? undefined : describeSpan(approval.life_seconds)],
  ];
  return facts.filter(([, value]) => value);
}

function contentFacts(approval: ApprovalRecord): readonly Fact[] {
  return [
    ["writes", describeContent(approval)],
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

function describeContent({ content_sha256, content_bytes = 0 }: ApprovalRecord): string | undefined {
  return content_sha256 && `${content_bytes} bytes, SHA-256 ${content_sha256}`;
}

/** Identical requests are decided together, and collected one by one. */
function describeCollected({ status, joined = [], collected = 0 }: ApprovalRecord): string | undefined {
  return status === "approved" ? `${collected} of ${joined.length + 1}` : undefined;
}

function describeElevation({ sudo, sudo_user }: ApprovalRecord): string {
  return elevationLabel(sudo, sudo_user) || "none";
}

function describeDecision({ decided_by: by, decided_at: at }: ApprovalRecord): string | undefined {
  return by ? `${at} by ${by}` : undefined;
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
