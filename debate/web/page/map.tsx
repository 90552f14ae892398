import type { JSX } from "preact";
import type { Summary } from "./summary.ts";

export function RunMap({ summary }: { readonly summary: Summary }): JSX.Element | null {
  return null;
}
