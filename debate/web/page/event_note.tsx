import type { JSX } from "preact";
import { Icon, type IconName, VisibleText } from "@gateway/shared/ui";
import { t } from "./language.ts";
import type { TimedEvent } from "./summary.ts";

/** An event in one quiet line. */
export function EventNote({ event }: { readonly event: TimedEvent }): JSX.Element {
  return <Note note={noteOf(event)} />;
}

/** The line of an event that is broken or newer than the page. */
export function UnknownNote({ type }: { readonly type: string }): JSX.Element {
  return <Note note={unknownNote(type)} />;
}

function Note({ note: [icon, text] }: { readonly note: readonly [IconName, string] }): JSX.Element {
  return (
    <>
      <Icon name={icon} />
      <span>
        <VisibleText text={text} lines />
      </span>
    </>
  );
}

function noteOf(event: TimedEvent): readonly [IconName, string] {
  switch (event.type) {
    case "run_resumed":
      return ["play", t("Continues run {id}.", { id: event.parent_run_id })];
    case "run_warning":
      return ["alert", event.message];
    case "agent_skipped":
      return ["pause", t("{role} was skipped: {why}", { role: t(event.agent_role), why: event.rationale })];
    case "tool_approval_revoked":
      return ["shield", t("{tool} needs approval again.", { tool: event.tool_name })];
    case "model_waiting":
      return [
        "clock",
        t("{model} limited the rate of requests. The call was repeated after {seconds} s.", {
          model: event.model,
          seconds: event.seconds,
        }),
      ];
    case "reasoning_effort_ignored":
      return [
        "alert",
        t("{role}: {model} has no reasoning effort to set.", {
          role: t(event.agent_role),
          model: event.model,
        }),
      ];
    case "run_cancelled":
      return ["stop", t("The run was stopped.")];
    default:
      return unknownNote(event.type);
  }
}

function unknownNote(type: string): readonly [IconName, string] {
  return ["alert", t("This event cannot be shown: {type}", { type: type === "" ? t("unknown") : type })];
}
