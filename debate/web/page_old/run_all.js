/**
 * Runs all functions and returns the number of failures. Records can be edited or imported, and a server can
 * be newer than the page. A failure in one part must not hide the other parts.
 * @param {readonly (() => void)[]} parts
 */
export function runAll(...parts) {
  let broken = 0;
  for (const part of parts) {
    try {
      part();
    } catch {
      broken += 1;
    }
  }
  return broken;
}
