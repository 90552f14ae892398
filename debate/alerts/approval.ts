/** The requests for approval of a run, for a chat. Agents write the commands and reasons, so both are hostile. */
import { cutText, escapeCharacter } from "@gateway/shared/text";
import { fieldsOf, isObject, textOf } from "../engine/graph/text.ts";
import type { StoredEvent } from "../runs/record.ts";
import { chatLine, type Facts, headline } from "./message.ts";

const STATES = {
  waiting: "Approval needed",
  approved: "Approved",
  rejected: "Rejected",
  expired: "Expired, not run",
};

export interface Approval {
  readonly call_id: string;
  readonly tool_name: string;
  /** The approved arguments, if they differ from the requested ones. */
  readonly args: Readonly<Record<string, unknown>>;
  readonly need: string;
  readonly reason: string;
  readonly expires_at: string;
  readonly state: keyof typeof STATES;
}

/** The requests of a run in their order, with their decisions. */
export function readApprovals(events: readonly StoredEvent[], timeoutMs: number): readonly Approval[] {
  const found = new Map<string, Approval>();
  for (const { type, timestamp, ...event } of events) {
    const call_id = textOf(event.call_id);
    const asked = found.get(call_id);
    if (type === "tool_approval_request") {
      found.set(call_id, {
        call_id,
        tool_name: textOf(event.tool_name),
        args: fieldsOf(event.args),
        need: textOf(event.need),
        reason: textOf(event.reason),
        expires_at: new Date(Date.parse(textOf(timestamp)) + timeoutMs).toISOString(),
        state: "waiting",
      });
    } else if (type === "tool_approval_resolved" && asked !== undefined) {
      const refused = event.resolution === "timeout" ? "expired" : "rejected";
      const state = event.approved === true ? "approved" : refused;
      found.set(call_id, { ...asked, ...(isObject(event.args) && { args: event.args }), state });
    }
  }
  return [...found.values()];
}

/** The four lines of a request above its link, or the one line of a decision. */
export function approvalLines(
  about: Pick<Facts, "title" | "severity">,
  approval: Approval,
  redact: (text: string) => string,
): readonly string[] {
  const { need, reason, expires_at, state } = approval;
  const command = commandLine(approval, redact);
  if (state !== "waiting") return [`${STATES[state]}: ${command}`];
  const said = reason === "" ? "the agent states none" : reason;
  return [
    chatLine(`${STATES[state]}: ${headline(about)}`, redact),
    command,
    chatLine(`Reason: ${need === "" ? said : `${need}. Agent: ${said}`}`, redact),
    `Expires: ${expires_at.replace(/\.\d+Z$/, "Z")}`,
  ];
}

/** The words before a command, and the arguments that are the command. */
const COMMANDS: Readonly<Record<string, readonly [before: string, ...names: string[]]>> = {
  run_local_command: ["", "command"],
  run_ssh_command: ["ssh ", "host", "command"],
  run_kubectl: ["kubectl ", "kubectl_args"],
  run_db_explain: ["EXPLAIN ", "query"],
  http_get: ["GET ", "url"],
};

const MAX_COMMAND = 400;

/**
 * `$ kubectl get pods`, with all other arguments as JSON. Only printable ASCII stays as it is, because other letters can
 * look like it.
 */
function commandLine({ tool_name, args }: Approval, redact: (text: string) => string): string {
  const [before, ...names] = Object.hasOwn(COMMANDS, tool_name)
    ? COMMANDS[tool_name] ?? [""]
    : [`${tool_name} `];
  const isShown = ([name, value]: [string, unknown]) => names.includes(name) && typeof value === "string";
  const words = names.map((name) => textOf(args[name])).filter((word) => word !== "");
  const rest = Object.entries(args).filter((entry) => !isShown(entry));
  if (rest.length > 0) words.push(JSON.stringify(Object.fromEntries(rest)));
  // Masked before escapes and the cut could split a secret.
  const whole = redact(`$ ${before}${words.join(" ")}`).replace(/[^ -~]/gu, escapeCharacter);
  if (whole.length <= MAX_COMMAND) return whole;
  return `${cutText(whole, MAX_COMMAND)}… [TRUNCATED: ${MAX_COMMAND} of ${whole.length} characters]`;
}
