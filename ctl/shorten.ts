/** So many characters of one value are shown in a list: a command can have tens of thousands. */
export const LONGEST_LISTED = 400;

/** So many names of one value are shown in a list. */
const MOST_NAMES = 8;

/** A value as a list shows it. */
interface ListedText {
  /** Its first characters; all of them unless it was cut. */
  readonly shown: string;
  /** Where it was cut, what to say of it, such as `first 400 of 61440 characters`; undefined: it is whole. */
  readonly cut: string | undefined;
}

/** The beginning of a text that is too long for a list; characters are not cut in two. */
export function shorten(text: string): ListedText {
  const characters = [...text];
  if (characters.length <= LONGEST_LISTED) return { shown: text, cut: undefined };
  const cut = `first ${LONGEST_LISTED} of ${characters.length} characters`;
  return { shown: characters.slice(0, LONGEST_LISTED).join(""), cut };
}

/** The same as one text, the mark at its end: `…[first 400 of 61440 characters]`. */
export function shortenText(text: string): string {
  const { shown, cut } = shorten(text);
  return cut === undefined ? shown : `${shown}…[${cut}]`;
}

/** Names with commas; of more than eight the first ones, and how many are not shown. */
export function joinNames(names: readonly string[]): string {
  if (names.length <= MOST_NAMES) return names.join(",");
  return `${names.slice(0, MOST_NAMES).join(",")},…[first ${MOST_NAMES} of ${names.length}]`;
}
