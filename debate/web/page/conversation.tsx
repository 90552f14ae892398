import type { JSX } from "preact";
import type { LiveText } from "./stream.ts";
import type { TimedEvent } from "./summary.ts";

export function Conversation({ events, live }: {
  readonly events: readonly TimedEvent[];
  readonly live: LiveText | undefined;
  readonly isOver: boolean;
  readonly models?: Readonly<Record<string, string>> | undefined;
}): JSX.Element {
  return <p id="thread">{`${events.length} events ${live?.role ?? ""}`}</p>;
}
