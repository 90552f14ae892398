/** The seed commands that mutation starts from. The README of the directory lists the criteria for seeds. */
const FOLDER = new URL("../vectors/firewall/", import.meta.url);

/** All commands of the corpus, in the order of its files. */
export async function readCorpus(): Promise<readonly string[]> {
  const texts = await Promise.all(
    ["ordinary.txt", "hostile.txt"].map((name) => Deno.readTextFile(new URL(name, FOLDER))),
  );
  return texts.flatMap((text) => text.split("\n"))
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) =>
      line.replace(/<U\+([0-9A-F]{4,6})>/g, (_, hex) => String.fromCodePoint(parseInt(hex, 16)))
    );
}
