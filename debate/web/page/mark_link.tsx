import { createContext, type JSX } from "preact";
import { useContext } from "preact/hooks";
import { VisibleText } from "@gateway/shared/ui";
import type { ToolCallEvent } from "../../engine/events.ts";
import type { Mark } from "./agent_text.ts";
import { Shown } from "./shown.tsx";

/** The finished calls of the conversation by number. */
export const Calls = createContext<ReadonlyMap<number, ToolCallEvent>>(new Map());

/**
 * A mark in a text of an agent: a link to a tool call, or the ID of a hypothesis. A call that does not exist, or that
 * has another name, has no link.
 */
export function MarkLink({ mark, line }: { readonly mark: Mark; readonly line: string }): JSX.Element {
  const { show } = useContext(Shown);
  const calls = useContext(Calls);
  if (mark.kind === "hypothesis") return <HypothesisId id={mark.id} />;
  const call = calls.get(mark.number);
  const name = <VisibleText text={`${mark.tool} #${mark.number}`} lines />;
  return call?.tool_name === mark.tool
    ? (
      <button type="button" class="mark-link" onClick={() => show({ callId: call.call_id, line })}>
        {name}
      </button>
    )
    : <span class="mark-link">{name}</span>;
}

/** `H-1` */
export function HypothesisId({ id }: { readonly id: string }): JSX.Element {
  return (
    <b class="hypothesis-id">
      <VisibleText text={id} lines />
    </b>
  );
}
