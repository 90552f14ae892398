import type { AgentNode, AgentRole } from "../../engine/graph/state.ts";
import type { TimedEvent } from "./summary.ts";

type EventOf<Type extends TimedEvent["type"]> = Extract<TimedEvent, { type: Type }>;

/** The last event of a tool call. */
export type CallEvent = EventOf<"tool_approval_request" | "tool_call_started" | "tool_call">;

type TurnPart =
  | { readonly kind: "said"; readonly text: string }
  | { readonly kind: "calls"; readonly calls: readonly CallEvent[] }
  /** An event that interrupts the turn, such as a pause of the model. */
  | { readonly kind: "event"; readonly event: TimedEvent };

/** All that an agent says and does until another agent continues. */
export interface Turn {
  readonly kind: "turn";
  readonly node: AgentNode;
  readonly role: AgentRole;
  readonly parts: readonly TurnPart[];
  /** The number of an independent diagnosis. */
  readonly sample: number | undefined;
  readonly timestamp: string | undefined;
  /** The tokens of the turn. */
  readonly tokens: number | undefined;
  readonly isDone: boolean;
  /** The run ended during the turn. */
  readonly isPartial: boolean;
}

/** A row of the conversation. A changed row is another object. */
export type Row =
  | Turn
  | { readonly kind: "round"; readonly round: number }
  | { readonly kind: "event"; readonly event: TimedEvent }
  /** An event that cannot be shown. `type` is empty if it has none. */
  | { readonly kind: "unknown"; readonly type: string };

/** The rows of a conversation, extended by its new events. */
interface Thread {
  readonly rows: Row[];
  /** The finished calls by number. */
  readonly calls: Map<number, EventOf<"tool_call">>;
  /** The number of read events. */
  count: number;
  round: number;
  tokens: number;
  /** The row of each call, by ID. */
  readonly places: Map<string, number>;
}

export function beginThread(): Thread {
  return { rows: [], calls: new Map(), count: 0, round: 0, tokens: 0, places: new Map() };
}

/** Reads the events that were added. A broken event does not hide the others. */
export function extendThread(thread: Thread, events: readonly TimedEvent[]): void {
  for (const event of events.slice(thread.count)) {
    try {
      read(thread, event);
    } catch {
      thread.rows.push({ kind: "unknown", type: String(event?.type ?? "") });
    }
  }
  thread.count = events.length;
}

