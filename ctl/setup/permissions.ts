import { shellQuote } from "@gateway/shared/text";
import { Argument, Option } from "commander";
import { BROKER_FRONTENDS, type BrokerFrontend } from "@gateway/broker/permissions";
import { formatJson } from "@gateway/shared/permissions";
import type { AddCommand } from "../kit/context.ts";
import { hintMissingConfig } from "../kit/output.ts";
import { derivePermissions, type Service, SERVICES } from "./service_permissions.ts";

const EXAMPLES = `
Examples:
  broker-ctl permissions signer --config /etc/gateway/signer.json
  broker-ctl permissions control-plane --config /etc/gateway/control-plane.json
  broker-ctl permissions broker --config /etc/gateway/config.json --frontend serve-mcp

  eval deno run "$(broker-ctl permissions signer --config signer.json)" signer/main.ts --config signer.json

The same config always gives the same flags: the files it names, its listeners, what it connects to, and
nothing else. A broker with a signer may connect to any address unless its config sets "networks" or
"api_servers".
`;

const DEFAULT_CONFIG: Readonly<Record<Service, string>> = {
  signer: "signer.json",
  "control-plane": "control-plane.json",
  broker: "config.json",
};

/** `permissions`: the exact permissions of a service, from its config. */
export const addPermissions: AddCommand = (program, context) => {
  program.command("permissions")
    .description("Show what a service's process may do, as flags for deno run and deno compile.")
    .addArgument(new Argument("<service>", "whose").choices(SERVICES))
    .addOption(
      new Option("--frontend <frontend>", "how agents reach the broker").choices(BROKER_FRONTENDS)
        .default("serve-http"),
    )
    .addHelpText("after", EXAMPLES)
    .action((service: Service, options: { readonly frontend: BrokerFrontend }, command) =>
      context.run(command, ["config"], async () => {
        const { config } = command.optsWithGlobals() as { readonly config?: string };
        const configPath = config ?? DEFAULT_CONFIG[service];
        const { workingFolder } = context;
        const { frontend } = options;
        const { set, flags } = await hintMissingConfig(() =>
          derivePermissions({ service, configPath, workingFolder, frontend })
        );
        return {
          json: { service, flags, permissions: formatJson(set) },
          lines: [flags.map(quoteFlag).join(" ")],
        };
      })
    );
};

/** Only the value is quoted: the name and its `=` are as they stand in the manual. */
function quoteFlag(flag: string): string {
  const [name = "", ...value] = flag.split("=");
  return value.length === 0 ? name : `${name}=${shellQuote(value.join("="))}`;
}
