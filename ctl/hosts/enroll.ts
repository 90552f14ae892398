import { join, resolve } from "node:path";
import { randomSerial, systemClock, systemRandom } from "@gateway/shared/clock";
import { type CaKey, selectCaKey } from "@gateway/shared/ca";
import { quoteText, singleQuote } from "@gateway/shared/text";
import {
  CERTIFICATE_ALGORITHM,
  ed25519PublicKey,
  encodeOpensshPrivateKey,
  formatCertificate,
  formatPublicKey,
  issueCertificate,
  parsePublicKey,
} from "@gateway/shared/ssh";
import { type Call, command, type Given } from "../kit/command.ts";
import { readOperatorText } from "../kit/files.ts";
import { badConfig, invalid, withHint } from "../kit/output.ts";
import { MAX_SECONDS, overSsh, type OwnHost, runOverSsh, sshTo } from "../kit/programs.ts";
import { loadHosts } from "../kit/signer_file.ts";
import { type Host, hostOf } from "./add.ts";
import { caLine, loadKey, planKeys, rotatedKeys, rotationFiles } from "./next_ca.ts";
import { AppError, errorText } from "@gateway/shared/errors";
import program from "./enroll_host.sh" with { type: "text" };

/** The host rolls back after this time without a confirmation, because a locked-out operator could not undo the change. */
const CONFIRM_SECONDS = 120;

const TAKES = {
  "<name>": "host name",
  ...overSsh("run the script on the host"),
  "--print": "print the script instead of running it (default)",
  "--ca-pub <file>": "public keys of the CA, if its private key is not on this machine",
};

/** `host enroll`: a host accepts certificates in addition to its existing keys. */
export const ENROLL = command({
  name: "enroll",
  summary: "Configure a host to trust the signer's CA.",
  takes: TAKES,
  help: `
Examples:
  broker-ctl host enroll web01 --config /etc/gateway/signer.json --over ssh
  broker-ctl host enroll web01 --config /etc/gateway/signer.json | ssh root@web01 sh

The script adds the CA to the CAs that sshd on the host already trusts, and the host's principal to those of the
account. Other settings stay as they are. The script checks the result with sshd -t, reloads sshd, and rolls back if a
step fails. If no user could log in to the account (it is locked, expired or has no login shell), the script changes
nothing and prints the fix. --over ssh runs the script with the ssh of this machine (OpenSSH 8.5 or later, at most
${MAX_SECONDS} seconds) and trusts only the host key in the signer's config. It then tries a login with a certificate
that is valid for two minutes and one echo. If the login fails, the host rolls back within ${CONFIRM_SECONDS} seconds.
With --ca-pub no login is tried. A login account other than root needs sudo without a password.
`,
  uses: () => ["config", "programs"],
  run: (flags, call) => enroll("add", flags, call),
});

export const UNENROLL = command({
  name: "unenroll",
  summary: "Remove the signer's CA from a host.",
  takes: TAKES,
  help: `
Examples:
  broker-ctl host unenroll web01 --config /etc/gateway/signer.json --over ssh

Removes the changes of host enroll: the host then rejects certificates for this host name. The CA is removed when no
other host name on this machine uses it. Keys and CAs that others configured stay.
`,
  uses: () => ["config", "programs"],
  run: (flags, call) => enroll("remove", flags, call),
});

/** Runs `host enroll` or `host unenroll`. */
export async function enroll(mode: "add" | "remove", flags: Given<typeof TAKES>, call: Call) {
  const { name, print = false, over, login = "root", sshdConfig } = flags;
  if (print && over !== undefined) throw invalid("Cannot use --print with --over: pass one of them");
  const config = await loadHosts(flags.config, call.workingFolder);
  const host = hostOf(config, name);
  const { user, principal = "" } = host;
  if (principal === "") throw badConfig(`Cannot enroll host ${quoteText(name)}: it has no principal`);
  const { lines: ca, key } = await findCa(config, host, flags.caPub, call);
  const options: EnrollOptions = { mode, user, principal, ca, sshdConfig };
  if (over === undefined) {
    const script = formatEnrollScript(options);
    return { json: { name, script: script.join("\n") }, lines: script };
  }
  const { done, tried, lines } = await carryOut({ name, host, options, key, login });
  const untried = mode === "add" && key === undefined
    ? ["no login was tried: the CA's private key is not on this machine"]
    : [];
  return {
    json: { name, enrolled: mode === "add" ? done : !done, tried, output: lines },
    lines: [...lines, ...untried],
    failed: !done,
  };
}

