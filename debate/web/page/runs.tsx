import type { JSX } from "preact";

export function Runs(): JSX.Element {
  return <h1 tabIndex={-1}>Runs</h1>;
}
