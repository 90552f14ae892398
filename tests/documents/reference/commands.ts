/** The help of each command as a page. */
import type { Command } from "commander";
import { helpOf, PROGRAMS } from "../programs.ts";

/** The pages by name. */
export function commandPages(): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.entries(PROGRAMS).map(([name, program]) => [`commands-${name}.md`, pageOf(program)]),
  );
}

function pageOf(program: Command): string {
  const sections = listCommands(program, []).map(({ path, command }) =>
    `## ${path}\n\n\`\`\`text\n${helpOf(command).trim().replace(/[ \t]+$/gm, "")}\n\`\`\`\n`
  );
  const title = `# Commands of ${program.name()}\n`;
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
