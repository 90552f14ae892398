import { quoteText } from "@gateway/shared/text";
import { invalid } from "./output.ts";
import { removeMember, setValue, type ValuePath } from "@gateway/shared/config";

/** Splits the names of a repeatable flag at commas; one empty value clears. */
export function splitNames(values: readonly string[] | undefined): readonly string[] | undefined {
  return values?.flatMap((value) =>
    value.split(",").map((name) => name.trim()).filter((name) => name !== "")
  );
}

/**
 * Splits the patterns of a repeatable flag at commas; one empty value clears. A comma in braces, parentheses or a class,
 * or after a backslash, is part of its pattern.
 *
 * @throws {AppError} `invalid_request` for `^echo a,b$`: split in two, it would allow every command that starts with
 * `echo a`
 */
export function splitPatterns(values: readonly string[] | undefined, flag: string) {
  return values?.flatMap((value) => {
    const parts = splitAtCommas(value);
    if (value.startsWith("^") && value.endsWith("$") && !parts.every((part) => part.startsWith("^"))) {
      const why = 'a pattern after a comma does not start with "^"';
      const fix = `repeat ${flag} for each pattern, and write a comma that is part of a pattern as "\\,"`;
      throw invalid(`Cannot split ${flag} ${quoteText(value)}: ${why}`, undefined, fix);
    }
    return parts.filter((part) => part.trim() !== "");
  });
}

/** The parts of RE2 syntax that can contain a comma: escapes, classes, repetitions. */
const PARTS_OF_RE2 = /\\Q[^]*?(?:\\E|$)|\\[^]|\[\^?\]?(?:\\[^]|\[:\^?\w+:\]|[^\]\\])*\]?|\{[^{}]*\}|[^]/g;

function splitAtCommas(text: string): readonly string[] {
  const parts = [""];
  let depth = 0;
  for (const [part] of text.matchAll(PARTS_OF_RE2)) {
    if (part === "(") depth += 1;
    if (part === ")") depth -= 1;
    if (part === "," && depth <= 0) parts.push("");
    else parts.push(parts.pop() + part);
  }
  return parts.map(withoutMargin);
}

/** Removes spaces outside the anchors. Other spaces are part of the pattern: `^ls` allows `lsof`, and `^ls ` does not. */
function withoutMargin(pattern: string): string {
  return pattern.replace(/^ +(?=\^)/, "").replace(/(?<=[^\\]\$) +$/, "");
}

/** The fields of an entry that flags give: an absent field stays, an empty one is cleared. */
export type Fields = Readonly<Record<string, unknown>>;

/** Writes fields into an entry; the other fields and the comments stay. */
export function writeFields(
  text: string,
  { path, isNew }: { readonly path: ValuePath; readonly isNew: boolean },
  fields: Fields,
): string {
  if (isNew) return setValue(text, path, withoutEmpty(fields));
  return Object.entries(fields).reduce((text, [key, value]) => {
    if (value === undefined) return text;
    const place = [...path, key];
    if (isEmpty(value)) return removeMember(text, place);
    return isFields(value)
      ? writeFields(text, { path: place, isNew: false }, value)
      : setValue(text, place, value);
  }, text);
}

/** `false` and 0 are values, because a default can differ from them. */
function isEmpty(value: unknown): boolean {
  return value === "" || (Array.isArray(value) && value.length === 0);
}

export function isFields(value: unknown): value is Fields {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function withoutEmpty(fields: Fields): Fields {
  const members = Object.entries(fields).flatMap(([key, value]) => {
    if (value === undefined || isEmpty(value)) return [];
    if (!isFields(value)) return [[key, value] as const];
    const inner = withoutEmpty(value);
    return Object.keys(inner).length === 0 ? [] : [[key, inner] as const];
  });
  return Object.fromEntries(members);
}

/** An entry of a config as YAML. */
export async function describeEntry(name: string, entry: unknown): Promise<readonly string[]> {
  // Only the commands named show need this library.
  const { stringify } = await import("yaml");
  return stringify({ [name]: entry }, { lineWidth: 0 }).trimEnd().split("\n");
}
