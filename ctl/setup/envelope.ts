import { resolve } from "node:path";
import { createEnvelopeKey, envelopePublicKeyText, envelopeSignersLine } from "@gateway/shared/envelope";
import { command, type CommandGroup, required } from "../kit/command.ts";
import { readOperatorFile } from "../kit/files.ts";

const PUBKEY = command({
  name: "pubkey",
  summary: "Print the public key of an envelope_key, as hosts keep it.",
  takes: {
    "--seed <file>": required("the file that envelope_key names, exactly 32 bytes"),
    "--signers": "as a line of OpenSSH's allowed signers, for envelope v3 and v2",
  },
  help: `
Examples:
  broker-ctl envelope pubkey --seed pki/envelope.seed --signers
      the line for /etc/gateway/envelope_signers of hosts with envelope v3 or v2; a shim of before v3 rejects it:
      replace that shim first (broker-ctl host install-shim)
  broker-ctl envelope pubkey --seed pki/envelope.seed
      the line for /etc/gateway/envelope.pub of hosts with envelope v1

To change the key: add the line of the new one to the hosts, let envelope_key name the new seed, broker-ctl reload, and
take the line of the old one away no sooner than five minutes later.
`,
  uses: () => [],
  run: async ({ seed, signers = false }, { workingFolder }) => {
    const key = createEnvelopeKey(await readOperatorFile(resolve(workingFolder, seed), "the seed"));
    const json = { public_key: envelopePublicKeyText(key), envelope_signers: envelopeSignersLine(key) };
    return { json, lines: [signers ? json.envelope_signers : json.public_key] };
  },
});

export const ENVELOPE: CommandGroup = {
  name: "envelope",
  summary: "The key that signs commands for sealed hosts.",
  commands: [PUBKEY],
};
