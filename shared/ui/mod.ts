/**
 * The visual language of all pages: colors and sizes, a style sheet, and components. Components have no state and
 * need no script, so that a server can render them, too.
 *
 * @module
 */
import style from "./style.css" with { type: "text" };
import { tokens } from "./tokens.ts";

/** The style sheet of all pages. A function, so that the bundle of a script that uses components does not contain it. */
export function styleSheet(): string {
  return `${tokens()}\n${style}`;
}

export { Chart, type ChartSeries } from "./chart.tsx";
export { Icon, type IconName } from "./icons.tsx";
export { Badge, Card, Code, type Column, Empty, Problem, Table, type Tone } from "./parts.tsx";
export { COLORS } from "./tokens.ts";
export { findSuspiciousCharacters, segmentText, VisibleText } from "./visible_text.tsx";
