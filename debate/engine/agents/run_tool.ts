/** The result of a tool call is used only after it is in the audit log. */
import { within } from "@gateway/shared/clock";
import { AppError, AUDIT_UNAVAILABLE, errorName } from "@gateway/shared/errors";
import { cutText } from "@gateway/shared/text";
import type { Chart, ToolArgs } from "../events.ts";
import { toCalledTool } from "../graph/evidence.ts";
import { isObject, parseJson } from "../graph/text.ts";
import { type AgentNode, ROLES, type ToolLogEntry } from "../graph/state.ts";
import type { Tool, ToolCall, ToolResult } from "../ports.ts";
import type { Debate } from "./debate.ts";
import { instructionsFor } from "./prompt.ts";

const MAX_AUDITED_RESULT = 2000;
const MAX_SHOWN = 500;
const TOOL_MS = 300_000;

interface Settled extends Pick<ToolLogEntry, "args" | "result" | "error" | "approval"> {
  /** The arguments that the agent requested, if the operator approved others. */
  readonly proposed_args?: ToolArgs;
  /** The tool's own result, if `result` contains additional text. */
  readonly original?: string;
  readonly chart?: Chart | undefined;
  readonly durationMs: number | null;
}

export async function runTool(
  debate: Debate,
  { node, round, reason }: { readonly node: AgentNode; readonly round: number; readonly reason: string },
  call: ToolCall,
) {
  const { ports, setup, cache, signal } = debate;
  const call_id = ports.newId();
  const who = { agent_node: node, agent_role: ROLES[node] };
  const ask = instructionsFor(setup.language);

  async function settle(): Promise<Settled> {
    const parsed = parseArguments(call.arguments);
    const args = typeof parsed === "string" ? { unparsed: cutText(call.arguments, MAX_SHOWN) } : parsed;
    const fail = (problem: string): Settled => (
      { args, result: `Tool error: ${problem}`, error: true, approval: "auto", durationMs: null }
    );
    const tool = ports.tools.find(({ name }) => name === call.name);
    if (tool === undefined) return fail(`there is no tool "${cutText(call.name, 64)}"`);
    if (typeof parsed === "string") return fail(parsed);

    const cached = cache.find(tool.name, args, round);
    if (cached !== undefined) {
      const result = `[cached: ${tool.name} of ${cached.role}, round ${cached.round}]\n${cached.text}`;
      return { args, result, original: cached.text, error: false, approval: "cached", durationMs: 0 };
    }
    const approval = await askApproval(tool, args);
    if (approval === "rejected" || approval === "timeout") {
      return { args, result: ask.notApproved, error: false, approval, durationMs: null };
    }
    if (typeof approval === "string") {
      return { args, approval, ...await execute(tool, args, args, approval === "approved") };
    }
    // The tool checks these arguments like a model's arguments, so the operator cannot approve what the tool rejects.
    const { args: edited, shown } = approval;
    const done = await execute(tool, edited, shown, true);
    const result = `${ask.edited(cutText(JSON.stringify(shown), MAX_AUDITED_RESULT))}\n${done.result}`;
    return { ...done, args: shown, proposed_args: args, approval: "approved", result, original: done.result };
  }

  async function askApproval(tool: Tool, args: ToolArgs) {
    const request = {
      call_id,
      tool_name: tool.name,
      args,
      ...who,
      need: tool.needOf?.(args),
      reason,
      needsApproval: tool.needsApproval,
    };
    const bound = { clock: ports.clock, signal };
    const answer = await within(bound, (signal) => ports.approve({ ...request, signal }));
    if (typeof answer === "object") {
      const { args, shown } = answer;
      return answer.answer === "approved" && isObject(args) && isObject(shown) ? answer : "rejected";
    }
    return answer === "auto" || answer === "approved" || answer === "timeout" ? answer : "rejected";
  }

  /** Runs the tool. The result of a cancelled call is audited too, because the call may have had an effect. */
  async function execute(tool: Tool, args: ToolArgs, shown: ToolArgs, isApproved: boolean) {
    const { clock, emit } = ports;
    emit({ type: "tool_call_started", call_id, ...who, tool_name: tool.name, args: shown });
    const startedAt = clock.now();
    const tooLate = new Error("late");
    const bound = { clock, signal, ms: TOOL_MS, late: () => tooLate };
    const run = (signal: AbortSignal) => tool.run(args, { signal, runId: setup.runId, isApproved });
    const { ok, text, chart }: ToolResult = await within(bound, run)
      .catch((error) => ({ ok: false, text: `Tool error: ${describeFailure(tool, error, tooLate)}` }));
    if (ok) cache.store(tool.name, args, { text, role: ROLES[node], round });
    return { result: text, error: !ok, durationMs: Math.max(0, Math.round(clock.now() - startedAt)), chart };
  }

  /** An exception from a tool is a defect. Its text is not shown, because it may contain anything. */
  function describeFailure(tool: Tool, error: unknown, tooLate: Error): string {
    if (signal.aborted) return "the run ended while the tool was running";
    if (error === tooLate) return `${tool.name} did not answer within ${TOOL_MS / 1000} s`;
    ports.warn?.(`tool "${tool.name}" threw ${errorName(error)}`);
    return `${tool.name} failed unexpectedly`;
  }

  const { args, proposed_args, result, original, chart, error, approval, durationMs } = await settle();
  const told = { args, ...(proposed_args !== undefined && { proposed_args }), result, error, approval };
  const tool_name = cutText(call.name, 64);
  try {
    await ports.audit({
      timestamp: new Date(ports.clock.now()).toISOString(),
      run_id: setup.runId,
      agent: node,
      tool: tool_name,
      ...told,
      result: cutText(result, MAX_AUDITED_RESULT),
    });
  } catch (cause) {
    throw new AppError("audit_unavailable", AUDIT_UNAVAILABLE, { cause });
  }
  const number = debate.toolLog.push({ call_id, agent: node, tool_name, args, result, error, approval });
  const facts = { cached: approval === "cached", duration_ms: durationMs, ...(chart && { chart }) };
  ports.emit({ type: "tool_call", call_id, number, ...who, tool_name, ...told, ...facts });
  signal.throwIfAborted();
  // A call without approval is not an error, but it ran nothing.
  const succeeded = !error && durationMs !== null;
  const called = toCalledTool({ number, call_id, tool_name: call.name, succeeded }, args, original ?? result);
  return { text: result, error, called };
}

const MAX_LENGTH = 100_000;
const MAX_DEPTH = 32;

/** Parses the arguments that a model wrote, or returns the problem. */
export function parseArguments(text: string): ToolArgs | string {
  if (text.length > MAX_LENGTH) return `the arguments are longer than ${MAX_LENGTH} characters`;
  const args = text.trim() === "" ? {} : parseJson(text);
  if (args === undefined) return "the arguments are not valid JSON";
  if (!isObject(args)) return "the arguments must be a JSON object";
  return isShallow(args, MAX_DEPTH) ? args : `the arguments nest deeper than ${MAX_DEPTH} levels`;
}

export function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== "object" || value === null) return true;
  return depth > 0 && Object.values(value).every((member) => isShallow(member, depth - 1));
}
