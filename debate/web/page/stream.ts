import type { TimedEvent } from "./summary.ts";

/**
 * Compares the IDs of events, which are `12`, or `12.3` for events that are not stored. After a reconnect, the server
 * can send an event again.
 */
export function isLater(id: string, than: string): boolean {
  const [stored = 0, part = 0] = id.split(".").map(Number);
  const [storedBefore = 0, partBefore = 0] = than.split(".").map(Number);
  return stored > storedBefore || (stored === storedBefore && part > partBefore);
}

/** The text of the current turn. */
export interface LiveText {
  readonly role: string;
  readonly text: string;
}

/** The streamed text after an event. A turn ends with a stored event that has its whole text. */
export function streamed(live: LiveText | undefined, event: TimedEvent): LiveText | undefined {
  switch (event.type) {
    case "agent_turn_started":
      return { role: event.agent_role, text: "" };
    case "agent_delta": {
      const text = live?.role === event.agent_role ? live.text : "";
      return { role: event.agent_role, text: text + event.delta };
    }
    case "agent_reasoning":
    case "agent_completed":
    case "tool_call_started":
    case "tool_approval_request":
    case "run_finished":
      return undefined;
    default:
      return live;
  }
}

/** The conversation shows these events only as {@linkcode LiveText}. */
export function isEphemeral({ type }: TimedEvent): boolean {
  return type === "agent_turn_started" || type === "agent_delta";
}
