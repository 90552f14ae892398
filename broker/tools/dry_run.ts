import { readStopOnDisconnect } from "@gateway/shared/policy";
import { shortenText, visibleText } from "@gateway/shared/text";
import type { WireDecision } from "@gateway/shared/wire";
import * as z from "@zod/zod";

/** The longest rule or reason in a result, in characters. */
const MAX_TEXT = 4000;

/** A policy decision in a tool result. Fields that are empty, false or 0 are absent. */
export const decisionView = z.strictObject({
  allowed: z.boolean(),
  reason_code: z.enum([
    "allowed",
    "needs_approval",
    "command_denied",
    "shell_parse_error",
    "allowlist_no_match",
    "denied",
  ]),
  reason: z.string().optional(),
  require_approval: z.boolean().optional(),
  matched_rule: z.string().optional(),
  enforcement: z.enum(["enforce", "audit"]).optional(),
  force_command: z.string().optional(),
  stops_on_disconnect: z.boolean().optional(),
  ttl_seconds: z.int().optional(),
  warning: z.string().optional(),
  would_deny: z.boolean().optional(),
});
type DecisionView = z.infer<typeof decisionView>;

export function viewDecision(decision: WireDecision, command: string): DecisionView {
  const { allowed, reason, require_approval, matched_rule, enforcement, force_command = "" } = decision;
  const { ttl_seconds, warning, would_deny } = decision;
  // The wrapper that watches the connection is long and does not concern the caller.
  const watched = readStopOnDisconnect(force_command, command);
  const fields = {
    reason: reason && shortenText(reason, MAX_TEXT),
    require_approval,
    matched_rule: matched_rule && shortenText(matched_rule, MAX_TEXT),
    enforcement,
    force_command: watched ?? force_command,
    stops_on_disconnect: watched !== undefined,
    ttl_seconds,
    warning: warning && shortenText(warning, MAX_TEXT),
    would_deny,
  };
  const present = Object.fromEntries(Object.entries(fields).filter(([, value]) => value));
  return decisionView.parse({ allowed, reason_code: reasonCode(decision), ...present });
}

export function renderDecision(view: DecisionView): string {
  // A value may quote a command: it stays on one line, without hidden characters.
  const line = (label: string, text: string | undefined) =>
    text ? [`${label}: ${visibleText(shortenText(text, MAX_TEXT))}`] : [];
  const denied = line("[dry-run] DENIED", view.reason);
  const gate = view.require_approval ? " (requires human approval before executing)" : "";
  return [
    view.allowed ? `[dry-run] ALLOWED${gate}` : denied[0] ?? "[dry-run] DENIED",
    `reason_code: ${view.reason_code}`,
    ...line("rule", view.matched_rule),
    ...line("warning", view.warning),
    ...line("force-command", view.force_command),
    ...(view.stops_on_disconnect ? ["ends with its connection (stop_on_disconnect)"] : []),
    ...(view.ttl_seconds ? [`ttl: ${view.ttl_seconds}s`] : []),
  ].join("\n");
}

function reasonCode(
  { allowed, require_approval, matched_rule = "" }: WireDecision,
): DecisionView["reason_code"] {
  if (allowed) return require_approval ? "needs_approval" : "allowed";
  if (matched_rule.startsWith("deny:")) return "command_denied";
  if (matched_rule.startsWith("shell-parse:")) return "shell_parse_error";
  return matched_rule === "allowlist:no-match" ? "allowlist_no_match" : "denied";
}
