import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { collectBytes, quoteText } from "@gateway/shared/text";
import {
  createEnvelopeKey,
  ENVELOPE_DOMAIN,
  type EnvelopeKey,
  envelopePublicKeyText,
  envelopeSignersLine,
  type EnvelopeVersion,
} from "@gateway/shared/envelope";
import { AppError } from "@gateway/shared/errors";
import type { SignerConfig } from "@gateway/signer/config";
import { once } from "../kit/arguments.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import { formatInstallScript, type InstallOptions, parseSignerKeys } from "./install_script.ts";
import { type CommandResult, HintedError, withHint } from "../kit/output.ts";
import { runOverSsh } from "../kit/over_ssh.ts";
import { readOperatorFile } from "../kit/files.ts";
import { loadSignerHosts } from "../kit/signer_file.ts";

interface InstallFlags {
  readonly config?: string;
  readonly accounts?: string;
  readonly pubkey?: string;
  readonly addPubkey?: string;
  readonly verifier?: string;
  readonly check?: boolean;
  readonly over?: "ssh";
  readonly login?: string;
  readonly bindir?: string;
  readonly sshdConfig?: string;
  readonly pathSymlink: boolean;
}

type Host = SignerConfig["hosts"][string];

const SHIM_COMMAND = "gateway-shim";
const MAX_KEYS_BYTES = 100_000;
/** The line by which a host's shim knows the signer's key. */
const KEY_LINES: Readonly<Record<EnvelopeVersion, (key: EnvelopeKey) => string>> = {
  v1: envelopePublicKeyText,
  v2: envelopeSignersLine,
  v3: envelopeSignersLine,
};

const EXAMPLES = `
Examples:
  broker-ctl host install-shim web01 --config /etc/gateway/signer.json | ssh root@web01 sh
  broker-ctl host install-shim web01 --over ssh
  broker-ctl host install-shim web01 --check --over ssh
  broker-ctl host install-shim web01 --accounts "deploy app" --add-pubkey next.signers --over ssh
  broker-ctl host install-shim old01 --verifier gateway-shim-verify.mjs --over ssh

Prints a program of sh that installs the shim for the host's envelope and then looks whether all is well, or has root on
the host run it. It puts there: the shim in /usr/local/bin with a link in /usr/bin, the signer's key in
/etc/gateway/envelope_signers, the folder of used envelopes, and the group gateway-shim with the accounts in it. --check
changes nothing, and says of each problem how it is mended; it also looks at sshd, whose own ForceCommand would keep
the shim from ever running. Without a key among the options the one of envelope_key is installed.

A host with envelope v1 needs Deno, and --verifier with what "deno bundle --platform=deno -o gateway-shim-verify.mjs
shim/main.ts" writes; its key is in /etc/gateway/envelope.pub.

--over ssh uses the ssh of this machine, its agent and its config, and takes no other host key than the signer's config
has. Another login than root needs sudo without a password.
`;

/** `host install-shim`: what a host has to have before it is sealed. */
export const addInstallShim: AddCommand = (host, context) => {
  host.command("install-shim")
    .description("Print what installs the shim on a host, or have it done there.")
    .argument("<name>", "which")
    .option("--accounts <names>", "the accounts that sessions log in to (default: the host's user)", once)
    .option("--pubkey <file>", "lines of the signer's keys, in place of those on the host; - is stdin", once)
    .option("--add-pubkey <file>", "lines of keys to stand beside those on the host; - is stdin", once)
    .option("--verifier <file>", "for envelope v1: the bundled verifier, gateway-shim-verify.mjs", once)
    .option("--check", "change nothing; say what is to be mended")
    .addOption(new Option("--over <way>", "carry it out on the host").choices(["ssh"]))
    .option("--login <account>", "with --over: whom to log in as (default: root)", once)
    .option("--bindir <folder>", "where the shim goes (default: /usr/local/bin)", once)
    .option("--sshd-config <file>", "what sshd of the host is started with, if not its own", once)
    .option("--no-path-symlink", "make no link in /usr/bin")
    .addHelpText("after", EXAMPLES)
    .action((name: string, _flags, command: Command) =>
      context.run(
        command,
        ["config", "programs"],
        () => installShim(name, command.optsWithGlobals() as InstallFlags, context),
      )
    );
};

