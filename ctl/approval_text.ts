import { formatDuration } from "@gateway/shared/duration";
import { elevationLabel } from "@gateway/shared/policy/sudo_user";
import { quoteText } from "@gateway/shared/quote";
import type { ApprovalRecord } from "@gateway/shared/wire/approval";
import { shorten, shortenText } from "./shorten.ts";
import { INDENT } from "./table.ts";

/** An approval in two lines; in three when its command is cut, the third saying so. */
export function formatSummary(approval: ApprovalRecord): readonly string[] {
  const { id, status, caller, end_user: user = "", host, command, access, rule = "" } = approval;
  const who = `caller=${quoteOdd(caller)} user=${quoteOdd(user || "-")} host=${quoteOdd(host)}`;
  const listed = shorten(command);
  const more = access === undefined ? "" : ` access=${quoteOdd(access.join("+"))}`;
  return [
    `${id}  [${status}]  ${who} elevation=${quoteOdd(describeElevation(approval))}${more}`,
    `${INDENT}cmd=${quoteText(listed.shown)}${listed.cut === undefined ? "" : "…"} rule=${shortenText(rule)}`,
    ...(listed.cut === undefined ? [] : [
      `${INDENT}CUT: ${listed.cut} of the command; all of it: broker-ctl approval show ${quoteOdd(id)}`,
    ]),
  ];
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
    ["host", host],
    ["elevation", describeElevation(approval)],
    ["access", access?.join(", ")],
    ["command", quoteText(command)],
    ["rule", rule],
    ["unusual", anomalies.length > 0 ? anomalies.join(", ") : undefined],
    ["created", created_at],
    ["expires", expires_at],
    ["decided", describeDecision(approval)],
    ["learning", describeLearning(approval)],
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
