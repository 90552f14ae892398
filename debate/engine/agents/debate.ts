import { type Clock, within } from "@gateway/shared/clock";
import { errorName } from "@gateway/shared/errors";
import { cutText } from "@gateway/shared/text";
import type { TokenTotals, ToolArgs } from "../events.ts";
import { type AgentRole, type CallingNode, MODEL_NODES, ROLES, type ToolLogEntry } from "../graph/state.ts";
import type { DebatePorts, DebateSetup, ModelReply, ModelRequest } from "../ports.ts";
import type { Usage } from "../events.ts";
import { ModelError } from "../ports.ts";

export type Debate = Readonly<ReturnType<typeof openDebate>>;

/** @param signal aborted when the run is cancelled or its time limit passes */
export function openDebate(setup: DebateSetup, ports: DebatePorts, signal: AbortSignal) {
  return {
    setup,
    ports,
    signal,
    usage: new Map<CallingNode, Usage>(),
    cache: toolCache(ports.clock),
    toolLog: new Array<ToolLogEntry>(),
    ignoredEfforts: new Set<CallingNode>(),
  };
}

const NO_USAGE: Usage = { input_tokens: 0, output_tokens: 0, total_tokens: 0 };

export function tokenTotals({ usage }: Debate): TokenTotals {
  return { by_node: Object.fromEntries(usage), total: [...usage.values()].reduce(sum, NO_USAGE) };
}

function sum(a: Usage, b: Usage): Usage {
  return {
    input_tokens: a.input_tokens + b.input_tokens,
    output_tokens: a.output_tokens + b.output_tokens,
    total_tokens: a.total_tokens + b.total_tokens,
    ...((a.estimated || b.estimated) && { estimated: true }),
  };
}

/** Adds the usage of one call. A missing or too small total is replaced by input plus output. */
function addUsage({ usage }: Debate, node: CallingNode, used: Usage): void {
  const count = (value: number) => Number.isSafeInteger(value) && value > 0 ? value : 0;
  const [input_tokens, output_tokens] = [count(used.input_tokens), count(used.output_tokens)];
  const total_tokens = Math.max(count(used.total_tokens), input_tokens + output_tokens);
  usage.set(node, sum(usage.get(node) ?? NO_USAGE, { ...used, input_tokens, output_tokens, total_tokens }));
}

const MODEL_MS = 600_000;
/** The maximum length of a reply in characters. A model that writes more is stopped. */
export const MAX_REPLY = 60_000;
const MAX_TOOL_CALLS = 64;

export interface ModelCall
  extends Pick<ModelRequest, "messages" | "tools" | "toolChoice" | "jsonSchema" | "round" | "onDelta"> {
  readonly purpose: CallingNode;
}

/** The longest sum of pauses of one call, and the longest pause that a provider does not request. */
const MAX_PAUSES_MS = 600_000;
const MAX_BACKOFF_MS = 60_000;

/** Calls a model. While the provider limits the rate of requests, the call is repeated. */
export async function callModel(debate: Debate, call: ModelCall): Promise<ModelReply> {
  const { setup: { models }, ports: { clock, emit }, signal } = debate;
  const { purpose: node } = call;
  const { id: model } = models[MODEL_NODES[node].role] ?? models.diagnostic;
  let left = MAX_PAUSES_MS;
  for (let tries = 0;; tries++) {
    try {
      return await callOnce(debate, call);
    } catch (error) {
      signal.throwIfAborted();
      if (!(error instanceof ModelError) || error.pauseMs === undefined) throw error;
      const ms = Math.max(error.pauseMs, Math.min(1000 * 2 ** tries, MAX_BACKOFF_MS));
      left -= ms;
      if (left < 0) throw error;
      emit({ type: "model_waiting", node, model, seconds: Math.ceil(ms / 1000) });
      await clock.sleep(ms, signal);
    }
  }
}

