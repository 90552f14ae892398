/** The unchanged lines around a change. */
const CONTEXT = 3;

/** The difference as `diff -u` shows it, in one block: an edit is in one place. */
export function diffLines(before: string, after: string, name: string): readonly string[] {
  if (before === after) return [];
  const [old, next] = [before.split("\n"), after.split("\n")];
  let start = 0;
  while (start < old.length && start < next.length && old[start] === next[start]) start += 1;
  let end = 0;
  const longest = Math.min(old.length, next.length) - start;
  while (end < longest && old[old.length - 1 - end] === next[next.length - 1 - end]) end += 1;
  const from = Math.max(0, start - CONTEXT);
  const tail = Math.max(0, end - CONTEXT);
  const lead = old.slice(from, start);
  const rest = old.slice(old.length - end, old.length - tail);
  const size = (lines: readonly string[]) => lines.length - from - tail;
  return [
    `--- ${name}`,
    `+++ ${name}`,
    `@@ -${from + 1},${size(old)} +${from + 1},${size(next)} @@`,
    ...lead.map((line) => ` ${line}`),
    ...old.slice(start, old.length - end).map((line) => `-${line}`),
    ...next.slice(start, next.length - end).map((line) => `+${line}`),
    ...rest.map((line) => ` ${line}`),
  ];
}
