/** The smallest part of a text that still shows what the text showed. */

/**
 * Leaves out stretches, long ones first, as long as what is left still fails. `findFailing` is given many texts
 * at a time, because a shell's start costs more than a text, and names the indexes of those that fail.
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
