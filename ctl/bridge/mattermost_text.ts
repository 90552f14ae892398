import type { Card } from "./card.ts";

/** How long a row of a block of code is, in characters. */
export const LONGEST_ROW = 100;
/** No line of a card begins with it, so that no row that goes on passes for one. */
const GOES_ON = `${" ".repeat(9)}↳ `;

/** A card as Markdown; what others wrote is a block of code, in which nothing is markup and nobody is called. */
export function messageOf({ title, lines, note, page, verbs }: Card): string {
  const words = verbs.map((verb) => verb === "learn" ? "`learn 8h` (or another time)" : `\`${verb}\``);
  return [
    `**${title}**`,
    fenced(lines.flatMap(breakLine).join("\n")),
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

/** Blocks of code are not broken by Mattermost: what is beyond their right edge is not seen. */
function breakLine(line: string): readonly string[] {
  const characters = Array.from(line);
  const rows = [characters.slice(0, LONGEST_ROW).join("")];
  const length = LONGEST_ROW - GOES_ON.length;
  for (let start = LONGEST_ROW; start < characters.length; start += length) {
    rows.push(GOES_ON + characters.slice(start, start + length).join(""));
  }
  return rows;
}
