import { type AgentNode, type CalledTool, type DebateState, ROLES } from "../graph/state.ts";
import type { TurnText } from "../graph/flow.ts";
import { cut, fence } from "../graph/text.ts";
import type { ChatMessage, Model, ModelReply, ToolCall } from "../model.ts";
import { callModel, CASTING, type Debate, MAX_REPLY } from "./debate.ts";
import { buildAgentPrompt, buildSamplePrompt, instructionsFor } from "./prompt.ts";
import { parseArguments, runTool } from "./run_tool.ts";

export async function takeTurn(debate: Debate, state: DebateState, node: AgentNode): Promise<TurnText> {
  const { models, template } = debate.setup;
  const speaker = { node, model: models[CASTING[node].role], meteredAs: node };
  return await new Turn(debate, speaker, state.round, buildAgentPrompt(state, node, template)).take();
}

export async function takeSample(debate: Debate, state: DebateState): Promise<TurnText> {
  const { models, template } = debate.setup;
  const speaker = {
    node: "diagnostic_agent",
    model: models.sample ?? models.diagnostic,
    meteredAs: "sample_agent",
  } as const;
  return await new Turn(debate, speaker, state.round, buildSamplePrompt(state, template)).take();
}

interface Speaker {
  readonly node: AgentNode;
  readonly model: Model;
  readonly meteredAs: AgentNode | "sample_agent";
}

/** Higher than that of a debate: diagnoses that are the same by construction compare nothing. */
const SAMPLE_TEMPERATURE = 0.7;

class Turn {
  readonly #debate: Debate;
  readonly #speaker: Speaker;
  readonly #round: number;
  readonly #ask: ReturnType<typeof instructionsFor>;
  readonly #messages: ChatMessage[];
  readonly #calls: CalledTool[] = [];
  #spent = 0;
  #failedBatches = 0;
  #mayCall: boolean;

  constructor(debate: Debate, speaker: Speaker, round: number, prompt: readonly ChatMessage[]) {
    this.#debate = debate;
    this.#speaker = speaker;
    this.#round = round;
    this.#ask = instructionsFor(debate.setup.language);
    this.#messages = [...prompt];
    this.#mayCall = debate.ports.tools.length > 0 && debate.setup.toolBudget > 0;
  }

  async take(): Promise<TurnText> {
    let reply = await this.#call();
    while (this.#mayCall && reply.toolCalls.length > 0) {
      await this.#serve(reply);
      reply = await this.#call();
    }
    if (reply.text.trim() === "") {
      this.#mayCall = false;
      this.#messages.push({ role: "user", content: this.#ask.nudge });
      reply = await this.#call();
    }
    const isPlaceholder = reply.text.trim() === "";
    const text = isPlaceholder ? this.#ask.silent(this.#spent) : (await this.#complete(reply)).toWellFormed();
    return { text, isPlaceholder, calls: this.#calls };
  }

  /** An answer that was cut is continued once; if its end is still missing then, it says so. */
  async #complete({ text, isCut }: ModelReply): Promise<string> {
    if (!isCut) return text;
    this.#mayCall = false;
    this.#messages.push({ role: "assistant", content: text }, { role: "user", content: this.#ask.goOn });
    const rest = await this.#call(text);
    const isWhole = !rest.isCut && rest.text.trim() !== "" && text.length + rest.text.length <= MAX_REPLY;
    const whole = cut(text + rest.text, MAX_REPLY);
    return isWhole ? whole : `${whole}\n\n${this.#ask.cutOff}`;
  }

  /** @param begun what the answer continues, which is kept if it breaks off */
  async #call(begun = ""): Promise<ModelReply> {
    const { ports } = this.#debate;
    const { node, model, meteredAs } = this.#speaker;
    const temperature = meteredAs === "sample_agent" ? SAMPLE_TEMPERATURE : CASTING[node].temperature;
    const tools = ports.tools.map(({ name, description, parameters }) => ({ name, description, parameters }));
    const who = { agent_node: node, agent_role: ROLES[node] } as const;
    // What goes on is the same turn: who watches keeps what was said so far.
    if (begun === "") ports.emit({ type: "agent_turn_started", ...who });
    let streamed = begun;
    try {
      return await callModel(this.#debate, {
        node: meteredAs,
        round: this.#round,
        model,
        temperature,
        messages: [...this.#messages],
        tools,
        ...(this.#mayCall || tools.length === 0 ? {} : { toolChoice: "none" }),
        onDelta: (delta) => {
          streamed += delta;
          ports.emit({ type: "agent_delta", ...who, delta });
        },
      });
    } catch (error) {
      if (streamed.trim() !== "") {
        const content = streamed.toWellFormed();
        ports.emit({ type: "agent_completed", node, role: ROLES[node], content, partial: true });
      }
      throw error;
    }
  }

  async #serve(reply: ModelReply): Promise<void> {
    const { node } = this.#speaker;
    const { setup, ports } = this.#debate;
    if (reply.text.trim() !== "") {
      const content = reply.text.toWellFormed();
      ports.emit({ type: "agent_reasoning", agent_node: node, agent_role: ROLES[node], content });
    }
    const calls = withUniqueIds(reply.toolCalls);
    this.#messages.push({ role: "assistant", content: reply.text, toolCalls: calls.map(toHarmless) });
    let hasFailed = false;
    for (const call of calls) {
      const { text, error } = await this.#answer(call);
      hasFailed ||= error;
      this.#messages.push({ role: "tool", content: text, toolCallId: call.id });
    }
    this.#failedBatches = hasFailed ? this.#failedBatches + 1 : 0;
    const isStuck = this.#failedBatches >= setup.maxConsecutiveErrors;
    this.#mayCall = !isStuck && this.#spent < setup.toolBudget;
    if (!this.#mayCall) {
      this.#messages.push({ role: "user", content: isStuck ? this.#ask.noMoreTools : this.#ask.noneLeft });
    } else if (hasFailed) this.#messages.push({ role: "user", content: this.#ask.batchFailed });
  }

  async #answer(call: ToolCall): Promise<{ readonly text: string; readonly error: boolean }> {
    if (this.#spent >= this.#debate.setup.toolBudget) return { text: this.#ask.overBudget, error: false };
    this.#spent++;
    const { text, error, called } = await runTool(this.#debate, {
      node: this.#speaker.node,
      round: this.#round,
    }, call);
    this.#calls.push(called);
    return { text: `${this.#ask.toolResult(called.number, called.succeeded)}\n${fence(text)}`, error };
  }
}

/** Every result belongs to exactly one call, whatever ids the model assigned. */
function withUniqueIds(calls: readonly ToolCall[]): readonly ToolCall[] {
  const seen = new Set<string>();
  return calls.map((call, index) => {
    const isUsable = /^[\w-]{1,64}$/.test(call.id) && !seen.has(call.id);
    const id = isUsable ? call.id : `call-${index}`;
    seen.add(id);
    return { ...call, id };
  });
}

/** The call as it is sent back to the model: providers refuse messages with broken names or arguments. */
function toHarmless({ id, name, arguments: text }: ToolCall): ToolCall {
  const isBroken = text.trim() === "" || parseArguments(text).kind === "broken";
  return {
    id,
    name: name.replace(/[^\w-]/g, "_").slice(0, 64) || "unknown",
    arguments: isBroken ? "{}" : text,
  };
}
