import { resolve } from "node:path";
import { INSTALLER_TEXT, SHIM_TEXT, SHIM_V1_TEXT } from "@gateway/shim/texts";
import {
  createEnvelopeKey,
  ENVELOPE_DOMAIN,
  envelopePublicKeyText,
  envelopeSignersLine,
  type EnvelopeVersion,
} from "@gateway/shared/envelope";
import { AppError } from "@gateway/shared/errors";
import { collectBytes, quoteText, singleQuote } from "@gateway/shared/text";
import type { SignerConfig } from "@gateway/signer/config";
import { command, type Given } from "../kit/command.ts";
import { readOperatorFile, readOperatorText } from "../kit/files.ts";
import { badConfig, invalid, withHint } from "../kit/output.ts";
import { overSsh, runOverSsh } from "../kit/programs.ts";
import { loadSignerHosts } from "../kit/signer_file.ts";
import { hostOf } from "./add.ts";
import { END, formatProgram } from "./enroll.ts";

const SHIM_COMMAND = "gateway-shim";
const MAX_KEYS_BYTES = 100_000;

const TAKES = {
  "<name>": "host name",
  "--accounts <names>": "accounts that sessions log in to (default: the host's user)",
  "--pubkey <file>": "signer keys that replace those on the host; - reads standard input",
  "--add-pubkey <file>": "signer keys to add to those on the host; - reads standard input",
  "--verifier <file>": "envelope v1: bundled verifier, gateway-shim-verify.mjs",
  "--check": "check the installation without changing it",
  ...overSsh("run the script on the host"),
  "--bindir <directory>": "directory of the shim (default: /usr/local/bin)",
  "--no-path-symlink": "do not create a link in /usr/bin",
};

type Flags = Given<typeof TAKES>;

/** `host install-shim`: installs the shim that a host needs before it is sealed. */
export const INSTALL_SHIM = command({
  name: "install-shim",
  summary: "Print or run the script that installs the shim on a host.",
  takes: TAKES,
  help: `
Examples:
  broker-ctl host install-shim web01 --config /etc/gateway/signer.json | ssh root@web01 sh
  broker-ctl host install-shim web01 --over ssh
  broker-ctl host install-shim web01 --check --over ssh
  broker-ctl host install-shim web01 --accounts "deploy app" --add-pubkey next.signers --over ssh
  broker-ctl host install-shim old01 --verifier gateway-shim-verify.mjs --over ssh

The script installs the shim for the host's envelope version and checks the result. It installs the shim in
/usr/local/bin with a link in /usr/bin, the signer's keys in /etc/gateway/envelope_signers (default: the key of
envelope_key), the directory of used envelopes, and the group gateway-shim with the accounts. --check prints a fix for
each problem, including a ForceCommand of sshd that would keep the shim from running.

A host with envelope v1 needs Deno, and --verifier with the output file of "deno bundle --platform=deno -o
gateway-shim-verify.mjs shim/main.ts". Its key is in /etc/gateway/envelope.pub.

--over ssh uses the ssh of this machine, its agent and its config, and trusts only the host key in the signer's config.
A login account other than root needs sudo without a password.
`,
  uses: () => ["config", "programs"],
  async run(flags, { workingFolder }) {
    const { name, check = false, over, login = "root", bindir, sshdConfig, pathSymlink } = flags;
    const config = await loadSignerHosts(flags.config, workingFolder);
    const host = hostOf(config, name);
    const { envelope: format = "v2", envelope_domain = ENVELOPE_DOMAIN, shim_command = SHIM_COMMAND } = host;
    if (envelope_domain !== ENVELOPE_DOMAIN || shim_command !== SHIM_COMMAND) {
      const names = `envelope_domain ${quoteText(envelope_domain)} or shim_command ${
        quoteText(shim_command)
      }`;
      const problem = `Cannot install on host ${
        quoteText(name)
      }: its ${names} belongs to another build's shim`;
      throw new AppError("not_supported", problem);
    }
    const keys = check ? undefined : await findKeys(format, flags, config, workingFolder);
    const script = formatInstallScript({
      format,
      verifier: await readVerifier(format, flags, workingFolder),
      accounts: (flags.accounts ?? host.user).split(/\s+/).filter((account) => account !== ""),
      keys,
      check,
      more: [
        ...bindir === undefined ? [] : ["--bindir", bindir],
        ...sshdConfig === undefined ? [] : ["--sshd-config", sshdConfig],
        ...pathSymlink ? [] : ["--no-path-symlink"],
      ],
    });
    if (over === undefined) return { json: { name, script: script.join("\n") }, lines: script };
    const { code, lines } = await runOverSsh(name, host, { script, login });
    return { json: { name, exit_code: code, output: lines }, lines, failed: code !== 0 };
  },
});

