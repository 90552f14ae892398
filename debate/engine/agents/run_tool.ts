/** No one sees the result of a tool call before it is in the audit log. */
import { AppError, AUDIT_UNAVAILABLE, errorName } from "@gateway/shared/errors";
import { type Clock, within } from "@gateway/shared/clock";
import type { ToolArgs } from "../events.ts";
import { isObject, parseJson } from "../graph/json_objects.ts";
import { cut } from "../graph/text.ts";
import { toCalledTool } from "../graph/evidence.ts";
import { type AgentNode, type AgentRole, type CallApproval, ROLES } from "../graph/state.ts";
import type { ToolCall } from "../model.ts";
import type { Tool, ToolResult } from "../ports.ts";
import { instructionsFor } from "./prompt.ts";
import type { Debate } from "./debate.ts";

const MAX_AUDITED_RESULT = 2000;
const MAX_SHOWN = 500;

/** Who calls, and when. */
export interface Caller {
  readonly node: AgentNode;
  readonly round: number;
}

interface Settled {
  readonly args: ToolArgs;
  /** What the agent asked for, if the operator approved something else. */
  readonly proposed?: ToolArgs;
  readonly text: string;
  readonly original?: string;
  readonly error: boolean;
  readonly approval: CallApproval;
  /** `null` when nothing ran. */
  readonly durationMs: number | null;
}

/** Handles a model's tool call, whatever is wrong with it. */
export async function runTool(debate: Debate, caller: Caller, call: ToolCall) {
  const callId = debate.ports.newId();
  const settled = await settle(debate, caller, call, callId);
  const number = await publish(debate, caller, call.name, callId, settled);
  debate.signal.throwIfAborted();
  const { text, error, original, args, durationMs } = settled;
  // What was not approved is no failure, but nothing ran either.
  const succeeded = !error && durationMs !== null;
  const facts = { number, call_id: callId, tool_name: call.name, succeeded };
  return { text, error, called: toCalledTool(facts, args, original ?? text) };
}

async function settle(debate: Debate, caller: Caller, call: ToolCall, callId: string): Promise<Settled> {
  const parsed = parseArguments(call.arguments);
  const args = parsed.kind === "arguments" ? parsed.args : { unparsed: cut(call.arguments, MAX_SHOWN) };
  const refuse = (problem: string): Settled => (
    { args, text: `Tool error: ${problem}`, error: true, approval: "auto", durationMs: null }
  );
  const tool = debate.ports.tools.find(({ name }) => name === call.name);
  if (tool === undefined) return refuse(`there is no tool "${cut(call.name, 64)}"`);
  if (parsed.kind === "broken") return refuse(parsed.problem);

  const cached = debate.cache.find(tool.name, args, caller.round);
  if (cached !== undefined) {
    const text = `[cached: ${tool.name} of ${cached.role}, round ${cached.round}]\n${cached.text}`;
    return { args, text, original: cached.text, error: false, approval: "cached", durationMs: 0 };
  }
  const approval = await askApproval(debate, caller, tool, args, callId);
  const ask = instructionsFor(debate.setup.language);
  if (approval === "rejected" || approval === "timeout") {
    return { args, text: ask.notApproved, error: false, approval, durationMs: null };
  }
  if (typeof approval === "string") {
    return { args, approval, ...await execute(debate, caller, tool, { args, shown: args }, callId) };
  }
  // The tool checks these arguments as it checks those of a model: an operator cannot allow what it refuses.
  const done = await execute(debate, caller, tool, approval, callId);
  const { shown } = approval;
  const text = `${ask.edited(cut(JSON.stringify(shown), MAX_AUDITED_RESULT))}\n${done.text}`;
  return { ...done, args: shown, proposed: args, approval: "approved", text, original: done.text };
}

async function askApproval(debate: Debate, { node }: Caller, tool: Tool, args: ToolArgs, callId: string) {
  const answer = await within(
    { clock: debate.ports.clock, signal: debate.signal },
    (signal) =>
      debate.ports.approve({
        call_id: callId,
        tool_name: tool.name,
        args,
        agent_node: node,
        agent_role: ROLES[node],
        signal,
      }),
  );
  if (typeof answer === "object") {
    const { args, shown } = answer;
    return answer.answer === "approved" && isObject(args) && isObject(shown) ? answer : "rejected";
  }
  return answer === "auto" || answer === "approved" || answer === "timeout" ? answer : "rejected";
}

