/**
 * Writes the help of each command to a page: `deno task docs:commands`.
 *
 * @module
 */
import type { Command } from "commander";
import { helpOf, PROGRAMS } from "./programs.ts";

/** The pages by their paths from the root of the workspace. */
export function commandPages(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(PROGRAMS).map(([name, program]) => [`deploy/docs/commands-${name}.md`, pageOf(program)]),
  );
}

function pageOf(program: Command): string {
  const sections = listCommands(program, []).map(({ path, command }) =>
    `## ${path}\n\n\`\`\`text\n${helpOf(command).trim().replace(/[ \t]+$/gm, "")}\n\`\`\`\n`
  );
  const title =
    `# Commands of ${program.name()}\n\nWritten by \`deno task docs:commands\` from \`--help\`.\n`;
  return [title, ...sections].join("\n");
}

/** All commands; a group precedes its commands. */
function listCommands(
  command: Command,
  parents: readonly string[],
): readonly { readonly path: string; readonly command: Command }[] {
  const words = [...parents, command.name()];
  return [
    { path: words.join(" "), command },
    ...command.commands.flatMap((each) => listCommands(each, words)),
  ];
}

if (import.meta.main) {
  const root = new URL("../../", import.meta.url);
  for (const [path, text] of Object.entries(commandPages())) {
    await Deno.writeTextFile(new URL(path, root), text);
  }
}
