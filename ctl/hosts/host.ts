import type { ClientSection } from "../kit/client_config.ts";
import type { AddCommand } from "../kit/context.ts";
import { formatHosts, hostSummaries } from "./host_table.ts";
import { addRemoteOptions, askSigner, refuseRemoteFlags, REMOTE_HELP } from "../kit/remote.ts";
import { loadSignerHosts } from "../kit/signer_file.ts";
import { addHostChanges } from "./add.ts";
import { addHostEnrol } from "./enrol.ts";
import { addHostKrl } from "./krl.ts";
import { addInstallShim } from "./install_shim.ts";
import { addSeal } from "./seal.ts";

interface ListFlags extends ClientSection {
  readonly remote?: boolean;
}

const LIST_EXAMPLES = `
Examples:
  broker-ctl host list --config /etc/gateway/signer.json
  broker-ctl host list --remote
  broker-ctl host list --remote --json

Without --remote it reads the signer's config; with it, it asks the running signer, whose policy may be another.
POLICY is the host's own; broker-ctl policy explain shows those of its groups too. A terminal too narrow for the
table gets a paragraph for each host; --json has all of a long list of names.
${REMOTE_HELP}`;

/** `host`: the hosts, what is allowed on them, and how they are sealed. */
export const addHost: AddCommand = (program, context) => {
  const host = program.command("host").description("See, change and seal the hosts.");
  addHostChanges(host, context);
  addHostEnrol(host, context);
  addInstallShim(host, context);
  addSeal(host, context);
  addHostKrl(host, context);
  addRemoteOptions(
    host.command("list").option("--remote", "ask the running signer instead of reading its config"),
  )
    .description("List the hosts of the signer's config, or of the running signer.")
    .addHelpText("after", LIST_EXAMPLES)
    .action((flags: ListFlags, command) => {
      if (flags.remote !== true) {
        return context.run(command, ["config"], async () => {
          refuseRemoteFlags(flags);
          const { config } = command.optsWithGlobals() as { readonly config?: string };
          const { hosts } = await loadSignerHosts(config, context.workingFolder);
          return { json: hosts, lines: formatHosts(hosts, context.terminal.columns) };
        });
      }
      return context.run(command, ["config", "clientConfig"], async () => {
        const { body, data } = await askSigner(command, context, {
          what: "host list",
          method: "GET",
          path: "/v1/policy/hosts",
          schema: hostSummaries,
        });
        return { json: body, lines: formatHosts(data, context.terminal.columns) };
      });
    });
};