async function installShim(
  name: string,
  flags: InstallFlags,
  context: CommandContext,
): Promise<CommandResult> {
  const config = await loadSignerHosts(flags.config, context.workingFolder);
  const host = hostOf(config, name);
  const { envelope: format = "v2" } = host;
  const keys = flags.check === true ? undefined : await findKeys(format, { flags, config, context });
  const script = formatInstallScript({
    format,
    verifier: await readVerifier(format, flags, context),
    accounts: (flags.accounts ?? host.user).split(/\s+/).filter((account) => account !== ""),
    ...keys === undefined ? {} : { keys },
    check: flags.check === true,
    more: [
      ...flags.bindir === undefined ? [] : ["--bindir", flags.bindir],
      ...flags.sshdConfig === undefined ? [] : ["--sshd-config", flags.sshdConfig],
      ...flags.pathSymlink ? [] : ["--no-path-symlink"],
    ],
  });
  if (flags.over === undefined) return { json: { name, script: script.join("\n") }, lines: script };
  const { code, lines } = await runOverSsh(name, host, {
    script: `${script.join("\n")}\n`,
    login: flags.login ?? "root",
  });
  return { json: { name, exit_code: code, output: lines }, lines, failed: code !== 0 };
}

/** @throws {AppError} `not_found` for a host that is not there, `not_supported` for one with another shim */
function hostOf({ hosts }: SignerConfig, name: string): Host {
  const host = Object.hasOwn(hosts, name) ? hosts[name] : undefined;
  if (host === undefined) {
    throw new AppError("not_found", `There is no host ${quoteText(name)} in the config`);
  }
  const { envelope_domain = ENVELOPE_DOMAIN, shim_command = SHIM_COMMAND } = host;
  if (envelope_domain !== ENVELOPE_DOMAIN || shim_command !== SHIM_COMMAND) {
    throw new AppError(
      "not_supported",
      `Host ${quoteText(name)} has envelope_domain ${quoteText(envelope_domain)} and shim_command ` +
        `${quoteText(shim_command)}: what is installed here is ${SHIM_COMMAND} for ${
          quoteText(ENVELOPE_DOMAIN)
        }`,
    );
  }
  return host;
}

/** The verifier that goes to a host with envelope v1; with `check` it is only compared, and need not be given. */
async function readVerifier(
  format: EnvelopeVersion,
  { verifier, check }: InstallFlags,
  { workingFolder }: CommandContext,
): Promise<string | undefined> {
  if (format !== "v1") {
    if (verifier === undefined) return undefined;
    throw new AppError("invalid_request", "Option '--verifier' is for hosts with envelope v1");
  }
  if (verifier !== undefined) {
    const bytes = await readOperatorFile(resolve(workingFolder, verifier), "the verifier");
    return new TextDecoder().decode(bytes);
  }
  if (check === true) return undefined;
  const fault = new AppError("invalid_request", "A host with envelope v1 needs --verifier");
  throw new HintedError(
    fault,
    "deno bundle --platform=deno -o gateway-shim-verify.mjs shim/main.ts writes it",
  );
}

async function findKeys(
  format: EnvelopeVersion,
  { flags: { pubkey, addPubkey }, config: { envelope_key }, context: { workingFolder } }: {
    readonly flags: InstallFlags;
    readonly config: SignerConfig;
    readonly context: CommandContext;
  },
): Promise<InstallOptions["keys"]> {
  if (pubkey !== undefined && addPubkey !== undefined) {
    throw new AppError("invalid_request", "Options '--pubkey' and '--add-pubkey' exclude each other");
  }
  const path = pubkey ?? addPubkey;
  if (path !== undefined) {
    const bytes = path === "-"
      ? await readStdin()
      : await readOperatorFile(resolve(workingFolder, path), "the keys");
    const lines = parseSignerKeys(new TextDecoder().decode(bytes), format);
    return { how: pubkey === undefined ? "add" : "replace", lines };
  }
  const hint = "run it where the seed is, or: --pubkey with the line that broker-ctl envelope pubkey" +
    (format === "v1" ? " prints" : " --signers prints");
  return await withHint({ when: () => true, hint }, async () => {
    if (envelope_key === "") {
      throw new AppError("invalid_config", "There is no envelope_key in the signer's config");
    }
    const seed = await readOperatorFile(resolve(workingFolder, envelope_key), "envelope_key");
    return { how: "replace", lines: [KEY_LINES[format](createEnvelopeKey(seed))] };
  });
}

async function readStdin(): Promise<Uint8Array> {
  const bytes = await collectBytes(Deno.stdin.readable, MAX_KEYS_BYTES);
  if (bytes === undefined) {
    throw new AppError("invalid_config", `Cannot use the keys: over ${MAX_KEYS_BYTES} bytes`);
  }
  return bytes;
}
