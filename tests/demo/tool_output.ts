/**
 * Returns the cluster's answer from a tool's text. The answer is between random marks.
 *
 * @throws {Error} if the text has no marks
 */
export function outputOf(text: string): string {
  const [, , length, shown = ""] = /\[output ([0-9a-f]+) (\d+) bytes\]\n([\s\S]*)\[end \1\]/.exec(text) ?? [];
  if (length === undefined) throw new Error(`no output in: ${text}`);
  return new TextDecoder().decode(new TextEncoder().encode(shown).slice(0, Number(length)));
}
