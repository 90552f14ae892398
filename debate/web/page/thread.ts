import type { ToolCallEvent } from "../../engine/events.ts";
import type { TimedEvent } from "./summary.ts";

/** The last event of a tool call. */
export type CallEvent = Extract<
  TimedEvent,
  { type: "tool_approval_request" | "tool_call_started" | "tool_call" }
>;

/** All texts and actions of an agent, the moderator or the operator until another one continues. */
interface Turn {
  readonly kind: "turn";
  readonly role: string;
  /** Texts, calls, and events that interrupt the turn, such as a pause of the model. */
  readonly events: readonly TimedEvent[];
  /** The tokens of the turn. */
  readonly tokens?: number | undefined;
  readonly isDone: boolean;
}

/** A row of the conversation. A changed row is another object. */
export type Row =
  | Turn
  | { readonly kind: "round"; readonly round: number }
  /** The event can be broken or unknown. */
  | { readonly kind: "event"; readonly event: TimedEvent };

/** The rows of a conversation, extended by its new events. */
interface Thread {
  readonly rows: Row[];
  /** The finished calls by number. */
  readonly calls: Map<number, ToolCallEvent>;
  /** The number of read events. */
  count: number;
  round: number;
  tokens: number;
}

export function beginThread(): Thread {
  return { rows: [], calls: new Map(), count: 0, round: 0, tokens: 0 };
}

/** Reads the events that were added. A broken event does not hide the others. */
export function extendThread(thread: Thread, events: readonly TimedEvent[]): void {
  for (const event of events.slice(thread.count)) {
    try {
      read(thread, event);
    } catch {
      thread.rows.push({ kind: "event", event });
    }
  }
  thread.count = events.length;
}

function read(thread: Thread, event: TimedEvent): void {
  switch (event.type) {
    // The summary, the live text and the request above the conversation show these.
    case "agent_turn_started":
    case "agent_delta":
    case "hypothesis_update":
    case "tool_approval_resolved":
    case "awaiting_user_input":
      return;
    case "run_finished":
      return closeTurn(thread);
    case "run_started":
      return beginRound(thread, event.round);
    case "agent_reasoning":
      return addToTurn(thread, event.agent_role, event);
    case "tool_approval_request":
    case "tool_call_started":
    case "tool_call":
      return addCall(thread, event);
    case "agent_completed":
      addToTurn(thread, event.role, event);
      return changeLast(thread, { isDone: true, tokens: spend(thread, event.total_tokens) });
    case "moderator_decision":
      addToTurn(thread, "Moderator", event);
      changeLast(thread, { isDone: true, tokens: spend(thread, event.total_tokens) });
      return beginRound(thread, event.round);
    case "model_waiting":
    case "tool_approval_revoked":
    case "reasoning_effort_ignored":
    case "run_warning": {
      const role = openTurn(thread)?.role;
      return role === undefined ? addRow(thread, event) : addToTurn(thread, role, event);
    }
    case "user_comment":
      if (event.content !== "") addToTurn(thread, "Operator", event);
      return closeTurn(thread);
    default:
      return addRow(thread, event);
  }
}

function beginRound(thread: Thread, round: number): void {
  if (typeof round !== "number" || round === thread.round) return;
  thread.round = round;
  thread.rows.push({ kind: "round", round });
}

function spend(thread: Thread, total: number | undefined): number | undefined {
  if (typeof total !== "number") return undefined;
  const spent = total - thread.tokens;
  thread.tokens = total;
  return spent > 0 ? spent : undefined;
}

function openTurn({ rows }: Thread): Turn | undefined {
  const last = rows.at(-1);
  return last?.kind === "turn" && !last.isDone ? last : undefined;
}

function changeLast(thread: Thread, change: Partial<Turn>): void {
  const turn = openTurn(thread);
  if (turn !== undefined) thread.rows[thread.rows.length - 1] = { ...turn, ...change };
}

function closeTurn(thread: Thread): void {
  changeLast(thread, { isDone: true });
}

function addRow(thread: Thread, event: TimedEvent): void {
  closeTurn(thread);
  thread.rows.push({ kind: "event", event });
}

/** Adds to the turn of the agent, or begins one. */
function addToTurn(thread: Thread, role: string, event: TimedEvent): void {
  const open = openTurn(thread);
  if (open?.role === role) return changeLast(thread, { events: [...open.events, event] });
  closeTurn(thread);
  thread.rows.push({ kind: "turn", role, events: [event], isDone: false });
}

/** A call has up to three events, and each replaces the one before. */
function addCall(thread: Thread, event: CallEvent): void {
  const { rows, calls } = thread;
  if (event.type === "tool_call" && typeof event.number === "number") calls.set(event.number, event);
  const isBefore = (each: TimedEvent) =>
    isCall(each) && each.call_id === event.call_id && each.type !== "tool_call";
  const at = rows.findLastIndex((row) => row.kind === "turn" && row.events.some(isBefore));
  const turn = rows[at];
  if (turn?.kind !== "turn") return addToTurn(thread, event.agent_role, event);
  rows[at] = { ...turn, events: turn.events.map((each) => isBefore(each) ? event : each) };
}

export function isCall(event: TimedEvent): event is CallEvent {
  return event.type === "tool_call" || event.type === "tool_call_started" ||
    event.type === "tool_approval_request";
}
