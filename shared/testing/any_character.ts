import type FastCheck from "fast-check";

/**
 * The `unit` of strings of any characters, also of lone surrogates. A third of them is ASCII, of which the unit
 * "binary" has next to nothing; and that one takes a second to prepare.
 *
 * @param fc fast-check, which is the caller's so that other tests need not load it
 */
export function anyCharacter(fc: typeof FastCheck): FastCheck.Arbitrary<string> {
  const code = fc.oneof(fc.nat(0x7f), fc.nat(0xffff), fc.nat(0x10ffff));
  return code.map((one) => String.fromCodePoint(one), toCode);
}

/** Without lone surrogates, for what can't hold them. */
export function wholeCharacter(fc: typeof FastCheck): FastCheck.Arbitrary<string> {
  return anyCharacter(fc).map((unit) => unit.toWellFormed(), String);
}

function toCode(unit: unknown): number {
  const code = typeof unit === "string" ? unit.codePointAt(0) : undefined;
  if (code === undefined || unit !== String.fromCodePoint(code)) throw new TypeError("Not one character");
  return code;
}
