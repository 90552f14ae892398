import { type Clock, every, within } from "@gateway/shared/clock";
import { AppError } from "@gateway/shared/errors";
import { stringifyJson } from "@gateway/shared/json";
import { currentRequestId, inRequest } from "@gateway/shared/service";
import { shortenText, visibleLines } from "@gateway/shared/text";
import type {
  AuthInfo,
  CallToolResult,
  InputRequiredResult,
  ServerContext,
} from "@modelcontextprotocol/server";
import type { AskHuman } from "../request/execute.ts";
import type { Tool, ToolContext } from "../tools/tool.ts";
import { canElicit, elicitationParams, HUMAN_MS, readElicitation, readInput } from "./elicitation.ts";
import type { PausedCalls } from "./paused_calls.ts";

/** What is the same for all calls of a connection. */
export interface CallToolOptions {
  /** Who calls, as the frontend knows it; over HTTP from what the request brought along. */
  readonly caller: (
    authInfo: AuthInfo | undefined,
  ) => Pick<ToolContext, "caller" | "callerGroups" | "bearerToken" | "holdAnswer">;
  /** The generation that the client has opened with: with sessions, or stateless. */
  readonly era: "legacy" | "modern";
  readonly clock: Clock;
  /** What it takes to ask the human at the client; absent when none may be asked. */
  readonly chat?: Chat;
  /** Told of every fault that is not a refusal; its text is not for the model. */
  readonly onError: (error: unknown) => void;
}

/** What it takes to ask the human at the client. */
interface Chat {
  /** Where stateless calls wait for the answer. */
  readonly pausedCalls: PausedCalls;
}

/** As much of an error as a model is told, in characters. */
const MAX_ERROR_LENGTH = 16_384;

/** How often a client that wants to know is told that its call still runs, in seconds. */
const PROGRESS_SECONDS = 5;

interface ToolCall {
  readonly tool: Tool;
  readonly args: unknown;
  readonly mcpReq: ServerContext["mcpReq"];
  /** Who sent it, where the transport knows. */
  readonly authInfo: AuthInfo | undefined;
  readonly capabilities: unknown;
}

/** Answers a call: with the tool's result, its failure, or a question for the human at the client. */
export function callTool(
  options: CallToolOptions,
  call: ToolCall,
): Promise<CallToolResult | InputRequiredResult> {
  // Over HTTP the listener has begun it, with what the headers say.
  if (currentRequestId() !== undefined) return answerCall(options, call);
  const { traceparent, tracestate } = call.mcpReq._meta ?? {};
  return inRequest({ name: "tools/call", traceparent, tracestate }, () => answerCall(options, call));
}

async function answerCall(
  options: CallToolOptions,
  { tool, args, mcpReq, authInfo, capabilities }: ToolCall,
): Promise<CallToolResult | InputRequiredResult> {
  const onProgress = reportProgress(mcpReq);
  const run = async (context: Pick<ToolContext, "signal" | "askHuman">): Promise<CallToolResult> => {
    const ended = new AbortController();
    if (onProgress !== undefined) reportTime(onProgress, options.clock, ended.signal);
    try {
      const caller = options.caller(authInfo);
      const reporting = onProgress === undefined ? {} : { onProgress };
      const { text, structured } = await tool.call(args, { ...caller, ...reporting, ...context });
      return { content: [{ type: "text", text }], structuredContent: structured };
    } catch (error) {
      return describeFailure(error, options.onError);
    } finally {
      // Without a reason an error is made for each call, with a stack that nobody reads.
      ended.abort("ended");
    }
  };
  const { signal } = mcpReq;
  const { chat, era } = options;
  if (chat === undefined) return await run({ signal });
  if (era === "legacy") {
    const { clock } = options;
    return await run(
      canElicit(capabilities) ? { signal, askHuman: askByRequest(mcpReq, clock) } : { signal },
    );
  }
  const { pausedCalls } = chat;
  const request = { identity: identityOf(tool.name, args), signal };
  const state = mcpReq.requestState();
  if (state !== undefined) return await pausedCalls.resume(state, request, readInput(mcpReq.inputResponses));
  return canElicit(capabilities) ? await pausedCalls.begin(request, run) : await run({ signal });
}

/** Asks by a request of our own, which only the generation with sessions allows. */
function askByRequest({ send, signal }: ServerContext["mcpReq"], clock: Clock): AskHuman {
  return async (question) => {
    const params = { ...elicitationParams(question) };
    const tooLate = new Error("no answer in time");
    try {
      // The library's own time limit is out of the way.
      const answer = await within(
        { clock, ms: HUMAN_MS, signal, late: () => tooLate },
        (signal) => send({ method: "elicitation/create", params }, { signal, timeout: 2 * HUMAN_MS }),
      );
      return readElicitation(answer);
    } catch (error) {
      if (error === tooLate) return { kind: "declined", why: tooLate.message };
      return { kind: "declined", why: signal.aborted ? "canceled" : "declined: no answer that can be read" };
    }
  };
}

function reportProgress({ _meta, notify }: ServerContext["mcpReq"]): ToolContext["onProgress"] {
  const progressToken = _meta?.progressToken;
  if (progressToken === undefined) return undefined;
  let progress = 0;
  return (message) => {
    progress += 1;
    // A client that is gone ends the call by other means.
    notify({ method: "notifications/progress", params: { progressToken, progress, message } }).catch(
      () => {},
    );
  };
}

/** Many clients give a call up that they have not heard of for a while. */
function reportTime(onProgress: (text: string) => void, clock: Clock, signal: AbortSignal): void {
  let seconds = 0;
  void every({ clock, seconds: PROGRESS_SECONDS, signal }, () => {
    seconds += PROGRESS_SECONDS;
    onProgress(`running for ${seconds} s`);
  });
}

/** A call as one text, the same whichever way its arguments are ordered. */
function identityOf(name: string, args: unknown): string {
  const sorted = Object.entries(args ?? {}).toSorted(([left], [right]) => left < right ? -1 : 1);
  return stringifyJson([name, sorted]);
}

/** A failure of the tool is a result, so that the model reads it; without structured content, which would lie. */
function describeFailure(error: unknown, onError: (error: unknown) => void): CallToolResult {
  onError(error);
  // What a host or a service has said may stand in it.
  const message = error instanceof AppError ? error.message : "internal error";
  const text = visibleLines(shortenText(message, MAX_ERROR_LENGTH));
  return { content: [{ type: "text", text }], isError: true };
}
