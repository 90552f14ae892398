import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { Conversation } from "./conversation.tsx";
import { useLoaded } from "./loaded.ts";
import { RunMap } from "./map.tsx";
import { Shown, type Target } from "./shown.tsx";
import { beginSummary, tell } from "./summary.ts";
import type { RunView } from "./views.ts";

/** A stub for the tests of this branch. */
export function RunPage({ runId }: { readonly runId: string }): JSX.Element {
  const [run] = useLoaded<RunView>(`/api/runs/${runId}`);
  const [target, show] = useState<Target>();
  const events = run?.events ?? [];
  const summary = beginSummary();
  for (const event of events) {
    try {
      tell(summary, event);
    } catch {
      // The conversation shows it.
    }
  }
  return (
    <Shown.Provider value={{ target, show }}>
      <h1 tabIndex={-1}>{run?.topic}</h1>
      {run !== undefined && <RunMap summary={summary} />}
      {run !== undefined && (
        <Conversation events={events} live={undefined} isOver models={run.models ?? undefined} />
      )}
    </Shown.Provider>
  );
}