/** Reads the verifier for a host with envelope v1; `--check` compares it only if it is given. */
async function readVerifier(format: EnvelopeVersion, { verifier, check }: Flags, workingFolder: string) {
  if (format !== "v1") {
    if (verifier === undefined) return undefined;
    throw invalid("Option '--verifier' has no effect without envelope v1");
  }
  if (verifier !== undefined) {
    return await readOperatorText(resolve(workingFolder, verifier), "the verifier");
  }
  if (check === true) return undefined;
  const hint = "deno bundle --platform=deno -o gateway-shim-verify.mjs shim/main.ts";
  throw invalid("A host with envelope v1 needs --verifier", undefined, hint);
}

/** Lines of the signer's keys, which replace those on the host or are added to them. */
async function findKeys(
  format: EnvelopeVersion,
  { pubkey, addPubkey }: Flags,
  { envelope_key }: SignerConfig,
  workingFolder: string,
) {
  if (pubkey !== undefined && addPubkey !== undefined) {
    throw invalid("Cannot use --pubkey with --add-pubkey: pass one of them");
  }
  const path = pubkey ?? addPubkey;
  if (path !== undefined) {
    const bytes = path === "-"
      ? await collectBytes(Deno.stdin.readable, MAX_KEYS_BYTES)
      : await readOperatorFile(resolve(workingFolder, path), "the keys");
    if (bytes === undefined) throw badConfig(`Cannot use the keys: more than ${MAX_KEYS_BYTES} bytes`);
    const lines = parseSignerKeys(new TextDecoder().decode(bytes), format);
    return { how: pubkey === undefined ? "add" : "replace", lines } as const;
  }
  const hint =
    "run the command on the machine with the seed, or pass --pubkey with the output of broker-ctl envelope pubkey" +
    (format === "v1" ? "" : " --signers");
  return await withHint({ when: () => true, hint }, async () => {
    if (envelope_key === "") throw badConfig("Cannot find the key: the signer's config has no envelope_key");
    const key = createEnvelopeKey(
      await readOperatorFile(resolve(workingFolder, envelope_key), "envelope_key"),
    );
    const line = format === "v1" ? envelopePublicKeyText(key) : envelopeSignersLine(key);
    return { how: "replace", lines: [line] } as const;
  });
}

const ALLOWED_SIGNER =
  /^signer namespaces="gateway-sealed-exec-v(?:2|3|2,gateway-sealed-exec-v3)" ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI[A-Za-z0-9+/]{43}(?: .*)?$/;
const PUBLIC_KEY = /^[A-Za-z0-9+/]{43}=$/;

/** Reads lines of keys (v2 and v3: OpenSSH's allowed signers format), without comments and empty lines. */
export function parseSignerKeys(text: string, format: EnvelopeVersion): readonly string[] {
  const keyLine = format === "v1" ? PUBLIC_KEY : ALLOWED_SIGNER;
  const lines = text.split("\n").map((line) => line.trim());
  const bad = lines.findIndex((line) => line !== "" && !line.startsWith("#") && !keyLine.test(line));
  if (bad >= 0) throw badConfig(`Cannot use the keys: line ${bad + 1} is not a key of format ${format}`);
  const keys = lines.filter((line) => keyLine.test(line));
  if (keys.length === 0) throw badConfig("Cannot use the keys: the file contains none");
  return keys;
}

/** A shell script with the shim and its installer, to be run as root on the host. */
export function formatInstallScript({ format, verifier, accounts, keys, check, more }: {
  readonly format: EnvelopeVersion;
  /** The bundled verifier of v1; absent: the one on the host stays. */
  readonly verifier?: string | undefined;
  /** The accounts that sessions log in to. */
  readonly accounts: readonly string[];
  /** Absent: the keys on the host stay. */
  readonly keys?: Awaited<ReturnType<typeof findKeys>> | undefined;
  readonly check: boolean;
  readonly more: readonly string[];
}): readonly string[] {
  const verifierLines = verifier?.trimEnd().split("\n") ?? [];
  if (verifierLines.includes(END)) throw badConfig("Cannot use the verifier: expected a bundle");
  const words = [
    ...["--src", '"$work/gateway-shim"', "--format", format],
    ...verifier === undefined ? [] : ["--verifier", '"$work/verifier"'],
    ...["--accounts", singleQuote(accounts.join(" "))],
    ...keys === undefined || check ? [] : [keys.how === "add" ? "--add-pubkey" : "--pubkey", '"$work/keys"'],
    ...check ? ["--check"] : [],
    ...more.map(singleQuote),
  ];
  const files = {
    "gateway-shim": (format === "v1" ? SHIM_V1_TEXT : SHIM_TEXT).trimEnd().split("\n"),
    ...verifier === undefined ? {} : { verifier: verifierLines },
    install: INSTALLER_TEXT.trimEnd().split("\n"),
    keys: keys?.lines ?? [],
  };
  const does = check ? "checks" : "installs";
  const what = `broker-ctl host install-shim: ${does} gateway-shim on this host. Run as root.`;
  return formatProgram(what, files, `sh "$work/install" ${words.join(" ")}`);
}
