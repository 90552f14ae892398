import { z } from "@zod/zod";
import type { AddCommand } from "../context.ts";
import { addRemoteOptions, askSigner, REMOTE_HELP } from "../remote.ts";

const EXAMPLES = `
Examples:
  broker-ctl reload --client-config gateway/broker-ctl.json
  broker-ctl reload --url 10.0.0.9:9443 --cert me.crt --key me.key --ca ca.crt
${REMOTE_HELP}`;

const reloadResponse = z.object({ hosts: z.int(), status: z.string() });

/** `reload`: the signer reads its config again. */
export const addReload: AddCommand = (program, context) => {
  addRemoteOptions(program.command("reload"))
    .description("Have the signer read its config again.")
    .addHelpText("after", EXAMPLES)
    .action((_flags, command) =>
      context.run(command, ["config", "clientConfig"], async () => {
        const { data } = await askSigner(command, context, {
          what: "reload",
          method: "POST",
          path: "/v1/reload",
          schema: reloadResponse,
        });
        const { hosts, status } = data;
        return { json: { hosts, status }, lines: [`signer reloaded via HTTP (hosts: ${hosts})`] };
      })
    );
};
