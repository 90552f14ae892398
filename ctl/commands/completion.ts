import { Argument } from "commander";
import { COMPLETION_SHELLS, type CompletionShell, formatCompletion } from "../completion.ts";
import type { AddCommand } from "../context.ts";

const EXAMPLES = `
Examples:
  source <(broker-ctl completion bash)
  broker-ctl completion zsh > "\${fpath[1]}/_broker-ctl"
  broker-ctl completion fish > ~/.config/fish/completions/broker-ctl.fish
`;

export const addCompletion: AddCommand = (program, context) => {
  program.command("completion")
    .description("Print a program for a shell that completes commands and options.")
    .addArgument(new Argument("<shell>", "which").choices(COMPLETION_SHELLS))
    .addHelpText("after", EXAMPLES)
    .action((shell: CompletionShell, _flags, command) =>
      context.run(command, [], () => {
        const lines = formatCompletion(shell, program, program.name());
        return Promise.resolve({ json: { shell, script: lines.join("\n") }, lines });
      })
    );
};
