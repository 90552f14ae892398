import { BROKER_FRONTENDS } from "@gateway/broker/permissions";
import { formatJson } from "@gateway/shared/permissions";
import { shellQuote } from "@gateway/shared/text";
import { command, oneOf } from "../kit/command.ts";
import { hintMissingConfig } from "../kit/output.ts";
import { derivePermissions, SERVICES, TARGETS } from "./service_permissions.ts";

const FRONTEND = "serve-http";

export const PERMISSIONS = command({
  name: "permissions",
  summary: "Show what a service's process may do, as flags for deno run and deno compile.",
  takes: {
    "<service>": oneOf(SERVICES, "whose"),
    "--frontend <frontend>": {
      ...oneOf(BROKER_FRONTENDS, "how agents reach the broker"),
      fallback: FRONTEND,
    },
  },
  help: `
Examples:
  broker-ctl permissions signer --config /etc/gateway/signer.json
  broker-ctl permissions control-plane --config /etc/gateway/control-plane.json
  broker-ctl permissions broker --config /etc/gateway/config.json --frontend serve-mcp

  eval deno run "$(broker-ctl permissions signer --config signer.json)" signer/main.ts --config signer.json

The same config always gives the same flags: the files it names, its listeners, what it connects to, and
nothing else. A broker with a signer may connect to any address unless its config sets "networks" or
"api_servers".
`,
  run: async ({ service, frontend = FRONTEND, config }, { workingFolder }) => {
    const configPath = config ?? TARGETS[service].config;
    const { set, flags } = await hintMissingConfig(() =>
      derivePermissions({ service, configPath, workingFolder, frontend })
    );
    return {
      json: { service, flags, permissions: formatJson(set) },
      lines: [flags.map(quoteFlag).join(" ")],
    };
  },
});

function quoteFlag(flag: string): string {
  const [name = "", ...value] = flag.split("=");
  return value.length === 0 ? name : `${name}=${shellQuote(value.join("="))}`;
}
