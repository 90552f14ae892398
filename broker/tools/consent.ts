import { AppError } from "@gateway/shared/errors";
import { canonicalSudoUser } from "@gateway/shared/policy";
import { quoteText, visibleText } from "@gateway/shared/text";
import type { Events } from "../request/events.ts";
import type { Execute, ExecuteRequest, ExecuteResult } from "../request/execute.ts";
import { approvalRequired } from "../request/obtain.ts";
import { describeRequest } from "../request/one_shot.ts";
import type { ToolContext } from "./tool.ts";

/** What it takes to execute with a human at the client. */
export interface WithConsentPorts {
  readonly execute: Execute;
  readonly events: Pick<Events, "bestEffort">;
}

/**
 * Executes; where the policy wants a human's approval, asks the one at the client, once, and executes again from
 * the start: hosts and policy may be others by then. A yes is recorded before it takes effect (by `execute`), a
 * no as well as can be.
 *
 * @throws {AppError} `denied` when the human declines, `approval_required` when a yes does not count, and whatever `execute` throws
 */
export async function executeWithConsent(
  { execute, events }: WithConsentPorts,
  request: ExecuteRequest,
  { askHuman, signal }: Pick<ToolContext, "askHuman" | "signal">,
): Promise<ExecuteResult> {
  const first = await execute(request, signal);
  if (first.kind !== "needs_approval" || askHuman === undefined) return first;
  const consent = { via: "elicitation", rule: first.rule } as const;
  const answer = await askHuman(questionFor(request, first.rule));
  if (answer.kind === "approved") {
    const second = await execute({ ...request, consent }, signal);
    if (second.kind !== "needs_approval") return second;
    throw approvalRequired(request.host, second.rule, "approved");
  }
  await events.bestEffort({
    ...describeRequest({ ...request, consent }, first.host),
    outcome: "approval_declined",
    policy_rule: first.rule,
    err: answer.why,
  });
  throw new AppError(
    "denied",
    `approval declined: ${quoteText(request.command)} was not run on ${quoteText(request.host)}`,
  );
}

/** Shows the exact command: nothing in it can hide, steer a terminal or end the quotes. */
function questionFor({ command, host, sudo, sudoUser, pty }: ExecuteRequest, rule: string): string {
  const elevation = sudo ? ` with sudo as ${quoteText(canonicalSudoUser(sudo, sudoUser))}` : "";
  const terminal = pty ? " in a terminal" : "";
  return `Approve running ${quoteText(command)} on ${quoteText(host)}${elevation}${terminal}? ` +
    `Host policy requires approval (${visibleText(rule)}).`;
}
