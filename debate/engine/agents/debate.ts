import { within } from "@gateway/shared/clock";
import { errorName } from "@gateway/shared/errors";
import { type AgentNode, type NodeName, ROLES, type ToolLogEntry } from "../graph/state.ts";
import { cut } from "../graph/text.ts";
import { type Model, ModelError, type ModelReply, type ModelRequest, type Usage } from "../model.ts";
import type { DebateEfforts, DebatePorts, DebateSetup } from "../ports.ts";
import { ToolCache } from "./tool_cache.ts";

const MODEL_MS = 600_000;
const TOOL_MS = 300_000;

export type Debate = Readonly<ReturnType<typeof openDebate>>;

/** @param signal aborted when the run is cancelled or has used up its time */
export function openDebate(setup: DebateSetup, ports: DebatePorts, signal: AbortSignal) {
  return {
    setup,
    ports,
    signal,
    modelMs: setup.timeouts?.modelMs ?? MODEL_MS,
    toolMs: setup.timeouts?.toolMs ?? TOOL_MS,
    meter: usageMeter(),
    cache: new ToolCache(ports.clock),
    toolLog: new Array<ToolLogEntry>(),
    ignoredEfforts: new Set<NodeName>(),
  };
}

export const CASTING = {
  diagnostic_agent: { role: "diagnostic", temperature: 0.2 },
  skeptic_agent: { role: "skeptic", temperature: 0.1 },
  diagnostic_rebuttal_agent: { role: "diagnostic", temperature: 0.2 },
  moderator_agent: { role: "moderator", temperature: 0 },
} as const satisfies Record<
  AgentNode | "moderator_agent",
  { role: keyof DebateEfforts; temperature: number }
>;

function usageMeter() {
  const byNode = new Map<NodeName, Usage>();
  const none: Usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };
  const count = (value: number) => Number.isSafeInteger(value) && value > 0 ? value : 0;
  const sum = (a: Usage, b: Usage): Usage => ({
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    total_tokens: a.total_tokens + b.total_tokens,
    ...((a.estimated || b.estimated) && { estimated: true }),
  });
  return {
    /** Counts one call; a total that is missing or too small is input plus output. */
    add(node: NodeName, usage: Usage | undefined): void {
      if (usage === undefined) return;
      const [input_tokens, output_tokens] = [count(usage.input_tokens), count(usage.output_tokens)];
      const total_tokens = Math.max(count(usage.total_tokens), input_tokens + output_tokens);
      byNode.set(
        node,
        sum(byNode.get(node) ?? none, { ...usage, input_tokens, output_tokens, total_tokens }),
      );
    },
    totals: () => ({ by_node: Object.fromEntries(byNode), total: [...byNode.values()].reduce(sum, none) }),
  };
}

/** The most characters of one reply; a model that writes more is stopped. */
export const MAX_REPLY = 60_000;
const MAX_TOOL_CALLS = 64;

export interface ModelCall extends Pick<ModelRequest, "messages" | "tools" | "toolChoice" | "jsonSchema"> {
  readonly node: NodeName;
  readonly round: number;
  readonly model: Model;
  readonly temperature: number;
  readonly onDelta?: (text: string) => void;
}

export async function callModel(debate: Debate, call: ModelCall): Promise<ModelReply> {
  const { node, round, model, onDelta, tools, ...rest } = call;
  const { meter, modelMs, ports } = debate;
  const role = Object.entries(CASTING).find(([each]) => each === node)?.[1].role;
  const effort = role && debate.setup.efforts[role];
  const stream = boundedStream(onDelta);
  const late = () =>
    new ModelError("timeout", `The model "${model.id}" did not answer within ${modelMs / 1000} s`);
  try {
    const bound = { clock: ports.clock, signal: debate.signal, ms: modelMs, late };
    const reply = await within(bound, (signal) =>
      Promise.race([
        model.complete({
          ...rest,
          signal: AbortSignal.any([signal, stream.full]),
          purpose: node,
          round,
          ...(tools !== undefined && tools.length > 0 && { tools }),
          ...(effort !== undefined && effort !== "none" && { reasoningEffort: effort }),
          ...(onDelta !== undefined && { onDelta: stream.push }),
        }),
        stream.untilFull,
      ]));
    meter.add(node, reply.usage ?? estimateUsage(call, reply));
    if (reply.effortIgnored && effort !== undefined && effort !== "none") {
      tellIgnoredEffort(debate, call, effort);
    }
    const toolCalls = reply.toolCalls.slice(0, MAX_TOOL_CALLS);
    return { ...reply, text: cut(reply.text, MAX_REPLY), toolCalls };
  } catch (error) {
    if (error instanceof ModelError) {
      meter.add(node, error.usage);
      throw error;
    }
    debate.signal.throwIfAborted();
    ports.warn?.(`model "${model.id}" threw ${errorName(error)}`);
    throw new ModelError("server", `The model "${model.id}" failed unexpectedly`, { cause: error });
  } finally {
    stream.close();
  }
}

/** The characters of a token, about, in English and in the output of tools. */
const CHARACTERS_PER_TOKEN = 4;

export function estimateUsage(
  { messages, tools = [] }: Pick<ModelRequest, "messages" | "tools">,
  { text, toolCalls }: ModelReply,
): Usage {
  const tokens = (texts: readonly string[]) =>
    Math.ceil(texts.reduce((sum, each) => sum + each.length, 0) / CHARACTERS_PER_TOKEN);
  const argumentsOf = (calls: ModelReply["toolCalls"] = []) => calls.map((each) => each.arguments);
  const asked = messages.flatMap((each) => [each.content, ...argumentsOf(each.toolCalls)]);
  const offered = tools.map(({ description, parameters }) => description + JSON.stringify(parameters));
  const input_tokens = tokens([...asked, ...offered]);
  const output_tokens = tokens([text, ...argumentsOf(toolCalls)]);
  return { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens, estimated: true };
}

function tellIgnoredEffort(
  { ignoredEfforts, ports }: Debate,
  { node, model }: ModelCall,
  requested_effort: "low" | "medium" | "high",
): void {
  if (ignoredEfforts.has(node) || (node !== "moderator_agent" && !isAgent(node))) return;
  ignoredEfforts.add(node);
  const who = { agent_node: node, agent_role: ROLES[node] };
  ports.emit({ type: "reasoning_effort_ignored", ...who, model: model.id, requested_effort });
}

function isAgent(node: NodeName): node is AgentNode {
  return Object.hasOwn(CASTING, node);
}

/** Passes text on until there is too much of it or nobody is listening any more. */
function boundedStream(onDelta: ((text: string) => void) | undefined) {
  const full = new AbortController();
  const reply = Promise.withResolvers<ModelReply>();
  let text = "";
  let isOpen = true;
  return {
    full: full.signal,
    /** Keeps the text received so far when a reply becomes too long. */
    untilFull: reply.promise,
    push(delta: string): void {
      if (!isOpen || delta === "") return;
      const rest = cut(delta, MAX_REPLY - text.length);
      text += rest;
      if (rest !== "") onDelta?.(rest);
      if (rest.length === delta.length) return;
      isOpen = false;
      reply.resolve({ text, toolCalls: [], usage: undefined });
      full.abort(new ModelError("canceled", "The reply is too long"));
    },
    close(): void {
      isOpen = false;
    },
  };
}
