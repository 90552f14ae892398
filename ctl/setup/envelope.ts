import { resolve } from "node:path";
import { createEnvelopeKey, envelopePublicKeyText, envelopeSignersLine } from "@gateway/shared/envelope";
import { once } from "../kit/arguments.ts";
import type { AddCommand } from "../kit/context.ts";
import { readOperatorFile } from "../kit/files.ts";

const EXAMPLES = `
Examples:
  broker-ctl envelope pubkey --seed pki/envelope.seed --signers
      the line for /etc/gateway/envelope_signers of hosts with envelope v3 or v2; a shim of before v3 rejects it:
      replace that shim first (broker-ctl host install-shim)
  broker-ctl envelope pubkey --seed pki/envelope.seed
      the line for /etc/gateway/envelope.pub of hosts with envelope v1

To change the key: add the line of the new one to the hosts, let envelope_key name the new seed, broker-ctl reload, and
take the line of the old one away no sooner than five minutes later.
`;

/** `envelope pubkey`: what a sealed host has to know of the signer. */
export const addEnvelope: AddCommand = (program, context) => {
  program.command("envelope").description("The key that signs commands for sealed hosts.")
    .command("pubkey")
    .description("Print the public key of an envelope_key, as hosts keep it.")
    .requiredOption("--seed <file>", "the file that envelope_key names, exactly 32 bytes", once)
    .option("--signers", "as a line of OpenSSH's allowed signers, for envelope v3 and v2")
    .addHelpText("after", EXAMPLES)
    .action((flags: { readonly seed: string; readonly signers?: boolean }, command) =>
      context.run(command, [], async () => {
        const seed = await readOperatorFile(resolve(context.workingFolder, flags.seed), "the seed");
        const key = createEnvelopeKey(seed);
        const [v1, signers] = [envelopePublicKeyText(key), envelopeSignersLine(key)];
        return {
          json: { public_key: v1, envelope_signers: signers },
          lines: [flags.signers === true ? signers : v1],
        };
      })
    );
};
