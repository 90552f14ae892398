import { Option } from "commander";
import { removeMember, setValue } from "@gateway/shared/config";
import { ENVELOPE_VERSIONS, type EnvelopeVersion } from "@gateway/shared/envelope";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import type { SignerConfig } from "@gateway/signer/config";
import { once } from "../kit/arguments.ts";
import type { AddCommand } from "../kit/context.ts";
import {
  addChangeOptions,
  CHANGE_HELP,
  type ChangeFlags,
  changeUses,
  runChange,
  type SignerChange,
} from "../kit/signer_change.ts";
import { withHint } from "../kit/output.ts";

interface SealFlags extends ChangeFlags {
  readonly envelope?: EnvelopeVersion;
  readonly domain?: string;
  readonly shim?: string;
}

const SEAL_EXAMPLES = `
Examples:
  broker-ctl host seal web01 --config /etc/gateway/signer.json
  broker-ctl host seal web01 --envelope v1 --domain other-product-v1 --shim other-shim

From the signer's next reload on, sessions on the host are of mode exec, and run only what the signer has signed for
that host, command by command. Install the shim on the host first: without it every command of a session is refused.
A host that was never sealed gets v3, whose envelopes also bind what a command reads. To upgrade a host from v2: run
broker-ctl host install-shim for it (the new shim accepts v2 and v3), then host seal with --envelope v3. v1 is for hosts
that have a shim of another build already, whose domain and name may be others.
${CHANGE_HELP}`;

const UNSEAL_EXAMPLES = `
Examples:
  broker-ctl host unseal web01 --config /etc/gateway/signer.json

From the signer's next reload on, the host takes session certificates that are locked to nothing. How it was sealed
stays in the config, for the next time.
${CHANGE_HELP}`;

const NO_KEY = {
  when: ({ code, message }: AppError) => code === "invalid_config" && message.includes("needs envelope_key"),
  hint:
    '(umask 077; head -c 32 /dev/urandom > pki/envelope.seed) makes a key; then "envelope_key": "pki/envelope.seed"',
};

export const addSeal: AddCommand = (host, context) => {
  addChangeOptions(host.command("seal"))
    .description("Have a host run only what the signer signs, command by command.")
    .argument("<name>", "which")
    .addOption(new Option("--envelope <format>", "what its shim understands").choices(ENVELOPE_VERSIONS))
    .option("--domain <text>", "with v1: the domain of another build's shim", once)
    .option("--shim <command>", "the shim on the host, where it has another name", once)
    .addHelpText("after", SEAL_EXAMPLES)
    .action((name: string, flags: SealFlags, command) =>
      context.run(
        command,
        changeUses(flags),
        () => withHint(NO_KEY, () => runChange(command, context, sealing(name, flags))),
      )
    );
  addChangeOptions(host.command("unseal"))
    .description("Let sessions of a host run what they are sent.")
    .argument("<name>", "which")
    .addHelpText("after", UNSEAL_EXAMPLES)
    .action((name: string, flags: ChangeFlags, command) =>
      context.run(command, changeUses(flags), () => runChange(command, context, unsealing(name)))
    );
};

function sealing(name: string, { envelope: asked, domain, shim }: SealFlags): SignerChange {
  return {
    edit(text, config) {
      const host = hostOf(config, name);
      // Without sealed_exec the host has no shim yet; with it and without envelope the host's shim understands v2.
      const envelope = asked ??
        (host.sealed_exec === undefined && host.envelope === undefined ? "v3" : undefined);
      const values = Object.entries({
        sealed_exec: true,
        envelope,
        envelope_domain: domain,
        shim_command: shim,
      })
        .filter(([, value]) => value !== undefined);
      const edited = values.reduce((text, [key, value]) => setValue(text, ["hosts", name, key], value), text);
      // v1 alone has a domain: that of the format before would keep the config from loading.
      return envelope !== undefined && envelope !== "v1" && domain === undefined
        ? removeMember(edited, ["hosts", name, "envelope_domain"])
        : edited;
    },
    describe(config) {
      const { envelope: format = "v2", envelope_domain, shim_command } = hostOf(config, name);
      return {
        json: { name, sealed: true, envelope: format, envelope_domain, shim_command },
        lines: [
          `host ${quoteText(name)} sealed (envelope ${format})`,
          "sessions that are open are opened anew at their next command, those of mode shell and pty take none",
        ],
      };
    },
  };
}

function unsealing(name: string): SignerChange {
  let wasSealed = false;
  return {
    edit(text, config) {
      wasSealed = hostOf(config, name).sealed_exec === true;
      return wasSealed ? setValue(text, ["hosts", name, "sealed_exec"], false) : text;
    },
    describe: () => ({
      json: { name, sealed: false },
      lines: [`host ${quoteText(name)} ${wasSealed ? "unsealed" : "is not sealed; nothing was changed"}`],
    }),
  };
}

function hostOf({ hosts }: SignerConfig, name: string): SignerConfig["hosts"][string] {
  const host = Object.hasOwn(hosts, name) ? hosts[name] : undefined;
  if (host === undefined) {
    throw new AppError("not_found", `There is no host ${quoteText(name)} in the config`);
  }
  return host;
}
