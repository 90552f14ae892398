import type { TokenTotals } from "../events.ts";
import { type AgentNode, type NodeName, ROLES, type ToolLogEntry } from "../graph/state.ts";
import {
  type Model,
  ModelError,
  type ModelReply,
  type ModelRequest,
  type ReasoningEffort,
  type Usage,
} from "../model.ts";
import type { DebateEfforts, DebatePorts, DebateSetup } from "../ports.ts";
import { ToolCache } from "./run_tool.ts";
import { errorName } from "@gateway/shared/errors";
import { within } from "@gateway/shared/clock";
import { cut } from "../graph/text.ts";

const MODEL_MS = 600_000;
const TOOL_MS = 300_000;

/** One debate. */
export interface Debate {
  readonly setup: DebateSetup;
  readonly ports: DebatePorts;
  /** Aborted when the run is cancelled or has used up its time. */
  readonly signal: AbortSignal;
  readonly modelMs: number;
  readonly toolMs: number;
  readonly meter: UsageMeter;
  readonly cache: ToolCache;
  readonly toolLog: ToolLogEntry[];
  readonly ignoredEfforts: Set<AgentNode | "moderator_agent">;
}

export function openDebate(setup: DebateSetup, ports: DebatePorts, signal: AbortSignal): Debate {
  return {
    setup,
    ports,
    signal,
    modelMs: setup.timeouts?.modelMs ?? MODEL_MS,
    toolMs: setup.timeouts?.toolMs ?? TOOL_MS,
    meter: new UsageMeter(),
    cache: new ToolCache(ports.clock),
    toolLog: [],
    ignoredEfforts: new Set(),
  };
}

/** Who plays a node, how hard it thinks, and how freely. */
export const CASTING = {
  diagnostic_agent: { role: "diagnostic", temperature: 0.2 },
  skeptic_agent: { role: "skeptic", temperature: 0.1 },
  diagnostic_rebuttal_agent: { role: "diagnostic", temperature: 0.2 },
  moderator_agent: { role: "moderator", temperature: 0 },
} as const satisfies Record<
  AgentNode | "moderator_agent",
  { role: keyof DebateEfforts; temperature: number }
>;

export function effortFor(
  { setup }: Debate,
  node: AgentNode | "moderator_agent",
): ReasoningEffort | undefined {
  const effort = setup.efforts[CASTING[node].role];
  return effort === "none" ? undefined : effort;
}

const NONE: Usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };

class UsageMeter {
  readonly #byNode = new Map<NodeName, Usage>();

  /** Counts one call; a total that is missing or too small is input plus output. */
  add(node: NodeName, usage: Usage | undefined): void {
    if (usage === undefined) return;
    const input_tokens = count(usage.input_tokens);
    const output_tokens = count(usage.output_tokens);
    const total_tokens = Math.max(count(usage.total_tokens), input_tokens + output_tokens);
    this.#byNode.set(
      node,
      sum(this.#byNode.get(node) ?? NONE, {
        input_tokens,
        output_tokens,
        total_tokens,
        ...(usage.estimated && { estimated: true }),
      }),
    );
  }

  totals(): TokenTotals {
    return {
      by_node: Object.fromEntries(this.#byNode),
      total: [...this.#byNode.values()].reduce(sum, NONE),
    };
  }
}

function count(value: number): number {
  return Number.isSafeInteger(value) && value > 0 ? value : 0;
}

function sum(a: Usage, b: Usage): Usage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    total_tokens: a.total_tokens + b.total_tokens,
    ...((a.estimated || b.estimated) && { estimated: true }),
  };
}

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
