/**
 * What a cluster answered, of a tool's text: it stands between marks that nobody can guess.
 *
 * @throws {Error} when the text has none
 */
export function outputOf(text: string): string {
  const [, , length, shown = ""] = /\[output ([0-9a-f]+) (\d+) bytes\]\n([\s\S]*)\[end \1\]/.exec(text) ?? [];
  if (length === undefined) throw new Error(`no output in: ${text}`);
  return new TextDecoder().decode(new TextEncoder().encode(shown).slice(0, Number(length)));
}
