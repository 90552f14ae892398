import {
  askedKind,
  describeAsked,
  describeChange,
  describeDiff,
  describeSpan,
  elevationLabel,
  isCommandShown,
} from "@gateway/shared/policy";
import { formatDuration, quoteText } from "@gateway/shared/text";
import type { ApprovalRecord } from "@gateway/shared/wire";
import { INDENT, shorten, shortenText } from "../kit/table.ts";

/**
 * An approval in two lines; more follow where its command is cut, where what is asked is no command, and where a
 * reason is given.
 */
export function formatSummary(approval: ApprovalRecord, now: number): readonly string[] {
  const { id, status, caller, end_user: user = "", host, command, access, rule = "", reason } = approval;
  const who = `caller=${quoteOdd(caller)} user=${quoteOdd(user || "-")} host=${quoteOdd(host)}`;
  const listed = shorten(command);
  const more = access === undefined ? "" : ` access=${quoteOdd(access.join("+"))}`;
  const asks = isCommandShown(askedKind(approval)) ? [] : [`${INDENT}ASKS ${describeAsked(approval)}`];
  return [
    `${id}  [${status}]  ${who} elevation=${quoteOdd(describeElevation(approval))}${more}${
      describeTimes(approval, now)
    }`,
    `${INDENT}cmd=${quoteText(listed.shown)}${listed.cut === undefined ? "" : "…"} rule=${shortenText(rule)}`,
    ...(listed.cut === undefined ? [] : [
      `${INDENT}CUT: ${listed.cut} of the command; all of it: broker-ctl approval show ${quoteOdd(id)}`,
    ]),
    ...asks,
    ...(reason === undefined ? [] : [`${INDENT}reason=${quoteText(reason)}`]),
  ];
}

/** How long ago the request was created, and how long it can still be decided, or collected once approved. */
function describeTimes({ status, created_at, expires_at = "" }: ApprovalRecord, now: number): string {
  const [age, left] = [now - Date.parse(created_at), Date.parse(expires_at) - now].map((ms) =>
    Number.isNaN(ms) ? "-" : formatDuration(Math.floor(Math.max(ms, 0) / 1000) * 1000)
  );
  return ` age=${age} left=${status === "pending" || status === "approved" ? left : "-"}`;
}

/** All of an approval, a line for each fact that there is. */
export function formatDetails(approval: ApprovalRecord): readonly string[] {
  const { id, status, caller, end_user, host, command, access, rule, anomalies = [] } = approval;
  const { created_at, expires_at } = approval;
  const facts: readonly (readonly [string, string | undefined])[] = [
    ["id", id],
    ["status", status],
    ["caller", caller],
    ["end user", end_user],
    ["asks", askedKind(approval) === "command" ? undefined : describeAsked(approval)],
    [approval.target_type === "k8s" ? "cluster" : "host", host],
    ["address", approval.addr],
    ["account", approval.account],
    ["elevation", describeElevation(approval)],
    ["access", access?.join(", ")],
    ["command", quoteText(command)],
    ["writes", describeContent(approval)],
    ["first", approval.content_head === undefined ? undefined : quoteText(approval.content_head)],
    ["manifest", approval.k8s_manifest === undefined ? undefined : quoteText(approval.k8s_manifest)],
    ["sha256", approval.k8s_manifest_sha256],
    ["changes", approval.k8s_diff && describeDiff(approval.k8s_diff)],
    ...(approval.k8s_diff?.changes ?? []).map((change) => ["", describeChange(change)] as const),
    ["forces", approval.k8s_force_fields?.map(quoteText).join(", ")],
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

/**
 * What approve-and-learn comes to: the decision is not the moment, nor is the time asked for the time there is.
 */
export function describeLearnTime(ttlSeconds: number): string {
  const longest = formatDuration(ttlSeconds * 1000);
  return `nobody is asked again for at most ${longest}, from when the broker collects it and the signer learns it`;
}

function describeContent({ content_sha256, content_bytes = 0 }: ApprovalRecord): string | undefined {
  return content_sha256 && `${content_bytes} bytes, SHA-256 ${content_sha256}`;
}

/** An identical request is decided with the first, and collected by itself. */
function describeCollected({ status, joined = [], collected = 0 }: ApprovalRecord): string | undefined {
  return status === "approved" ? `${collected} of ${joined.length + 1}` : undefined;
}

function describeElevation({ sudo, sudo_user }: ApprovalRecord): string {
  return elevationLabel(sudo, sudo_user) || "none";
}

function describeDecision({ decided_by: by, decided_at: at }: ApprovalRecord): string | undefined {
  return by ? `${at} by ${by}` : undefined;
}

function describeLearning(
  { status, learn_ttl: nanoseconds = 0n }: ApprovalRecord,
): string | undefined {
  // Of what expired before it was collected, nothing was learned.
  if (status !== "approved" || nanoseconds <= 0n) return undefined;
  return describeLearnTime(Number(nanoseconds / 1_000_000_000n));
}

/** A value among others on a line: one with a blank, or a sign that means something there, is quoted. */
function quoteOdd(value: string): string {
  return /^[^\s"=[\]]+$/.test(value) ? value : quoteText(value);
}
