import type { JSX } from "preact";

export function Help(): JSX.Element {
  return <h1 tabIndex={-1}>Help</h1>;
}
