/**
 * Does each of some things. A record may be made by hand or come from elsewhere, and a server may be newer than the page:
 * what goes wrong in one of them keeps none of the others from being done. Returns how many went wrong.
 *
 * @param {readonly (() => void)[]} parts
 */
export function doEach(...parts) {
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
