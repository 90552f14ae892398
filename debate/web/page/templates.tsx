import type { JSX } from "preact";

export function Templates(): JSX.Element {
  return <h1 tabIndex={-1}>Templates</h1>;
}
