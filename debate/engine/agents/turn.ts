import { cutText } from "@gateway/shared/text";
import { type AgentNode, type CalledTool, type DebateState, ROLES, type TurnText } from "../graph/state.ts";
import { fence } from "../graph/text.ts";
import { type ChatMessage, ModelError, type ModelReply, type ToolCall } from "../ports.ts";
import { callModel, type Debate, MAX_REPLY } from "./debate.ts";
import { buildPrompt, instructionsFor } from "./prompt.ts";
import { parseArguments, runTool } from "./run_tool.ts";

/** Runs the turn of an agent. The purpose `sample_agent` is an independent diagnosis. */
export async function takeTurn(
  debate: Debate,
  state: DebateState,
  purpose: AgentNode | "sample_agent",
): Promise<TurnText> {
  const { ports: { emit, warn, tools: available }, setup } = debate;
  const { round } = state;
  const node = purpose === "sample_agent" ? "diagnostic_agent" : purpose;
  const who = { agent_node: node, agent_role: ROLES[node] };
  const ask = instructionsFor(setup.language);
  const tools = available.map(({ name, description, parameters }) => ({ name, description, parameters }));
  const messages: ChatMessage[] = [...buildPrompt(state, purpose, setup.template)];
  const calls: CalledTool[] = [];
  let spent = 0;
  let failedBatches = 0;
  let mayCall = tools.length > 0 && setup.toolBudget > 0;

  /**
   * A reply that the provider stops in the middle is requested again once.
   *
   * @param begun the answer to continue; kept if the continuation fails
   */
  async function request(begun = "", isRepeated = false): Promise<ModelReply> {
    // A continuation belongs to the same turn, so clients keep the text so far.
    if (begun === "" || isRepeated) emit({ type: "agent_turn_started", ...who });
    let streamed = begun;
    try {
      return await callModel(debate, {
        purpose,
        round,
        messages: [...messages],
        tools,
        ...(mayCall || tools.length === 0 ? {} : { toolChoice: "none" }),
        onDelta: (delta) => {
          streamed += delta;
          emit({ type: "agent_delta", ...who, delta });
        },
      });
    } catch (error) {
      const isBrokenOff = error instanceof ModelError && error.kind === "server" && streamed !== begun;
      if (isBrokenOff && !isRepeated) {
        warn?.(`${error.message}; repeating the turn once`);
        return await request(begun, true);
      }
      if (streamed.trim() !== "") {
        const content = streamed.toWellFormed();
        emit({ type: "agent_completed", node, role: ROLES[node], content, partial: true });
      }
      throw error;
    }
  }

  async function requestWithoutTools(content: string, begun?: string): Promise<ModelReply> {
    mayCall = false;
    messages.push({ role: "user", content });
    return await request(begun);
  }

  async function serve({ text, toolCalls }: ModelReply): Promise<void> {
    if (text.trim() !== "") emit({ type: "agent_reasoning", ...who, content: text.toWellFormed() });
    const unique = withUniqueIds(toolCalls);
    messages.push({ role: "assistant", content: text, toolCalls: unique.map(toHarmless) });
    let hasFailed = false;
    for (const call of unique) {
      let content = ask.overBudget;
      if (spent < setup.toolBudget) {
        spent++;
        const { text: result, error, called } = await runTool(debate, { node, round, reason: text }, call);
        calls.push(called);
        content = `${ask.toolResult(called.number, called.succeeded)}\n${fence(result)}`;
        hasFailed ||= error;
      }
      messages.push({ role: "tool", content, toolCallId: call.id });
    }
    failedBatches = hasFailed ? failedBatches + 1 : 0;
    const isStuck = failedBatches >= setup.maxConsecutiveErrors;
    mayCall = !isStuck && spent < setup.toolBudget;
    const warning = isStuck ? ask.noMoreTools : !mayCall ? ask.noneLeft : hasFailed ? ask.batchFailed : "";
    if (warning !== "") messages.push({ role: "user", content: warning });
  }

  /** Continues a truncated answer once. Adds a note if its end is still missing. */
  async function complete({ text, isCut }: ModelReply): Promise<string> {
    if (!isCut) return text;
    messages.push({ role: "assistant", content: text });
    const rest = await requestWithoutTools(ask.goOn, text);
    const isWhole = !rest.isCut && rest.text.trim() !== "" && text.length + rest.text.length <= MAX_REPLY;
    const whole = cutText(text + rest.text, MAX_REPLY);
    return isWhole ? whole : `${whole}\n\n${ask.cutOff}`;
  }

  let reply = await request();
  while (mayCall && reply.toolCalls.length > 0) {
    await serve(reply);
    reply = await request();
  }
  if (reply.text.trim() === "") reply = await requestWithoutTools(ask.nudge);
  const isPlaceholder = reply.text.trim() === "";
  const text = isPlaceholder ? ask.silent(spent) : (await complete(reply)).toWellFormed();
  return { text, isPlaceholder, calls };
}

/** Assigns unique IDs, so that each result belongs to exactly one call. */
function withUniqueIds(calls: readonly ToolCall[]): readonly ToolCall[] {
  const seen = new Set<string>();
  return calls.map((call, index) => {
    const isUsable = /^[\w-]{1,64}$/.test(call.id) && !seen.has(call.id);
    const id = isUsable ? call.id : `call-${index}`;
    seen.add(id);
    return { ...call, id };
  });
}

/** The call in a form that can be sent back: providers reject messages with broken names or arguments. */
function toHarmless({ arguments: text, name, ...call }: ToolCall): ToolCall {
  const isBroken = text.trim() === "" || typeof parseArguments(text) === "string";
  return {
    ...call,
    name: name.replace(/[^\w-]/g, "_").slice(0, 64) || "unknown",
    arguments: isBroken ? "{}" : text,
  };
}
