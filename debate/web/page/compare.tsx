import type { JSX } from "preact";

export function Compare({ one, other }: { readonly one: string; readonly other: string }): JSX.Element {
  return <h1 tabIndex={-1}>Compare</h1>;
}
