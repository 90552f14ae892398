import type FastCheck from "fast-check";

/**
 * The `unit` of strings of any characters, including lone surrogates. A third of them is ASCII. The unit
 * "binary" contains almost no ASCII and takes a second to prepare.
 *
 * @param fc the caller's fast-check, so that other tests need not load it
 */
export function anyCharacter(fc: typeof FastCheck): FastCheck.Arbitrary<string> {
  const code = fc.oneof(fc.nat(0x7f), fc.nat(0xffff), fc.nat(0x10ffff));
  return code.map((one) => String.fromCodePoint(one), toCode);
}

/** Like {@linkcode anyCharacter} without lone surrogates, for formats that cannot contain them. */
export function wholeCharacter(fc: typeof FastCheck): FastCheck.Arbitrary<string> {
  return anyCharacter(fc).map((unit) => unit.toWellFormed(), String);
}

function toCode(unit: unknown): number {
  const code = typeof unit === "string" ? unit.codePointAt(0) : undefined;
  if (code === undefined || unit !== String.fromCodePoint(code)) throw new TypeError("Not one character");
  return code;
}
