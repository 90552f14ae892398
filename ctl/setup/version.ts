import { describeVersion, VERSION } from "@gateway/shared/service";
import type { AddCommand } from "../kit/context.ts";

const EXAMPLES = `
Examples:
  broker-ctl version
  broker-ctl version --verbose
`;

export const addVersion: AddCommand = (program, context) => {
  program.command("version")
    .description("Print the version.")
    .option("--verbose", "with runtime, platform and source revision")
    .addHelpText("after", EXAMPLES)
    .action((options: { readonly verbose?: boolean }, command) =>
      context.run(command, [], () => {
        const text = describeVersion({ verbose: options.verbose === true });
        return Promise.resolve({
          json: { version: VERSION, deno: Deno.version.deno },
          lines: text.split("\n"),
        });
      })
    );
};
