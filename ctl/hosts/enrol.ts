import { resolve } from "node:path";
import { type Command, Option } from "commander";
import { systemClock } from "@gateway/shared/clock";
import { type CaKey, loadCaKeys, planCaKeys, selectCaKey } from "@gateway/shared/ca";
import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { formatPublicKey, parsePublicKey } from "@gateway/shared/ssh";
import type { SignerConfig } from "@gateway/signer/config";
import { once } from "../kit/arguments.ts";
import type { AddCommand, CommandContext } from "../kit/context.ts";
import { carryOut, CONFIRM_SECONDS } from "./carry_out.ts";
import { type EnrolOptions, formatEnrolScript } from "./enrol_script.ts";
import { caLine, rotatedKeys, rotationFiles } from "./next_ca.ts";
import { type CommandResult, withHint } from "../kit/output.ts";
import { MAX_SECONDS } from "../kit/over_ssh.ts";
import { readOperatorFile } from "../kit/files.ts";
import { loadSignerHosts } from "../kit/signer_file.ts";

interface EnrolFlags {
  readonly config?: string;
  readonly over?: "ssh";
  readonly print?: boolean;
  readonly login?: string;
  readonly caPub?: string;
  readonly sshdConfig?: string;
}

type Host = SignerConfig["hosts"][string];

const ENROL_EXAMPLES = `
Examples:
  broker-ctl host enrol web01 --config /etc/gateway/signer.json --over ssh
  broker-ctl host enrol web01 --config /etc/gateway/signer.json | ssh root@web01 sh

Has the host's sshd trust the signer's CA beside those that it trusts, and take certificates for this host beside what
the account takes. It looks first (sshd -T), checks with sshd -t before anything counts, reloads sshd by its unit or by
a signal, and takes everything back on failure. What a host has, such as its LogLevel, stays. Where nobody could get into
the account (locked where sshd asks no PAM, expired, or with nologin as its shell) it changes nothing and says what to do.
--over ssh uses the ssh of this machine and takes no other host key than the signer's config has; then a login is tried
with a certificate that is good for one echo and two minutes, and unless that succeeds the host takes the change back
by itself within ${CONFIRM_SECONDS} seconds. It takes the CA key; with --ca-pub nothing is tried. ssh has to be of OpenSSH
8.5 or later, and may take ${MAX_SECONDS} seconds. Without --over the program is printed. Another login than root needs
sudo without a password.
`;

const UNENROL_EXAMPLES = `
Examples:
  broker-ctl host unenrol web01 --config /etc/gateway/signer.json --over ssh

Takes back what host enrol added: certificates for this host are refused from then on, and the CA is trusted no more
when nothing else was enrolled there by this program. What others had the host trust stays.
`;

/** `host enrol` and `host unenrol`: have a host accept certificates, and nothing lost by it. */
export const addHostEnrol: AddCommand = (host, context) => {
  const add = (name: string, description: string, examples: string, mode: "add" | "remove") =>
    host.command(name)
      .description(description)
      .argument("<name>", "which")
      .addOption(new Option("--over <way>", "carry it out on the host").choices(["ssh"]))
      .option("--print", "print what does it, for hands (the default)")
      .option("--login <account>", "with --over: whom to log in as (default: root)", once)
      .option("--ca-pub <file>", "public keys of the CA, where its key can't be read", once)
      .option("--sshd-config <file>", "what sshd of the host is started with, if not its own", once)
      .addHelpText("after", examples)
      .action((name: string, _flags, command: Command) =>
        context.run(
          command,
          ["config", "programs"],
          () => enrol(name, mode, command.optsWithGlobals() as EnrolFlags, context),
        )
      );
  add(
    "enrol",
    "Have a host accept the signer's certificates, beside what it accepts.",
    ENROL_EXAMPLES,
    "add",
  );
  add("unenrol", "Have a host accept the signer's certificates no more.", UNENROL_EXAMPLES, "remove");
};

async function enrol(
  name: string,
  mode: "add" | "remove",
  flags: EnrolFlags,
  context: CommandContext,
): Promise<CommandResult> {
  if (flags.print === true && flags.over !== undefined) {
    throw new AppError("invalid_request", "Options '--print' and '--over' exclude each other");
  }
  const config = await loadSignerHosts(flags.config, context.workingFolder);
  const host = hostOf(config, name);
  const { lines: ca, key } = await findCa(config, host, flags, context);
  const options: EnrolOptions = {
    mode,
    user: host.user,
    principal: host.principal,
    ca,
    sshdConfig: flags.sshdConfig,
  };
  if (flags.over === undefined) {
    const script = formatEnrolScript(options);
    return { json: { name, script: script.join("\n") }, lines: script };
  }
  const { done, tried, lines } = await carryOut({ name, host, options, key, login: flags.login ?? "root" });
  const untried = mode === "add" && key === undefined ? ["no login was tried: the CA's key is not here"] : [];
  return {
    json: { name, enrolled: mode === "add" ? done : !done, tried, output: lines },
    lines: [...lines, ...untried],
    failed: !done,
  };
}

function hostOf({ hosts }: SignerConfig, name: string): Host & { readonly principal: string } {
  const host = Object.hasOwn(hosts, name) ? hosts[name] : undefined;
  if (host === undefined) {
    throw new AppError("not_found", `There is no host ${quoteText(name)} in the config`);
  }
  const { principal = "" } = host;
  if (principal === "") throw new AppError("invalid_config", `Host ${quoteText(name)} has no principal`);
  return { ...host, principal };
}

/** The CA of a host, as its group has it. */
async function findCa(
  config: SignerConfig,
  { groups = [] }: Host,
  { caPub }: EnrolFlags,
  context: CommandContext,
): Promise<{ readonly lines: readonly string[]; readonly key: CaKey | undefined }> {
  const { workingFolder, variables } = context;
  if (caPub !== undefined) {
    const text = new TextDecoder().decode(
      await readOperatorFile(resolve(workingFolder, caPub), "the CA's public key"),
    );
    const lines = text.split("\n").map((line) => line.trim()).filter((line) =>
      line !== "" && !line.startsWith("#")
    );
    return { lines: lines.map(formatLine), key: undefined };
  }
  const ring = planCaKeys(config);
  if (ring === undefined) throw new AppError("invalid_config", "There is no CA key in the signer's config");
  const chosen = selectCaKey(ring, groups);
  const own = chosen.type === "pem" ? { ...chosen, path: resolve(workingFolder, chosen.path) } : chosen;
  const hint = "run it where the CA's key is, or name its public key with --ca-pub";
  const { fallback } = await withHint(
    { when: () => true, hint },
    () =>
      loadCaKeys({ ca_key: "", ca_keys: { _default: own } }, {
        what: "signer config",
        clock: systemClock,
        readEnv: (name) => variables[name],
      }),
  );
  // Who comes in the middle of a rotation trusts both.
  const keys = rotatedKeys(own, context);
  const next = await keys?.readPublic(rotationFiles(keys.path).next);
  return { lines: [fallback, ...next === undefined ? [] : [next]].map(caLine), key: fallback };
}

function formatLine(line: string): string {
  const { algorithm, blob } = parsePublicKey(line);
  return formatPublicKey(algorithm, blob, "gateway-ssh-ca");
}
