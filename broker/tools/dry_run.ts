import { readStopOnDisconnect } from "@gateway/shared/policy";
import { shortenText, visibleText } from "@gateway/shared/text";
import type { WireDecision } from "@gateway/shared/wire";
import * as z from "@zod/zod";

/** Why a previewed action may run, or not, as one word for programs. */
const REASON_CODES = [
  "allowed",
  "needs_approval",
  "command_denied",
  "shell_parse_error",
  "allowlist_no_match",
  "denied",
] as const;
/** One of {@linkcode REASON_CODES}. */
type ReasonCode = (typeof REASON_CODES)[number];

/** As much of a rule or a reason as a result repeats, in characters. */
const MAX_TEXT = 4000;

/** A policy decision as a tool shows it; fields that are empty, false or 0 are absent. */
export const decisionView = z.strictObject({
  allowed: z.boolean(),
  reason_code: z.enum(REASON_CODES),
  reason: z.string().optional().describe("Why it is denied"),
  require_approval: z.boolean().optional().describe("A human has to approve before it runs"),
  matched_rule: z.string().optional().describe("The policy rule that decided"),
  enforcement: z.enum(["enforce", "audit"]).optional(),
  force_command: z.string().optional().describe("What the host would run, with any sudo prefix"),
  stops_on_disconnect: z.boolean().optional().describe("The command ends with its connection"),
  ttl_seconds: z.int().optional().describe("Life of the certificate"),
  warning: z.string().optional(),
  would_deny: z.boolean().optional().describe("Denied once the policy is enforced"),
});
/** Decoded form of {@linkcode decisionView}. */
type DecisionView = z.infer<typeof decisionView>;

/** The decision about a command as a tool shows it. */
export function viewDecision(decision: WireDecision, command: string): DecisionView {
  const {
    reason,
    require_approval,
    matched_rule,
    enforcement,
    force_command = "",
    ttl_seconds,
    warning,
    would_deny,
  } = decision;
  // The watcher is long, and says nothing of what was asked.
  const watched = readStopOnDisconnect(force_command, command);
  const runs = watched ?? force_command;
  return {
    allowed: decision.allowed,
    reason_code: reasonCode(decision),
    ...(reason ? { reason: shortenText(reason, MAX_TEXT) } : {}),
    ...(require_approval ? { require_approval } : {}),
    ...(matched_rule ? { matched_rule: shortenText(matched_rule, MAX_TEXT) } : {}),
    ...(enforcement ? { enforcement } : {}),
    ...(runs ? { force_command: runs } : {}),
    ...(watched === undefined ? {} : { stops_on_disconnect: true }),
    ...(ttl_seconds ? { ttl_seconds } : {}),
    ...(warning ? { warning: shortenText(warning, MAX_TEXT) } : {}),
    ...(would_deny ? { would_deny } : {}),
  };
}

/** The decision as lines for the model. */
export function renderDecision(view: DecisionView): string {
  const gate = view.require_approval ? " (requires human approval before executing)" : "";
  const reason = view.reason ? `: ${readable(view.reason)}` : "";
  const lines = [
    view.allowed ? `[dry-run] ALLOWED${gate}` : `[dry-run] DENIED${reason}`,
    `reason_code: ${view.reason_code}`,
  ];
  if (view.matched_rule) lines.push(`rule: ${readable(view.matched_rule)}`);
  if (view.warning) lines.push(`warning: ${readable(view.warning)}`);
  if (view.force_command) lines.push(`force-command: ${readable(view.force_command)}`);
  if (view.stops_on_disconnect) lines.push("ends with its connection (stop_on_disconnect)");
  if (view.ttl_seconds) lines.push(`ttl: ${view.ttl_seconds}s`);
  return lines.join("\n");
}

/** One line, of which nothing hides: a command that was asked about stands in it. */
function readable(text: string): string {
  return visibleText(shortenText(text, MAX_TEXT));
}

function reasonCode(decision: WireDecision): ReasonCode {
  if (decision.allowed) return decision.require_approval ? "needs_approval" : "allowed";
  const rule = decision.matched_rule ?? "";
  if (rule.startsWith("deny:")) return "command_denied";
  if (rule.startsWith("shell-parse:")) return "shell_parse_error";
  return rule === "allowlist:no-match" ? "allowlist_no_match" : "denied";
}
