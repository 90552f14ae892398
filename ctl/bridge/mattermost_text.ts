import type { Card } from "./card.ts";

/** A card as Markdown; what others wrote is a block of code, in which nothing is markup and nobody is called. */
export function messageOf({ title, lines, note, page, verbs }: Card): string {
  const words = verbs.map((verb) => verb === "learn" ? "`learn 8h` (or another time)" : `\`${verb}\``);
  return [
    `**${title}**`,
    fenced(lines.join("\n")),
    ...(note === "" ? [] : [note]),
    `[All of it, and what became of it](${page})`,
    ...(verbs.length === 0 ? [] : [`Answer in this message's thread with ${words.join(", ")}`]),
  ].join("\n\n");
}

/** A block of code whose fence is longer than any in the text. */
export function fenced(text: string): string {
  const longest = Math.max(2, ...Array.from(text.matchAll(/`+/g), ([run]) => run.length));
  const fence = "`".repeat(longest + 1);
  return `${fence}text\n${text}\n${fence}`;
}
