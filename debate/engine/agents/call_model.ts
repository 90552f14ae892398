import { errorName } from "@gateway/shared/errors";
import { within } from "@gateway/shared/clock";
import { cut } from "../graph/text.ts";
import { type NodeName, ROLES } from "../graph/state.ts";
import { type Model, ModelError, type ModelReply, type ModelRequest, type Usage } from "../model.ts";
import { type Debate, effortFor } from "./debate.ts";

/** The most characters of one reply; a model that writes more is stopped. */
export const MAX_REPLY = 60_000;

const MAX_TOOL_CALLS = 64;

/** What a call needs besides what the run provides. */
export interface ModelCall extends Pick<ModelRequest, "messages" | "tools" | "toolChoice" | "jsonSchema"> {
  readonly node: NodeName;
  readonly round: number;
  readonly model: Model;
  readonly temperature: number;
  readonly onDelta?: (text: string) => void;
}

export async function callModel(debate: Debate, call: ModelCall): Promise<ModelReply> {
  const { node, model } = call;
  const stream = new BoundedStream(call.onDelta);
  const late = () =>
    new ModelError("timeout", `The model "${model.id}" did not answer within ${debate.modelMs / 1000} s`);
  try {
    const reply = await within(
      { clock: debate.ports.clock, signal: debate.signal, ms: debate.modelMs, late },
      (signal) => {
        const running = model.complete(
          toRequest(debate, call, stream, AbortSignal.any([signal, stream.full])),
        );
        return Promise.race([running, stream.untilFull]);
      },
    );
    debate.meter.add(node, reply.usage ?? estimateUsage(call, reply));
    if (reply.effortIgnored) tellIgnoredEffort(debate, call);
    return {
      ...reply,
      text: cut(reply.text, MAX_REPLY),
      toolCalls: reply.toolCalls.slice(0, MAX_TOOL_CALLS),
    };
  } catch (error) {
    if (error instanceof ModelError) {
      debate.meter.add(node, error.usage);
      throw error;
    }
    debate.signal.throwIfAborted();
    debate.ports.warn?.(`model "${model.id}" threw ${errorName(error)}`);
    throw new ModelError("server", `The model "${model.id}" failed unexpectedly`, { cause: error });
  } finally {
    stream.close();
  }
}

/** How many characters a token has, about, in English and in what tools print. */
const CHARACTERS_PER_TOKEN = 4;

export function estimateUsage(
  { messages, tools = [] }: Pick<ModelRequest, "messages" | "tools">,
  { text, toolCalls }: ModelReply,
): Usage {
  const tokens = (texts: readonly string[]) =>
    Math.ceil(texts.reduce((sum, each) => sum + each.length, 0) / CHARACTERS_PER_TOKEN);
  const asked = messages.flatMap((
    { content, toolCalls = [] },
  ) => [content, ...toolCalls.map((each) => each.arguments)]);
  const offered = tools.map(({ description, parameters }) => description + JSON.stringify(parameters));
  const input_tokens = tokens([...asked, ...offered]);
  const output_tokens = tokens([text, ...toolCalls.map((each) => each.arguments)]);
  return { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens, estimated: true };
}

function toRequest(
  debate: Debate,
  { node, round, messages, tools, toolChoice, temperature, jsonSchema, onDelta }: ModelCall,
  stream: BoundedStream,
  signal: AbortSignal,
): ModelRequest {
  const reasoningEffort = hasRole(node) ? effortFor(debate, node) : undefined;
  return {
    messages,
    temperature,
    signal,
    purpose: node,
    round,
    ...(tools === undefined || tools.length === 0 ? {} : { tools }),
    ...(toolChoice === undefined ? {} : { toolChoice }),
    ...(jsonSchema === undefined ? {} : { jsonSchema }),
    ...(reasoningEffort === undefined ? {} : { reasoningEffort }),
    ...(onDelta === undefined ? {} : { onDelta: (text: string) => stream.push(text) }),
  };
}

function hasRole(node: NodeName): node is keyof typeof ROLES {
  return Object.hasOwn(ROLES, node);
}

function tellIgnoredEffort(debate: Debate, { node, model }: ModelCall): void {
  if (!hasRole(node) || debate.ignoredEfforts.has(node)) return;
  const requested_effort = effortFor(debate, node);
  if (requested_effort === undefined) return;
  debate.ignoredEfforts.add(node);
  debate.ports.emit({
    type: "reasoning_effort_ignored",
    agent_node: node,
    agent_role: ROLES[node],
    model: model.id,
    requested_effort,
  });
}

/** Passes text on until there is too much of it or nobody is listening any more. */
class BoundedStream {
  readonly #onDelta: ((text: string) => void) | undefined;
  readonly #full = new AbortController();
  readonly #reply = Promise.withResolvers<ModelReply>();
  #text = "";
  #isOpen = true;

  constructor(onDelta: ((text: string) => void) | undefined) {
    this.#onDelta = onDelta;
  }

  get full(): AbortSignal {
    return this.#full.signal;
  }

  /** Keeps the text received so far when a reply becomes too long. */
  get untilFull(): Promise<ModelReply> {
    return this.#reply.promise;
  }

  push(delta: string): void {
    if (!this.#isOpen || delta === "") return;
    const rest = cut(delta, MAX_REPLY - this.#text.length);
    this.#text += rest;
    if (rest !== "") this.#onDelta?.(rest);
    if (rest.length === delta.length) return;
    this.#isOpen = false;
    this.#reply.resolve({ text: this.#text, toolCalls: [], usage: undefined });
    this.#full.abort(new ModelError("canceled", "The reply is too long"));
  }

  close(): void {
    this.#isOpen = false;
  }
}
