import assert from "node:assert/strict";
import { styleSheet } from "./mod.ts";
import { COLORS } from "./tokens.ts";

type Use = keyof typeof COLORS;

/** Text and its background: each pair needs a contrast of 4.5 (WCAG 2.2, 1.4.3). */
const TEXT_PAIRS: readonly (readonly [Use, Use])[] = [
  ["text", "page"],
  ["text", "surface"],
  ["text", "well"],
  ["muted", "page"],
  ["muted", "surface"],
  ["muted", "well"],
  ["accent", "page"],
  ["accent", "surface"],
  ["accent", "accentWell"],
  ["onAccent", "accent"],
  ["onApprove", "approve"],
  ["page", "text"],
  ["good", "goodWell"],
  ["bad", "badWell"],
  ["warn", "warnWell"],
  ["idle", "idleWell"],
  ["bad", "surface"],
  ["text", "warnWell"],
];

/** Controls and their background: each pair needs a contrast of 3 (WCAG 2.2, 1.4.11). */
const EDGE_PAIRS: readonly (readonly [Use, Use])[] = [
  ["edge", "surface"],
  ["edge", "page"],
  ["approve", "surface"],
  ["chart2", "surface"],
  ["chart3", "surface"],
  ["chart4", "surface"],
  ["chart5", "surface"],
  ["chart6", "surface"],
  ["chart7", "surface"],
  ["chart8", "surface"],
];

const ROWS = ([[0, "light"], [1, "dark"]] as const).flatMap(([index, scheme]) =>
  [[TEXT_PAIRS, 4.5] as const, [EDGE_PAIRS, 3] as const].flatMap(([pairs, least]) =>
    pairs.map(([front, back]) => ({ index, scheme, front, back, least }))
  )
);

Deno.test.each(ROWS)(
  "$front on $back has a contrast of at least $least in $scheme",
  ({ index, front, back, least }) => {
    const [one, other] = [COLORS[front][index], COLORS[back][index]];
    const contrast = contrastOf(one, other);
    assert.ok(contrast >= least, `${one} on ${other} has ${contrast.toFixed(2)}`);
  },
);

Deno.test("the style sheet uses only declared custom properties, and colors only in their declarations", () => {
  const style = styleSheet();
  const end = style.indexOf("\n");
  const rules = style.slice(end);
  assert.doesNotMatch(rules, /#[0-9a-f]{3,8}\b(?![^{]*\{)|rgb|hsl/i);
  for (const [, name = ""] of rules.matchAll(/var\((--[a-z0-9-]+)\)/g)) {
    assert.ok(style.slice(0, end).includes(`${name}:`), name);
  }
});

/** WCAG 2.2, contrast ratio. */
function contrastOf(one: string, other: string): number {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function luminance(color: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((index) => {
    const part = Number.parseInt(color.slice(index, index + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