type CaConfig = Parameters<typeof planKeys>[0];

/** The CA of the host's groups. */
async function findCa(config: CaConfig, { groups = [] }: Host, caPub: string | undefined, call: Call) {
  const { workingFolder, variables } = call;
  if (caPub !== undefined) {
    const text = await readOperatorText(resolve(workingFolder, caPub), "the CA's public key");
    const lines = text.split("\n").map((line) => line.trim())
      .filter((line) => line !== "" && !line.startsWith("#")).map(parsePublicKey)
      .map(({ algorithm, blob }) => formatPublicKey(algorithm, blob, "gateway-ssh-ca"));
    return { lines, key: undefined };
  }
  const chosen = selectCaKey(planKeys(config), groups);
  const own = chosen.type === "pem" ? { ...chosen, path: resolve(workingFolder, chosen.path) } : chosen;
  const hint = "run the command on the machine with the CA's private key, or pass --ca-pub";
  const fallback = await withHint({ when: () => true, hint }, () => loadKey(own, variables));
  // A host that is enrolled in the middle of a rotation trusts both keys.
  const keys = rotatedKeys(own, call);
  const next = await keys?.readPublic(rotationFiles(keys.path).next);
  return { lines: [fallback, ...next === undefined ? [] : [next]].map(caLine), key: fallback };
}

const SEE_LOG = "sshd's log on the host has the reason: journalctl -t sshd -n 20, or the auth log";

/**
 * Changes the keys that a host trusts, tries a login, and rolls back if the login fails. Without a confirmation, the host
 * rolls back automatically.
 *
 * @param key signs the certificate of the login; absent: no login is tried
 */
export async function carryOut({ name, host, login, options, key }: {
  readonly name: string;
  readonly host: LoginHost;
  readonly login: string;
  readonly options: EnrollOptions;
  readonly key: CaKey | undefined;
}) {
  const onHost = (options: EnrollOptions) =>
    runOverSsh(name, host, { script: formatEnrollScript(options), login });
  const tried = options.mode === "add" && key !== undefined;
  const { code, lines } = await onHost({ ...options, ...tried && { confirmSeconds: CONFIRM_SECONDS } });
  if (code !== 0 || !tried) return { done: code === 0, tried: false, lines };
  try {
    await tryLogin(name, host, options.principal, key);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    const undone = await onHost({ ...options, mode: "undo" });
    const back = undone.code === 0
      ? "all changes were rolled back"
      : `the host rolls back automatically within ${CONFIRM_SECONDS} seconds`;
    return { done: false, tried, lines: [errorText(error), SEE_LOG, back] };
  }
  const kept = await onHost({ ...options, mode: "keep" });
  const result = `login as ${host.user} with a certificate for ${options.principal} succeeded`;
  return { done: kept.code === 0, tried, lines: [...lines, ...kept.lines, result] };
}

const SECONDS = 120;
const SKEW_SECONDS = 30;
/** Once a second: an sshd that reloads its config does not listen for a moment. */
const TRIES = 20;
const NO_LISTENER = /connection (?:refused|reset|closed)/i;

type LoginHost = OwnHost & { readonly user: string };

/**
 * Logs in to a host with a certificate that is valid for two minutes and one command, `echo`. Waits for sshd to restart.
 */