/** The result of a cancelled call says so. It is reported and audited, since the call may have had an effect. */
async function execute(
  debate: Debate,
  { node, round }: Caller,
  tool: Tool,
  { args, shown }: { readonly args: ToolArgs; readonly shown: ToolArgs },
  callId: string,
) {
  const { clock, emit } = debate.ports;
  const who = { agent_node: node, agent_role: ROLES[node] };
  emit({ type: "tool_call_started", call_id: callId, ...who, tool_name: tool.name, args: shown });
  const startedAt = clock.now();
  const tooLate = new Error("late");
  const bound = { clock, signal: debate.signal, ms: debate.toolMs, late: () => tooLate };
  let result: ToolResult;
  try {
    result = await within(bound, (signal) => tool.run(args, { signal, runId: debate.setup.runId }));
  } catch (error) {
    result = { ok: false, text: `Tool error: ${describeFailure(debate, tool, error, tooLate)}` };
  }
  if (result.ok) debate.cache.store(tool.name, args, { text: result.text, role: ROLES[node], round });
  const durationMs = Math.max(0, Math.round(clock.now() - startedAt));
  return { text: result.text, error: !result.ok, durationMs };
}

/** An exception from a tool is a defect; its text may contain anything and is not shown. */
function describeFailure(debate: Debate, tool: Tool, error: unknown, tooLate: Error): string {
  if (debate.signal.aborted) return "the run ended while the tool was running";
  if (error === tooLate) return `${tool.name} did not answer within ${debate.toolMs / 1000} s`;
  debate.ports.warn?.(`tool "${tool.name}" threw ${errorName(error)}`);
  return `${tool.name} failed unexpectedly`;
}

async function publish(
  debate: Debate,
  { node }: Caller,
  name: string,
  callId: string,
  settled: Settled,
): Promise<number> {
  const { args, proposed, text, error, approval, durationMs } = settled;
  const edited = proposed === undefined ? {} : { proposed_args: proposed };
  const tool = cut(name, 64);
  const { clock, emit } = debate.ports;
  try {
    await debate.ports.audit({
      timestamp: new Date(clock.now()).toISOString(),
      run_id: debate.setup.runId,
      agent: node,
      tool,
      args,
      ...edited,
      result: cut(text, MAX_AUDITED_RESULT),
      error,
      approval,
    });
  } catch (cause) {
    throw new AppError("audit_unavailable", AUDIT_UNAVAILABLE, { cause });
  }
  const number = debate.toolLog.push({
    call_id: callId,
    agent: node,
    tool_name: tool,
    args,
    result: text,
    error,
    approval,
  });
  emit({
    type: "tool_call",
    call_id: callId,
    number,
    agent_node: node,
    agent_role: ROLES[node],
    tool_name: tool,
    args,
    ...edited,
    result: text,
    error,
    approval,
    cached: approval === "cached",
    duration_ms: durationMs,
  });
  return number;
}

const MAX_LENGTH = 100_000;
const MAX_DEPTH = 32;

type ParsedArguments =
  | { readonly kind: "arguments"; readonly args: ToolArgs }
  | { readonly kind: "broken"; readonly problem: string };

export function parseArguments(text: string): ParsedArguments {
  if (text.length > MAX_LENGTH) return broken(`the arguments are longer than ${MAX_LENGTH} characters`);
  if (text.trim() === "") return { kind: "arguments", args: {} };
  const value = parseJson(text);
  if (value === undefined) return broken("the arguments are not valid JSON");
  if (!isObject(value)) return broken("the arguments must be a JSON object");
  if (!isShallow(value, MAX_DEPTH)) return broken(`the arguments nest deeper than ${MAX_DEPTH} levels`);
  return { kind: "arguments", args: value };
}

function broken(problem: string): ParsedArguments {
  return { kind: "broken", problem };
}

function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return depth > 0 && Object.values(value).every((member) => isShallow(member, depth - 1));
}

const MAX_AGE_MS = 300_000;

interface CachedResult {
  readonly text: string;
  readonly role: AgentRole;
  readonly round: number;
}

interface Entry extends CachedResult {
  readonly storedAt: number;
}

export class ToolCache {
  readonly #clock: Clock;
  readonly #entries = new Map<string, Entry>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** The result of the same call in the same round, if it is not too old. */
  find(tool: string, args: ToolArgs, round: number): CachedResult | undefined {
    const entry = this.#entries.get(callKey(tool, args));
    if (entry === undefined || entry.round !== round) return undefined;
    const ageMs = this.#clock.now() - entry.storedAt;
    return ageMs >= 0 && ageMs <= MAX_AGE_MS ? entry : undefined;
  }

  /** Keeps the result of a call that was allowed and succeeded. */
  store(tool: string, args: ToolArgs, result: CachedResult): void {
    for (const [key, entry] of this.#entries) {
      if (entry.round !== result.round) this.#entries.delete(key);
    }
    this.#entries.set(callKey(tool, args), { ...result, storedAt: this.#clock.now() });
  }
}

/** What two calls of the same tool with the same arguments have in common. */
export function callKey(tool: string, args: ToolArgs): string {
  return JSON.stringify([tool, sorted(args)]);
}

/** The same value with the keys of every object in one order. Recursion is bounded: see `parseArguments`. */
export function sorted(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(sorted);
  if (typeof value !== "object" || value === null) return value;
  const entries = Object.entries(value).sort(([a], [b]) => a < b ? -1 : 1);
  return Object.fromEntries(entries.map(([key, member]) => [key, sorted(member)]));
}
