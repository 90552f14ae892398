import type { ComponentChildren, JSX } from "preact";
import { VisibleText } from "@gateway/shared/ui";
import { LANGUAGE } from "./language.ts";

/** A card of one speaker. */
export function Speech(
  { node, role, timestamp, facts, children }: {
    /** The node of the speaker, for its color. */
    readonly node: string;
    readonly role: string;
    readonly timestamp?: string | undefined;
    readonly facts?: ComponentChildren;
    readonly children: ComponentChildren;
  },
): JSX.Element {
  const time = new Date(timestamp ?? "");
  return (
    <li class={`turn card by-${NODES.has(node) ? node : "other"}`}>
      <div class="speaker">
        <span class="avatar" aria-hidden="true">{role.slice(0, 1)}</span>
        <h3>
          <VisibleText text={role} lines />
        </h3>
        {facts}
        {!Number.isNaN(time.getTime()) && (
          <time class="note count" dateTime={time.toISOString()} title={time.toLocaleString(LANGUAGE)}>
            {time.toLocaleTimeString(LANGUAGE, { hour: "2-digit", minute: "2-digit" })}
          </time>
        )}
      </div>
      {children}
    </li>
  );
}

const NODES: ReadonlySet<string> = new Set([
  "diagnostic_agent",
  "skeptic_agent",
  "diagnostic_rebuttal_agent",
  "moderator_agent",
  "operator",
]);
