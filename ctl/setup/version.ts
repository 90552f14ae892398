import { describeVersion, VERSION } from "@gateway/shared/service";
import { command } from "../kit/command.ts";

export const VERSION_COMMAND = command({
  name: "version",
  summary: "Print the version.",
  takes: { "--verbose": "with runtime, platform and source revision" },
  help: `
Examples:
  broker-ctl version
  broker-ctl version --verbose
`,
  uses: () => [],
  run: ({ verbose = false }) =>
    Promise.resolve({
      json: { version: VERSION, deno: Deno.version.deno },
      lines: describeVersion({ verbose }).split("\n"),
    }),
});