async function tryLogin(name: string, host: LoginHost, principal: string, caKey: CaKey): Promise<void> {
  const seed = systemRandom.bytes(32);
  const answer = `gateway-${systemRandom.bytes(8).toHex()}`;
  const now = Math.floor(systemClock.now() / 1000);
  const certificate = await issueCertificate({
    publicKey: ed25519PublicKey(seed).subarray(-32),
    nonce: systemRandom.bytes(32),
    serial: randomSerial(systemRandom),
    keyId: `broker-ctl enrol host=${name}`,
    principals: [principal],
    validAfter: now - SKEW_SECONDS,
    validBefore: now + SECONDS,
    criticalOptions: { "force-command": `echo ${answer}` },
    extensions: [],
  }, caKey);
  const folder = await Deno.makeTempDir({ prefix: "gateway-enrol-" });
  try {
    const [key, cert] = [join(folder, "key"), join(folder, "key-cert.pub")];
    await Deno.writeTextFile(key, encodeOpensshPrivateKey(seed, "enrol"), { mode: 0o600 });
    await Deno.writeTextFile(cert, formatCertificate(certificate), { mode: 0o600 });
    const options = {
      ...{ IdentityFile: key, CertificateFile: cert, IdentitiesOnly: "yes", IdentityAgent: "none" },
      PreferredAuthentications: "publickey",
    };
    const login = { login: host.user, options, command: "true", input: "" };
    let why = "";
    for (let tries = 1; tries <= TRIES; tries++) {
      const { stdout, stderr } = await sshTo(name, host, login);
      if (stdout.includes(answer)) return;
      why = stderr.trim().split("\n").at(-1) ?? "";
      if (!NO_LISTENER.test(why.slice(why.lastIndexOf("\n") + 1))) break;
      await systemClock.sleep(1_000);
    }
    const problem = `Cannot log in to ${quoteText(name)} as ${host.user} with a certificate`;
    const reason = why || "the host ran another command";
    throw new AppError("upstream_failure", `${problem} (${CERTIFICATE_ALGORITHM}): ${reason}`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

export interface EnrollOptions {
  readonly mode: "add" | "remove" | "status" | "keep" | "undo";
  /** The account that certificates log in to. */
  readonly user: string;
  readonly principal: string;
  /** Public keys of CAs, a line each. */
  readonly ca: readonly string[];
  /** The keys to remove from the host. */
  readonly dropCa?: readonly string[];
  /** The config file of sshd, if it is not the default. */
  readonly sshdConfig: string | undefined;
  /** The host rolls back after this time without a confirmation. */
  readonly confirmSeconds?: number;
}

/** A shell script that enrolls a host, to be run as root on the host. */
export function formatEnrollScript(options: EnrollOptions): readonly string[] {
  const { mode, user, principal, ca, dropCa = [], sshdConfig, confirmSeconds } = options;
  const words = [
    ...mode === "add" ? [] : [`--${mode}`],
    ...["--user", singleQuote(user), "--principal", singleQuote(principal), "--ca", '"$work/ca"'],
    ...dropCa.length === 0 ? [] : ["--drop-ca", '"$work/drop"'],
    ...sshdConfig === undefined ? [] : ["--sshd-config", singleQuote(sshdConfig)],
    ...confirmSeconds === undefined ? [] : ["--confirm", String(confirmSeconds)],
  ];
  const files = { enrol: program.trimEnd().split("\n"), ca, drop: dropCa };
  const command = `sh "$work/enrol" ${words.join(" ")}`;
  return formatProgram(`broker-ctl host enroll: ${mode}. Run as root.`, files, command);
}

/** A line that no embedded file contains. */
export const END = "END_OF_GATEWAY_FILE";

/** A shell script that writes files to a temporary directory and runs a command there. */
export function formatProgram(
  comment: string,
  files: Readonly<Record<string, readonly string[]>>,
  command: string,
): readonly string[] {
  return [
    "#!/bin/sh",
    // The shell reads up to the closing brace before it runs anything, so the command cannot read the rest of the script.
    "{",
    `# ${comment}`,
    "work=$(mktemp -d) || exit 1",
    `trap 'rm -rf "$work"' EXIT`,
    ...Object.entries(files).flatMap(([name, lines]) => [`cat >"$work/${name}" <<'${END}'`, ...lines, END]),
    `${command} </dev/null`,
    "exit",
    "}",
  ];
}
