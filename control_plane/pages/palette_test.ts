import assert from "node:assert/strict";
import { DARK, EDGE_PAIRS, LIGHT, type Palette, TEXT_PAIRS } from "./palette.ts";
import { STYLE } from "./style.ts";

const PALETTES = [{ scheme: "light", palette: LIGHT }, { scheme: "dark", palette: DARK }];
const ROWS = PALETTES.flatMap(({ scheme, palette }) =>
  [[TEXT_PAIRS, 4.5] as const, [EDGE_PAIRS, 3] as const].flatMap(([pairs, least]) =>
    pairs.map(([front, back]) => ({ scheme, palette, front, back, least }))
  )
);

Deno.test.each(ROWS)(
  "$front on $back has a contrast of $least in $scheme",
  ({ palette, front, back, least }) => {
    const contrast = contrastOf(palette[front], palette[back]);
    assert.ok(contrast >= least, `${palette[front]} on ${palette[back]} has ${contrast.toFixed(2)}`);
  },
);

Deno.test("the style sheet names no colour that is not in the palettes, and no palette colour that is missing", () => {
  const rules = STYLE.replace(/:root\{[^}]*\}/g, "");
  assert.doesNotMatch(rules, /#[0-9a-f]{3,8}\b(?![^{]*\{)|rgb|hsl/i);
  const names = Object.keys(LIGHT).map((name) =>
    name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)
  );
  for (const [, name = ""] of rules.matchAll(/var\(--([a-z-]+)\)/g)) assert.ok(names.includes(name), name);
});

/** WCAG 2.2, contrast ratio. */
function contrastOf(one: Palette[keyof Palette], other: Palette[keyof Palette]): number {
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