function read(thread: Thread, event: TimedEvent): void {
  const { rows } = thread;
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
      return addPart(thread, event, { kind: "said", text: event.content });
    case "tool_approval_request":
    case "tool_call_started":
    case "tool_call":
      return addCall(thread, event);
    case "agent_completed": {
      const { node: agent_node, role: agent_role, timestamp } = event;
      const part: TurnPart = { kind: "said", text: String(event.content) };
      addPart(thread, { agent_node, agent_role, timestamp }, event.content === "" ? undefined : part);
      return changeLast(thread, {
        isDone: true,
        isPartial: event.partial === true,
        sample: event.sample,
        tokens: spend(thread, event.total_tokens),
      });
    }
    case "moderator_decision":
      closeTurn(thread);
      rows.push({ kind: "event", event });
      spend(thread, event.total_tokens);
      return beginRound(thread, event.round);
    case "model_waiting":
    case "tool_approval_revoked":
    case "reasoning_effort_ignored":
    case "run_warning":
      return addNote(thread, event);
    case "user_comment":
      if (event.content !== "") rows.push({ kind: "event", event });
      return;
    case "run_resumed":
    case "samples_compared":
    case "agent_skipped":
    case "history_compressed":
    case "final_result":
    case "run_cancelled":
    case "error":
      closeTurn(thread);
      rows.push({ kind: "event", event });
      return;
    default:
      event satisfies never;
      throw new TypeError("unknown event");
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

function changeLast({ rows }: Thread, change: Partial<Turn>): void {
  const last = rows.at(-1);
  if (last?.kind === "turn") rows[rows.length - 1] = { ...last, ...change };
}

function closeTurn(thread: Thread): void {
  if (openTurn(thread) !== undefined) changeLast(thread, { isDone: true });
}

interface Speaker {
  readonly agent_node: AgentNode;
  readonly agent_role: AgentRole;
  readonly timestamp?: string | undefined;
}

/** Adds to the turn of the agent, or begins one. */
function addPart(thread: Thread, speaker: Speaker, part: TurnPart | undefined): void {
  const { agent_node: node, agent_role: role, timestamp } = speaker;
  const open = openTurn(thread);
  const added = part === undefined ? [] : [part];
  if (open?.node === node) return changeLast(thread, { parts: [...open.parts, ...added] });
  closeTurn(thread);
  thread.rows.push({
    kind: "turn",
    node,
    role,
    parts: added,
    sample: undefined,
    timestamp,
    tokens: undefined,
    isDone: false,
    isPartial: false,
  });
}

function addNote(thread: Thread, event: TimedEvent): void {
  const open = openTurn(thread);
  if (open === undefined) thread.rows.push({ kind: "event", event });
  else changeLast(thread, { parts: [...open.parts, { kind: "event", event }] });
}

/** A call has up to three events, and each replaces the one before. Consecutive calls are one part. */
function addCall(thread: Thread, event: CallEvent): void {
  if (event.type === "tool_call" && typeof event.number === "number") {
    thread.calls.set(event.number, event);
  }
  const place = thread.places.get(event.call_id);
  const turn = place === undefined ? undefined : thread.rows[place];
  if (place !== undefined && turn?.kind === "turn" && hasOpen(turn, event.call_id)) {
    const parts = turn.parts.map((part) =>
      part.kind !== "calls" ? part : {
        ...part,
        calls: part.calls.map((call) => call.call_id === event.call_id && isOpen(call) ? event : call),
      }
    );
    thread.rows[place] = { ...turn, parts };
    return;
  }
  const open = openTurn(thread);
  const last = open?.node === event.agent_node ? open.parts.at(-1) : undefined;
  if (open !== undefined && last?.kind === "calls") {
    const calls: TurnPart = { kind: "calls", calls: [...last.calls, event] };
    changeLast(thread, { parts: [...open.parts.slice(0, -1), calls] });
  } else addPart(thread, event, { kind: "calls", calls: [event] });
  thread.places.set(event.call_id, thread.rows.length - 1);
}

function isOpen({ type }: CallEvent): boolean {
  return type !== "tool_call";
}

function hasOpen({ parts }: Turn, callId: string): boolean {
  return parts.some((part) =>
    part.kind === "calls" && part.calls.some((call) => call.call_id === callId && isOpen(call))
  );
}

/** A line of a chart. */
interface Series {
  readonly label: string;
  readonly points: readonly (readonly [ms: number, value: number])[];
}

const MAX_SERIES = 8;

/** The chart of a call's result. Stored runs can contain anything, so only well-formed points are drawn. */
export function chartOf(
  event: object,
): { readonly unit: string | undefined; readonly series: readonly Series[] } | undefined {
  const chart = "chart" in event ? event.chart : undefined;
  if (typeof chart !== "object" || chart === null || !("series" in chart) || !Array.isArray(chart.series)) {
    return undefined;
  }
  const series = chart.series.slice(0, MAX_SERIES).flatMap((each: Partial<Series> | null): Series[] => {
    if (!Array.isArray(each?.points)) return [];
    const points = each.points.filter((point) =>
      Array.isArray(point) && Number.isFinite(point[0]) && Number.isFinite(point[1])
    );
    return points.length === 0 ? [] : [{ label: String(each.label), points }];
  });
  const unit = "unit" in chart && typeof chart.unit === "string" ? chart.unit : undefined;
  return series.length === 0 ? undefined : { unit, series };
}
