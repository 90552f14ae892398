import assert from "node:assert/strict";
import { COLORS, STYLE } from "./style.ts";

type Use = keyof typeof COLORS;

/** Text and what it stands on: each pair has to reach a contrast of 4.5 (WCAG 2.2, 1.4.3). */
const TEXT_PAIRS: readonly (readonly [Use, Use])[] = [
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
const EDGE_PAIRS: readonly (readonly [Use, Use])[] = [
  ["edge", "surface"],
  ["edge", "page"],
  ["focus", "surface"],
  ["focus", "page"],
  ["approve", "surface"],
  ["onDeny", "surface"],
];

const ROWS = ([[0, "light"], [1, "dark"]] as const).flatMap(([index, scheme]) =>
  [[TEXT_PAIRS, 4.5] as const, [EDGE_PAIRS, 3] as const].flatMap(([pairs, least]) =>
    pairs.map(([front, back]) => ({ index, scheme, front, back, least }))
  )
);

Deno.test.each(ROWS)(
  "$front on $back has a contrast of $least in $scheme",
  ({ index, front, back, least }) => {
    const [one, other] = [COLORS[front][index], COLORS[back][index]];
    const contrast = contrastOf(one, other);
    assert.ok(contrast >= least, `${one} on ${other} has ${contrast.toFixed(2)}`);
  },
);

Deno.test("the style sheet names no colour that is not in the palettes, and no palette colour that is missing", () => {
  const rules = STYLE.replace(/:root\{[^}]*\}/g, "");
  assert.doesNotMatch(rules, /#[0-9a-f]{3,8}\b(?![^{]*\{)|rgb|hsl/i);
  const names = Object.keys(COLORS).map((name) =>
    name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
  );
  for (const [, name = ""] of rules.matchAll(/var\(--([a-z-]+)\)/g)) assert.ok(names.includes(name), name);
});

/** WCAG 2.2, contrast ratio. */
function contrastOf(one: string, other: string): number {
  const [low = 0, high = 0] = [luminance(one), luminance(other)].sort((a, b) => a - b);
  return (high + 0.05) / (low + 0.05);
}

function luminance(colour: string): number {
  const [red = 0, green = 0, blue = 0] = [1, 3, 5].map((index) => {
    const part = Number.parseInt(colour.slice(index, index + 2), 16) / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
}
