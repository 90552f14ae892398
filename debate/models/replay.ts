import type { Clock } from "@gateway/shared/clock";
import { type Model, ModelError, type ModelReply, type ModelRequest } from "../engine/model.ts";
import type { Scenario, ScriptedReply } from "./scenario.ts";

interface ReplayOptions {
  readonly id: string;
  readonly scenario: Scenario;
  readonly clock: Clock;
  /** The pause between two pieces of a text, in milliseconds; 0: none. */
  readonly pieceDelayMs: number;
}

const PIECE_LENGTH = 24;

/**
 * One scripted model. It remembers which replies it has given, so every run needs its own; the roles of a run may
 * may share one, since each node has its own part.
 */
export class ReplayModel implements Model {
  readonly id: string;
  readonly #options: ReplayOptions;
  readonly #given = new Map<string, number>();

  constructor(options: ReplayOptions) {
    this.id = options.id;
    this.#options = options;
  }

  async complete(request: ModelRequest): Promise<ModelReply> {
    this.#check(request.signal);
    const reply = this.#next(request);
    const prompt = request.messages.map(({ content }) => content).join("\n");
    const missing = reply.expect.find((text) => !prompt.includes(text));
    if (missing !== undefined) {
      throw this.#problem(request, `expects ${JSON.stringify(missing)} in the prompt, which is not there`);
    }
    const values = this.#values(request, prompt);
    const fill = (text: string) => text.replace(/\{\{(\w+)\}\}/g, (all, name) => values.get(name) ?? all);
    const text = fill(reply.text.join("\n"));
    await this.#pause(reply.delay_ms, request.signal);
    await this.#stream(text, request);
    if (reply.error !== undefined) throw new ModelError(reply.error.kind, reply.error.message);
    const turn = request.messages.length;
    return {
      text,
      toolCalls: reply.tool_calls.map((call, index) => ({
        id: `call_${turn}_${index}`,
        name: call.name,
        arguments: JSON.stringify(fillValue(call.arguments, fill)),
      })),
      usage: reply.usage === undefined
        ? undefined
        : { ...reply.usage, total_tokens: reply.usage.input_tokens + reply.usage.output_tokens },
    };
  }

  /** The next reply of a node's part. A reply that calls tools is skipped when there are no tools to call. */
  #next(request: ModelRequest): ScriptedReply {
    const { purpose, round, tools = [], toolChoice } = request;
    const rounds = this.#options.scenario.rounds;
    if (round > rounds.length) {
      throw this.#problem(request, `has nothing to say: the script ends after round ${rounds.length}`);
    }
    // A script has no part for independent diagnoses: each plays the first diagnosis from its beginning.
    const isSample = purpose === "sample_agent";
    const node = isSample ? "diagnostic_agent" : purpose;
    const parts: Readonly<Record<string, readonly ScriptedReply[]>> = rounds[round - 1] ?? {};
    const part = parts[node];
    if (part === undefined) throw this.#problem(request, "has no part in the script");
    const mayCall = tools.length > 0 && toolChoice !== "none";
    const key = `${round} ${purpose}`;
    const given = this.#given.get(key) ?? 0;
    for (let index = isSample ? given % part.length : given; index < part.length; index++) {
      const reply = part[index];
      this.#given.set(key, index + 1);
      if (reply !== undefined && (mayCall || reply.tool_calls.length === 0)) return reply;
    }
    const count = part.length === 1 ? "1 reply" : `${part.length} replies`;
    throw this.#problem(request, `has nothing more to say: the script gives ${count}`);
  }

  /** The variables, from lines of the topic and the context. The first such line counts. */
  #values(request: ModelRequest, prompt: string): ReadonlyMap<string, string> {
    const values = new Map<string, string>();
    const lines = prompt.split("\n").map((line) => line.replace(/^[\s>*-]*/, ""));
    for (const [name, { label, default: fallback }] of Object.entries(this.#options.scenario.variables)) {
      const line = lines.find((line) => line.startsWith(`${label}:`));
      const value = line?.slice(label.length + 1).trim() || fallback;
      if (value === undefined) {
        throw this.#problem(request, `needs a line "${label}: …" in the topic or the context`);
      }
      values.set(name, value);
    }
    return values;
  }

  async #stream(text: string, request: ModelRequest): Promise<void> {
    if (request.onDelta === undefined) return;
    for (const [piece] of text.matchAll(PIECE)) {
      await this.#pause(this.#options.pieceDelayMs, request.signal);
      request.onDelta(piece);
    }
  }

  async #pause(ms: number, signal: AbortSignal): Promise<void> {
    if (ms > 0) await this.#options.clock.sleep(ms, signal).catch(() => {});
    this.#check(signal);
  }

  #check(signal: AbortSignal): void {
    if (signal.aborted) throw new ModelError("canceled", `The call of model "${this.id}" was canceled`);
  }

  /** The script is at fault; with a bad reply, the moderator would be asked to correct it. */
  #problem({ purpose, round }: ModelRequest, what: string): ModelError {
    return new ModelError("server", `Scenario "${this.id}", round ${round}: ${purpose} ${what}`);
  }
}

/** Whole words, so that a text grows like a model's. */
const PIECE = new RegExp(String.raw`[\s\S]{1,${PIECE_LENGTH}}(?:\s+|$)|\S+\s*`, "g");

function fillValue(value: unknown, fill: (text: string) => string): unknown {
  if (typeof value === "string") return fill(value);
  if (Array.isArray(value)) return value.map((entry) => fillValue(entry, fill));
  if (typeof value !== "object" || value === null) return value;
  return Object.fromEntries(Object.entries(value).map(([key, entry]) => [key, fillValue(entry, fill)]));
}
