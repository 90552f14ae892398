import { removeMember, setValue } from "@gateway/shared/config";
import { ENVELOPE_VERSIONS } from "@gateway/shared/envelope";
import type { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { oneOf } from "../kit/command.ts";
import { changing } from "../kit/signer_change.ts";
import { hostOf } from "./add.ts";

const NO_KEY = {
  when: ({ code, message }: AppError) => code === "invalid_config" && message.includes("needs envelope_key"),
  hint:
    '(umask 077; head -c 32 /dev/urandom > pki/envelope.seed) makes a key; then "envelope_key": "pki/envelope.seed"',
};

export const SEAL = changing({
  name: "seal",
  summary: "Have a host run only what the signer signs, command by command.",
  takes: {
    "<name>": "which",
    "--envelope <format>": oneOf(ENVELOPE_VERSIONS, "what its shim understands"),
    "--domain <text>": "with v1: the domain of another build's shim",
    "--shim <command>": "the shim on the host, where it has another name",
  },
  help: `
Examples:
  broker-ctl host seal web01 --config /etc/gateway/signer.json
  broker-ctl host seal web01 --envelope v1 --domain other-product-v1 --shim other-shim

From the signer's next reload on, sessions on the host are of mode exec, and run only what the signer has signed for
that host, command by command. Install the shim on the host first: without it every command of a session is refused.
A host that was never sealed gets v3, whose envelopes also bind what a command reads. To upgrade a host from v2: run
broker-ctl host install-shim for it (the new shim accepts v2 and v3), then host seal with --envelope v3. v1 is for hosts
that have a shim of another build already, whose domain and name may be others.
`,
  advice: NO_KEY,
  change: ({ name, envelope: wanted, domain, shim }) => ({
    edit(text, config) {
      const host = hostOf(config, name);
      // Without sealed_exec the host has no shim yet; with it and without envelope the host's shim understands v2.
      const envelope = wanted ??
        (host.sealed_exec === undefined && host.envelope === undefined ? "v3" : undefined);
      const values = { sealed_exec: true, envelope, envelope_domain: domain, shim_command: shim };
      const edited = Object.entries(values).reduce(
        (text, [key, value]) => value === undefined ? text : setValue(text, ["hosts", name, key], value),
        text,
      );
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
  }),
});

export const UNSEAL = changing({
  name: "unseal",
  summary: "Let sessions of a host run what they are sent.",
  takes: { "<name>": "which" },
  help: `
Examples:
  broker-ctl host unseal web01 --config /etc/gateway/signer.json

From the signer's next reload on, the host takes session certificates that are locked to nothing. How it was sealed
stays in the config, for the next time.
`,
  change({ name }) {
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
  },
});
