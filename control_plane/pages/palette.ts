/** The colours of the pages, each under the name of its use. */
export interface Palette {
  readonly page: string;
  readonly surface: string;
  /** Behind commands and other text of unknown origin. */
  readonly well: string;
  readonly text: string;
  readonly muted: string;
  readonly line: string;
  /** The edge of what can be operated. */
  readonly edge: string;
  readonly link: string;
  readonly focus: string;
  readonly approve: string;
  readonly onApprove: string;
  readonly deny: string;
  readonly onDeny: string;
  readonly good: string;
  readonly goodWell: string;
  readonly bad: string;
  readonly badWell: string;
  readonly warn: string;
  readonly warnWell: string;
  readonly idle: string;
  readonly idleWell: string;
}

export const LIGHT: Palette = {
  page: "#f4f5f7",
  surface: "#ffffff",
  well: "#f6f7f9",
  text: "#1a1d21",
  muted: "#555c66",
  line: "#dfe2e7",
  edge: "#7c838f",
  link: "#0b57a8",
  focus: "#0b57a8",
  approve: "#14693c",
  onApprove: "#ffffff",
  deny: "#ffffff",
  onDeny: "#a4231b",
  good: "#11572f",
  goodWell: "#e3f3e9",
  bad: "#8f1d16",
  badWell: "#fbe9e7",
  warn: "#6b4500",
  warnWell: "#fdf1d3",
  idle: "#4a515b",
  idleWell: "#eaecf0",
};

export const DARK: Palette = {
  page: "#121417",
  surface: "#1a1d21",
  well: "#121417",
  text: "#e6e8eb",
  muted: "#a3aab4",
  line: "#30353c",
  edge: "#7f8792",
  link: "#8cbcf7",
  focus: "#8cbcf7",
  approve: "#7dd3a0",
  onApprove: "#08210f",
  deny: "#1a1d21",
  onDeny: "#ff9d94",
  good: "#8edcae",
  goodWell: "#12301f",
  bad: "#ffa9a1",
  badWell: "#3a1815",
  warn: "#f3cf7a",
  warnWell: "#352807",
  idle: "#b9bfc8",
  idleWell: "#2a2f36",
};

/** Text and what it stands on: each pair has to reach a contrast of 4.5 (WCAG 2.2, 1.4.3). */
export const TEXT_PAIRS: readonly (readonly [keyof Palette, keyof Palette])[] = [
  ["text", "page"],
  ["text", "surface"],
  ["text", "well"],
  ["muted", "page"],
  ["muted", "surface"],
  ["muted", "well"],
  ["link", "page"],
  ["link", "surface"],
  ["onApprove", "approve"],
  ["onDeny", "deny"],
  ["good", "goodWell"],
  ["bad", "badWell"],
  ["warn", "warnWell"],
  ["idle", "idleWell"],
  ["bad", "surface"],
  ["text", "warnWell"],
];

/** What has to be seen to be used, and what it stands on: a contrast of 3 (WCAG 2.2, 1.4.11). */
export const EDGE_PAIRS: readonly (readonly [keyof Palette, keyof Palette])[] = [
  ["edge", "surface"],
  ["edge", "page"],
  ["focus", "surface"],
  ["focus", "page"],
  ["approve", "surface"],
  ["onDeny", "surface"],
];

/** The palette as custom properties of CSS: `--page:#f4f5f7;…`. */
export function toCustomProperties(palette: Palette): string {
  return Object.entries(palette)
    .map(([name, colour]) => `--${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}:${colour}`)
    .join(";");
}
