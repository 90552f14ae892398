import fc from "fast-check";

/** A JSON text in an unusual notation, and its value. */
export interface WrittenJson {
  readonly text: string;
  readonly value: unknown;
}

/** Characters that have escapes or appear in escapes. */
const character = fc.constantFrom(
  "a",
  "b",
  "\\",
  '"',
  "u",
  "0",
  "6",
  "1",
  "n",
  "/",
  "\n",
  "\u00e9",
  "\u{1f600}",
);
const key = fc.oneof(
  fc.array(character, { maxLength: 3 }).map((characters) => characters.join("")),
  fc.constantFrom("__proto__", "constructor", "toString", "0", "10", "", "\\u0061"),
);
const blank = fc.constantFrom("", "", "", " ", "\n\t", "\r ");

/** A string whose characters are each written literally or in one of their escaped forms. */
function written(text: string): fc.Arbitrary<string> {
  const parts = text.split("").map((character) => {
    const code = character.charCodeAt(0).toString(16).padStart(4, "0");
    const short = JSON.stringify(character).slice(1, -1);
    return fc.constantFrom(short, short, `\\u${code}`, `\\u${code.toUpperCase()}`);
  });
  return fc.tuple(...parts).map((spellings) => `"${spellings.join("")}"`);
}

const string = key.chain((value) => written(value).map((text) => ({ text, value })));

const number = fc.constantFrom(
  ...[0, -0, 7, -1.5, 1e21, 5e-7].map((value) => ({
    text: Object.is(value, -0) ? "-0" : String(value),
    value,
  })),
  { text: "1E+2", value: 100 },
);

/** Texts with escaped keys and strings, duplicate keys, and objects with equal beginnings. */
export const writtenJson: fc.Arbitrary<WrittenJson> = fc.letrec<{ value: WrittenJson }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 4 },
    string,
    number,
    fc.constantFrom(...[true, false, null].map((value) => ({ text: String(value), value }))),
    fc.array(fc.tuple(blank, tie("value"), blank), { maxLength: 3 }).map((entries) => ({
      text: `[${entries.map(([before, { text }, after]) => before + text + after).join(",")}]`,
      value: entries.map(([, { value }]) => value),
    })),
    fc.array(fc.tuple(blank, string, blank, tie("value")), { maxLength: 4 }).map((entries) => ({
      text: `{${entries.map(([before, { text }, after, { text: of }]) => `${before}${text}${after}:${of}`)}}`,
      value: objectOf(entries.map(([, { value }, , { value: of }]) => [value, of])),
    })),
  ),
})).value;

/** The last value of equal keys is kept at the position of the first. `__proto__` is an ordinary key. */
function objectOf(entries: readonly (readonly [string, unknown])[]): object {
  const object = {};
  for (const [name, value] of entries) {
    Object.defineProperty(object, name, { value, writable: true, enumerable: true, configurable: true });
  }
  return object;
}