async function callOnce(debate: Debate, call: ModelCall): Promise<ModelReply> {
  const { purpose, onDelta, tools = [], ...rest } = call;
  const { setup: { models, efforts, timeouts }, ports, signal } = debate;
  const { role, temperature } = MODEL_NODES[purpose];
  const model = models[role] ?? models.diagnostic;
  const wished = role === "summary" || role === "sample" ? "none" : efforts[role];
  const ms = timeouts?.modelMs ?? MODEL_MS;
  const late = () =>
    new ModelError("timeout", `The model "${model.id}" did not answer within ${ms / 1000} s`);
  const full = new AbortController();
  let isOpen = true;
  let text = "";
  /** Forwards text until the reply is too long or the call has ended. */
  const push = (delta: string) => {
    if (!isOpen || delta === "") return;
    const start = cutText(delta, MAX_REPLY - text.length);
    text += start;
    if (start !== "") onDelta?.(start);
    isOpen = start.length === delta.length;
    if (!isOpen) full.abort(new ModelError("canceled", "The reply is too long"));
  };
  try {
    const bound = { clock: ports.clock, signal: AbortSignal.any([signal, full.signal]), ms, late };
    const reply: ModelReply = await within(bound, (signal) =>
      model.complete({
        ...rest,
        signal,
        purpose,
        temperature,
        ...(tools.length > 0 && { tools }),
        ...(wished !== "none" && { reasoningEffort: wished }),
        ...(onDelta !== undefined && { onDelta: push }),
      })).catch((error) => {
        if (signal.aborted || !full.signal.aborted) throw error;
        return { text, toolCalls: [], usage: undefined };
      });
    addUsage(debate, purpose, reply.usage ?? estimateUsage(call, reply));
    if (
      reply.effortIgnored && wished !== "none" && isDebater(purpose) && !debate.ignoredEfforts.has(purpose)
    ) {
      debate.ignoredEfforts.add(purpose);
      const who = { agent_node: purpose, agent_role: ROLES[purpose] };
      ports.emit({ type: "reasoning_effort_ignored", ...who, model: model.id, requested_effort: wished });
    }
    return {
      ...reply,
      text: cutText(reply.text, MAX_REPLY),
      toolCalls: reply.toolCalls.slice(0, MAX_TOOL_CALLS),
    };
  } catch (error) {
    if (error instanceof ModelError) {
      if (error.usage !== undefined) addUsage(debate, purpose, error.usage);
      throw error;
    }
    signal.throwIfAborted();
    ports.warn?.(`model "${model.id}" threw ${errorName(error)}`);
    throw new ModelError("server", `The model "${model.id}" failed unexpectedly`, { cause: error });
  } finally {
    isOpen = false;
  }
}

function isDebater(node: CallingNode): node is keyof typeof ROLES {
  return Object.hasOwn(ROLES, node);
}

/** The approximate number of characters per token, in English and in tool output. */
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

const MAX_AGE_MS = 300_000;

interface CachedResult {
  readonly text: string;
  readonly role: AgentRole;
  readonly round: number;
}

export function toolCache(clock: Clock) {
  let entries = new Map<string, CachedResult & { readonly storedAt: number }>();
  return {
    /** The result of the same call in the same round, unless it is too old. */
    find(tool: string, args: ToolArgs, round: number): CachedResult | undefined {
      const entry = entries.get(callKey(tool, args));
      const ageMs = clock.now() - (entry?.storedAt ?? 0);
      return entry?.round === round && ageMs >= 0 && ageMs <= MAX_AGE_MS ? entry : undefined;
    },
    /** Stores the result of a successful call. */
    store(tool: string, args: ToolArgs, result: CachedResult): void {
      entries = new Map([...entries].filter(([, { round }]) => round === result.round));
      entries.set(callKey(tool, args), { ...result, storedAt: clock.now() });
    },
  };
}

/** A key for a tool call. Calls of the same tool with the same arguments have the same key. */
export function callKey(tool: string, args: ToolArgs): string {
  return JSON.stringify([tool, sorted(args)]);
}

/** The value with the keys of each object sorted. `parseArguments` limits the recursion depth. */
export function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1);
  return Object.fromEntries(entries.map(([key, member]) => [key, sorted(member)]));
}
