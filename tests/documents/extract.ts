/** The root directory of the workspace, with a slash at its end. */
export const ROOT = new URL("../../", import.meta.url).pathname;

const NOT_OURS = new Set(["node_modules", "dist", "coverage"]);

/** Returns the paths of all files of the workspace. */
export function listFiles(directory = ""): string[] {
  return [...Deno.readDirSync(`${ROOT}${directory}`)].flatMap(({ name, isDirectory }) => {
    if ((isDirectory && name.startsWith(".")) || NOT_OURS.has(name)) return [];
    return isDirectory ? listFiles(`${directory}${name}/`) : [`${directory}${name}`];
  });
}

export interface Named {
  /** Code spans of text and tables. */
  readonly spans: readonly string[];
  readonly links: readonly string[];
  /** Command lines of the `sh` blocks, continuations joined. */
  readonly commands: readonly string[];
}

const FENCE = /^ *```(?<language>\w*)\n(?<text>.*?)^ *```$/gms;

/** Reads the spans, links and commands of a document. Blocks in other languages than `sh` are ignored. */
export function readNamed(markdown: string): Named {
  const blocks = [...markdown.matchAll(FENCE)].flatMap(({ groups }) =>
    groups?.["language"] === "sh" ? [groups["text"] ?? ""] : []
  );
  const text = markdown.replace(FENCE, "");
  return {
    spans: [...text.matchAll(/`([^`]+)`/g)].map(([, span = ""]) => span.replace(/\s+/g, " ").trim()),
    links: [...text.matchAll(/\]\(([^)\s]+)\)/g)].map(([, target = ""]) => target),
    commands: blocks.flatMap(readCommands),
  };
}

/** Returns the lines of a block, continuations joined. */
export function readCommands(block: string): string[] {
  return block.replace(/\\\n/g, " ").split("\n");
}

/** Returns the words of a command line up to the first comment, pipe or redirection, without quotes. */
export function wordsOf(command: string): string[] {
  const words = command.match(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g) ?? [];
  const end = words.findIndex((word) => /^[#>|]/.test(word));
  return words.slice(0, end === -1 ? undefined : end).map((word) => word.replace(/["']/g, ""));
}
