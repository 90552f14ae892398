import type { NodeName } from "../engine/graph/state.ts";
import type { Model, ModelReply, ModelRequest, ToolCall } from "../engine/ports.ts";
import { ModelError } from "../engine/ports.ts";

/** An answer of a scripted model: a text, tool calls, a complete reply, a failure, or a function. */
export type Answer =
  | string
  | Partial<ModelReply>
  | ModelError
  | ((request: ModelRequest) => Promise<ModelReply>);

/** Answers by caller, in order; the last one is repeated. */
export type Script = Readonly<Partial<Record<NodeName, readonly Answer[]>>>;

/** A model that gives scripted answers without delay. */
export class ScriptedModel implements Model {
  readonly id: string;
  readonly requests: ModelRequest[] = [];
  readonly script: Script;
  readonly #asked = new Map<NodeName, number>();

  constructor(script: Script, id = "replay/script") {
    this.id = id;
    this.script = script;
  }

  complete(request: ModelRequest): Promise<ModelReply> {
    this.requests.push(request);
    const { purpose, onDelta } = request;
    const count = this.#asked.get(purpose) ?? 0;
    this.#asked.set(purpose, count + 1);
    const answers = this.script[purpose] ?? [];
    const answer = answers[Math.min(count, answers.length - 1)] ?? "nothing";
    if (answer instanceof ModelError) return Promise.reject(answer);
    if (typeof answer === "function") return answer(request);
    const reply = {
      text: "",
      toolCalls: [],
      usage: undefined,
      ...(typeof answer === "string" ? { text: answer } : answer),
    };
    for (const piece of reply.text.match(/[^]{1,40}/g) ?? []) onDelta?.(piece);
    return Promise.resolve(reply);
  }
}

/** A tool call as a model writes it. */
export function call(name: string, args: unknown = {}, id = "c1"): ToolCall {
  return { id, name, arguments: typeof args === "string" ? args : JSON.stringify(args) };
}

/** An answer that never arrives, from a provider that ignores the signal as well. */
export function never(): Promise<never> {
  return new Promise(() => {});
}
