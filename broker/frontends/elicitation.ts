import {
  type ElicitRequestFormParams,
  inputRequired,
  type InputRequiredResult,
} from "@modelcontextprotocol/server";
import * as z from "@zod/zod";
import type { HumanAnswer } from "../request/execute.ts";

/** How long a human may take to answer. */
export const HUMAN_MS = 600_000;

/** The name of the one input that is asked for. */
const INPUT = "approval";

const APPROVED = z.object({ action: z.literal("accept"), content: z.object({ approve: z.literal(true) }) });
const ANSWERED = z.object({ action: z.enum(["accept", "decline", "cancel"]) });
const CAN_ELICIT = z.object({
  elicitation: z.object({ form: z.unknown().optional(), url: z.unknown().optional() }),
});

/** Whether a client's capabilities say that it can show a human a form; a bare `elicitation` means forms. */
export function canElicit(capabilities: unknown): boolean {
  const declared = CAN_ELICIT.safeParse(capabilities);
  if (!declared.success) return false;
  const { form, url } = declared.data.elicitation;
  return form !== undefined || url === undefined;
}

/** The question as `elicitation/create` puts it. */
export function elicitationParams(question: string): ElicitRequestFormParams {
  return {
    mode: "form",
    message: question,
    requestedSchema: {
      type: "object",
      properties: { approve: { type: "boolean", description: "Run exactly this command, once" } },
      required: ["approve"],
    },
  };
}

/** The question as the result of a call, which the client is to repeat with the answer and this state. */
export function inputRequiredResult(question: string, requestState: string): InputRequiredResult {
  const inputRequests = { [INPUT]: inputRequired.elicit(elicitationParams(question)) };
  return inputRequired({ inputRequests, requestState });
}

/** The answer among the inputs of a repeated call. */
export function readInput(responses: Readonly<Record<string, unknown>> | undefined): HumanAnswer {
  return readElicitation(
    responses !== undefined && Object.hasOwn(responses, INPUT) ? responses[INPUT] : undefined,
  );
}

/** What an elicitation result means: only `accept` with `approve: true` is a yes. */
export function readElicitation(result: unknown): HumanAnswer {
  if (APPROVED.safeParse(result).success) return { kind: "approved" };
  const { data } = ANSWERED.safeParse(result);
  switch (data?.action) {
    case "accept":
      return { kind: "declined", why: "declined: approve is not true" };
    case "decline":
    case "cancel":
      return { kind: "declined", why: `declined: ${data.action}` };
    default:
      return { kind: "declined", why: "declined: no answer that can be read" };
  }
}
