const PLAIN = /^[\w@%+=:,./-]+$/;

/** A word for a POSIX shell: quoted when it holds anything that a shell could take for its own. */
export function quoteWord(word: string): string {
  return PLAIN.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`;
}
