export interface Named {
  /** What stands between backquotes in running text and tables. */
  readonly spans: readonly string[];
  readonly links: readonly string[];
  /** The command lines of its `sh` blocks, continuations joined. */
  readonly commands: readonly string[];
}

const FENCE = /^ *```(?<language>\w*)\n(?<text>.*?)^ *```$/gms;

/** Reads what a document names; blocks in another language than `sh` are left out. */
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

/** The lines of a block, continuations joined. */
export function readCommands(block: string): string[] {
  return block.replace(/\\\n/g, " ").split("\n");
}

/** The words of a command line as far as its first comment, pipe or redirection; quotes join and are dropped. */
export function wordsOf(command: string): string[] {
  const words = command.match(/(?:"[^"]*"|'[^']*'|[^\s"'])+/g) ?? [];
  const end = words.findIndex((word) => /^[#>|]/.test(word));
  return words.slice(0, end === -1 ? undefined : end).map((word) => word.replace(/["']/g, ""));
}
