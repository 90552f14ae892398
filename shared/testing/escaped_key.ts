/** Two texts. After parsing the first, the engine misreads a key of the second. */
export interface EscapedKey {
  /** The text to be parsed first. */
  readonly before: string;
  /** The given text with one key in escaped form. */
  readonly text: string;
}

/** Writes a key of a JSON text with an escape. It must not be the first key of its object. */
export function escapeKey(text: string, key: string): EscapedKey {
  const code = key.charCodeAt(0).toString(16).padStart(4, "0");
  const escaped = `\\u${code}${key.slice(1)}`;
  const replace = (written: string) => text.replace(`"${key}":`, () => `"${written}":`);
  // The engine compares the key's characters up to its length, but in their escaped form.
  return { before: replace(escaped.slice(0, key.length).replaceAll("\\", "\\\\")), text: replace(escaped) };
}
