/** The light and the dark color of each use. */
export const COLORS = {
  page: ["#f6f7f9", "#0f1114"],
  surface: ["#ffffff", "#171a1f"],
  /** Behind commands, results and other text of unknown origin. */
  well: ["#f2f4f7", "#0f1216"],
  text: ["#16191d", "#e8eaed"],
  muted: ["#59616d", "#a1a9b4"],
  line: ["#e1e4e9", "#2a2f37"],
  /** The borders of controls, such as buttons and fields. */
  edge: ["#828a97", "#77808d"],
  accent: ["#2f4fd8", "#8ea4ff"],
  onAccent: ["#ffffff", "#0c1333"],
  accentWell: ["#eaeefd", "#1a2244"],
  good: ["#11572f", "#8edcae"],
  goodWell: ["#e3f3e9", "#12301f"],
  bad: ["#971b13", "#ffa9a1"],
  badWell: ["#fcebe9", "#3a1815"],
  warn: ["#6b4500", "#f3cf7a"],
  warnWell: ["#fdf2d6", "#352807"],
  idle: ["#4a515b", "#b9bfc8"],
  idleWell: ["#eaecf0", "#252a31"],
  approve: ["#14693c", "#7dd3a0"],
  onApprove: ["#ffffff", "#08210f"],
  /** The lines of a chart, with {@linkcode COLORS.accent} as the first. */
  chart2: ["#0a7d6c", "#4fd1bd"],
  chart3: ["#a8480b", "#f5a66b"],
  chart4: ["#8a2f9c", "#dc9aea"],
  chart5: ["#7a6200", "#d8c052"],
  chart6: ["#b02a57", "#f291b2"],
  chart7: ["#33658a", "#8fc1e3"],
  chart8: ["#5b6b2f", "#b5c984"],
} as const;

const SIZES = {
  small: ".75rem",
  medium: ".875rem",
  body: ".9375rem",
  large: "1.0625rem",
  title: "clamp(1.1875rem, .875rem + 1vw, 1.4375rem)",
  gap1: ".25rem",
  gap2: ".5rem",
  gap3: ".6875rem",
  gap4: ".9375rem",
  gap6: "1.4375rem",
  radius: "8px",
  radiusSmall: "6px",
  /** The minimum heights of controls. The style sheet sets larger ones for touch screens. */
  control: "2.125rem",
  compact: "1.625rem",
  /** The colors of a state. A class such as `good` sets others. */
  tone: "var(--accent)",
  toneWell: "var(--accent-well)",
  quick: "120ms",
  shadow: "0 12px 32px rgb(0 0 0 / .22)",
  veil: "rgb(0 0 0 / .45)",
  sans: 'system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",sans-serif',
  mono: 'ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace',
} as const;

function declare(name: string, value: string): string {
  return `--${name.replace(/[A-Z]|(?<=[a-z])[0-9]/g, (found) => `-${found.toLowerCase()}`)}:${value};`;
}

/** Custom properties, such as `--bad-well` and `--gap-4`, for style sheets. A page chooses a theme with `data-theme`. */
export function tokens(): string {
  return `:root{color-scheme:light dark;${
    Object.entries(COLORS).map(([name, [light, dark]]) => declare(name, `light-dark(${light},${dark})`)).join(
      "",
    )
  }${
    Object.entries(SIZES).map(([name, value]) => declare(name, value)).join("")
  }}:root[data-theme=light]{color-scheme:light}:root[data-theme=dark]{color-scheme:dark}`;
}
