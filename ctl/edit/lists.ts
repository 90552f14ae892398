import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/quote";

/** Names with commas between, from a flag that may be repeated; one empty value clears. */
export function splitNames(values: readonly string[] | undefined): readonly string[] | undefined {
  return values?.flatMap((value) =>
    value.split(",").map((name) => name.trim()).filter((name) => name !== "")
  );
}

/**
 * Patterns with commas between, from a flag that may be repeated; one empty value clears. A comma in brackets, or
 * behind a backslash, belongs to its pattern.
 *
 * @throws {AppError} `invalid_request` where a comma may be meant either way: cut in two, `^echo a,b$` would allow all
 * that begins with `echo a`
 */
export function splitPatterns(
  values: readonly string[] | undefined,
  flag: string,
): readonly string[] | undefined {
  return values?.flatMap((value) => {
    const parts = splitAtCommas(value);
    const isAnchored = (text: string) => text.startsWith("^") && text.endsWith("$");
    if (parts.length > 1 && (isAnchored(value) || value.startsWith("^")) && !parts.every(isAnchored)) {
      throw new AppError(
        "invalid_request",
        `Cannot tell where the patterns of ${flag} ${
          quoteText(value)
        } end: repeat the flag for each of them, ` +
          "and write a comma that belongs to one as \\,",
      );
    }
    return parts.filter((part) => part.trim() !== "");
  });
}

/** A comma that a pattern of RE2 has for itself is in braces, brackets or parentheses, or escaped. */
function splitAtCommas(text: string): readonly string[] {
  const parts: string[] = [];
  let [start, depth] = [0, 0];
  for (let index = 0; index < text.length; index++) {
    const letter = text[index] ?? "";
    if (letter === "\\") index += 1;
    else if ("([{".includes(letter)) depth += 1;
    else if (")]}".includes(letter)) depth -= 1;
    else if (letter === "," && depth <= 0) {
      parts.push(text.slice(start, index));
      start = index + 1;
    }
  }
  return [...parts, text.slice(start)].map(withoutMargin);
}

/** Blanks outside the anchors are between patterns; others are the pattern's: `^ls` allows `lsof`, and `^ls ` does not. */
function withoutMargin(pattern: string): string {
  return pattern.replace(/^ +(?=\^)/, "").replace(/(?<=[^\\]\$) +$/, "");
}
