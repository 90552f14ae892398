/** Finds the smallest part of a text that still fails. */

/**
 * Removes parts of the text, long ones first, while the rest still fails. `findFailing` receives many texts
 * per call, because starting a shell costs more than a text. It returns the indexes of the failing texts.
 */
export async function minimise(
  text: string,
  findFailing: (texts: readonly string[]) => Promise<readonly number[]>,
): Promise<string> {
  let smallest = Array.from(text);
  for (let length = Math.ceil(smallest.length / 2); length >= 1;) {
    const shorter = smallest.map((_, start) => smallest.toSpliced(start, length)).filter((each) =>
      each.length > 0
    );
    const [first] = await findFailing(shorter.map((each) => each.join("")));
    if (first !== undefined) smallest = shorter[first]!;
    else if (length === 1) break;
    else length = Math.floor(length / 2);
  }
  return smallest.join("");
}
