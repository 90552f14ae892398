import type { JSX } from "preact";

export function RunPage({ runId }: { readonly runId: string }): JSX.Element {
  return <h1 tabIndex={-1}>RunPage</h1>;
}
