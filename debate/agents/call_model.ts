/**
 * One call of a model: bounded in time and text, counted, and over when the run is.
 *
 * @module
 */
import { errorName } from "@gateway/shared/errors";
import { within } from "@gateway/shared/within";
import { cut } from "../graph/cut.ts";
import { type NodeName, ROLES } from "../graph/state.ts";
import { type Model, ModelError, type ModelReply, type ModelRequest } from "../models/model.ts";
import { effortFor, type Run } from "./run.ts";

/** Characters of one reply; a model that goes on after that is stopped. */
export const MAX_REPLY = 60_000;

/** Tool calls of one reply that are looked at. */
const MAX_TOOL_CALLS = 64;

/** What a call needs beyond what the run knows. */
export interface ModelCall extends Pick<ModelRequest, "messages" | "tools" | "toolChoice" | "jsonSchema"> {
  readonly node: NodeName;
  readonly round: number;
  readonly model: Model;
  readonly temperature: number;
  /** Gets the text as it comes. */
  readonly onDelta?: (text: string) => void;
}

/**
 * Calls a model.
 *
 * @throws {ModelError} when it gives no reply
 * @throws the reason of the run's signal
 */
export async function callModel(run: Run, call: ModelCall): Promise<ModelReply> {
  const { node, model } = call;
  const stream = new BoundedStream(call.onDelta);
  const late = () =>
    new ModelError("timeout", `The model "${model.id}" did not answer within ${run.modelMs / 1000} s`);
  try {
    const reply = await within(
      { clock: run.ports.clock, signal: run.signal, ms: run.modelMs, late },
      (signal) => {
        const running = model.complete(toRequest(run, call, stream, AbortSignal.any([signal, stream.full])));
        return Promise.race([running, stream.untilFull]);
      },
    );
    run.meter.add(node, reply.usage);
    if (reply.effortIgnored) tellIgnoredEffort(run, call);
    return {
      ...reply,
      text: cut(reply.text, MAX_REPLY),
      toolCalls: reply.toolCalls.slice(0, MAX_TOOL_CALLS),
    };
  } catch (error) {
    if (error instanceof ModelError) {
      run.meter.add(node, error.usage);
      throw error;
    }
    run.signal.throwIfAborted();
    run.ports.warn?.(`model "${model.id}" threw ${errorName(error)}`);
    throw new ModelError("server", `The model "${model.id}" failed unexpectedly`, { cause: error });
  } finally {
    stream.close();
  }
}

function toRequest(
  run: Run,
  { node, round, messages, tools, toolChoice, temperature, jsonSchema, onDelta }: ModelCall,
  stream: BoundedStream,
  signal: AbortSignal,
): ModelRequest {
  const reasoningEffort = hasRole(node) ? effortFor(run, node) : undefined;
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

function tellIgnoredEffort(run: Run, { node, model }: ModelCall): void {
  if (!hasRole(node) || run.ignoredEfforts.has(node)) return;
  const requested_effort = effortFor(run, node);
  if (requested_effort === undefined) return;
  run.ignoredEfforts.add(node);
  run.ports.emit({
    type: "reasoning_effort_ignored",
    agent_node: node,
    agent_role: ROLES[node],
    model: model.id,
    requested_effort,
  });
}

/** Passes text on until there is too much of it, or nobody listens any more. */
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

  /** Gives the text there was when it becomes too much. */
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
