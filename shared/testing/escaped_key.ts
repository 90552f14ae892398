/** Two texts, of which the first changes what the engine takes the second for. */
export interface EscapedKey {
  /** The text to be parsed first. */
  readonly before: string;
  /** The text that was given, with a key written in another way. */
  readonly text: string;
}

/** Writes a key of a JSON text with an escape; it must not be the first key of its object. */
export function escapeKey(text: string, key: string): EscapedKey {
  const code = key.charCodeAt(0).toString(16).padStart(4, "0");
  const escaped = `\\u${code}${key.slice(1)}`;
  const replace = (written: string) => text.replace(`"${key}":`, () => `"${written}":`);
  // The engine compares as many characters of the key as it has, but of the key as it is written.
  return { before: replace(escaped.slice(0, key.length).replaceAll("\\", "\\\\")), text: replace(escaped) };
}
