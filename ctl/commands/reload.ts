import type { AddCommand } from "../context.ts";
import { addRemoteOptions, REMOTE_HELP } from "../remote.ts";
import { askReload } from "../signer_change.ts";

const EXAMPLES = `
Examples:
  broker-ctl reload --client-config gateway/broker-ctl.json
  broker-ctl reload --url 10.0.0.9:9443 --cert me.crt --key me.key --ca ca.crt

It asks over HTTPS (POST /v1/reload), and says whether the signer took the new config; one that can't be used
changes nothing. There is no --pid-file: the signer writes none, its process may be named "deno" like any other,
and the number in such a file can be another process's by the time of the signal. Where HTTPS won't do: whatever
started the signer can send it SIGHUP (systemctl kill --signal=HUP, docker kill --signal=HUP), and with
auto_reload_seconds in its config it looks at the file's time by itself.
${REMOTE_HELP}`;

/** `reload`: the signer reads its config again. */
export const addReload: AddCommand = (program, context) => {
  addRemoteOptions(program.command("reload"))
    .description("Have the signer read its config again.")
    .addHelpText("after", EXAMPLES)
    .action((_flags, command) =>
      context.run(command, ["config", "clientConfig"], async () => {
        const { hosts, status } = await askReload(command, context);
        return { json: { hosts, status }, lines: [`signer reloaded via HTTP (hosts: ${hosts})`] };
      })
    );
};
