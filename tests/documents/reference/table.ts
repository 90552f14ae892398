import { parse } from "yaml";
import { ROOT } from "../extract.ts";

const read = (name: string) => Deno.readTextFileSync(`${ROOT}tests/documents/reference/${name}`);

/** Texts that no comment in the code can carry, by their kinds. */
export const TEXTS: Readonly<Record<string, Readonly<Record<string, string & readonly string[]>>>> = parse(
  read("texts.yaml"),
);

/** Returns a Markdown table. */
export function table(head: readonly string[], rows: readonly (readonly string[])[]): string {
  const line = (cells: readonly string[]) =>
    `| ${cells.map((each) => each.replaceAll("|", "\\|").replaceAll("\n", " ")).join(" | ")} |`;
  return [line(head), `|${"---|".repeat(head.length)}`, ...rows.map(line)].join("\n");
}

/** Returns a table of texts by name. */
export function textTable(head: readonly string[], kind: string): string {
  return table(
    head,
    Object.entries(TEXTS[kind] ?? {}).map(([name, texts]) => [`\`${name}\``, ...[texts].flat()]),
  );
}

/** Fills the parts of a template: `pages/<name>.md`. */
export function fill(name: string, parts: Readonly<Record<string, string>>): string {
  return read(`pages/${name}.md`).replace(/\{\{(\w+)\}\}/g, (_, part) => parts[part] ?? "");
}
