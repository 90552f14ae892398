import { createContext } from "preact";

/** The tool call that the user has chosen in the evidence or the map. */
export interface Target {
  readonly callId: string;
  /** The line of evidence whose quotes are marked in the result. */
  readonly line?: string;
}

/** The conversation opens the chosen call, marks the quotes, and scrolls to it. */
export const Shown = createContext<{ readonly target?: Target | undefined; show(target: Target): void }>({
  show() {},
});
