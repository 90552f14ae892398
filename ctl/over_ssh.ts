import { collectBytes } from "@gateway/shared/bytes";
import { AppError, errorText } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/quote";
import type { SignerConfig } from "@gateway/signer/config";
import { HintedError } from "./output.ts";

/** A host as the signer's config has it. */
export type OwnHost = Pick<SignerConfig["hosts"][string], "addr" | "host_key" | "jump">;

/** The host need not be what its operator takes it for. */
const MAX_OUTPUT_BYTES = 1_000_000;

/** What came of a program on a host. */
export interface HostOutput {
  readonly code: number;
  /** What it wrote, standard output first. */
  readonly lines: readonly string[];
}

/** Runs a program of sh on the host, as root, by the `ssh` of this machine, its agent and its config. */
export async function runOverSsh(
  name: string,
  host: OwnHost,
  { script, login }: { readonly script: string; readonly login: string },
): Promise<HostOutput> {
  const { code, stdout, stderr } = await sshTo(name, host, {
    login,
    words: [],
    command: login === "root" ? "sh -s" : "sudo -n sh -s",
    input: script,
  });
  return { code, lines: `${stdout}${stderr}`.split(/\r?\n/).filter((line) => line !== "") };
}

/** How a host is logged in to. */
export interface SshLogin {
  readonly login: string;
  /** More words for ssh, such as the key to be used. */
  readonly words: readonly string[];
  readonly command: string;
  readonly input: string;
}

/**
 * Logs in to a host and runs a command there. No other host key counts than that of the signer's config.
 *
 * @throws {AppError} `invalid_request` for what is no account, `not_supported` for a host behind another and where there
 * is no ssh
 */
export async function sshTo(
  name: string,
  { addr, host_key, jump }: OwnHost,
  { login, words, command, input }: SshLogin,
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  if (!/^[A-Za-z_][\w.-]*$/.test(login)) {
    throw new AppError("invalid_request", `Cannot log in as ${quoteText(login)}: not the name of an account`);
  }
  if (jump !== undefined) {
    throw new AppError(
      "not_supported",
      `Host ${quoteText(name)} is behind ${quoteText(jump)}: leave out --over ssh, and pipe what is printed`,
    );
  }
  const { hostname, port } = new URL(`ssh://${addr}`);
  const knownHosts = await Deno.makeTempFile({ prefix: "known-hosts-" });
  try {
    await Deno.writeTextFile(knownHosts, `${name} ${host_key}\n`);
    const options = {
      BatchMode: "yes",
      ConnectTimeout: "20",
      StrictHostKeyChecking: "yes",
      HostKeyAlias: name,
      UserKnownHostsFile: knownHosts,
      GlobalKnownHostsFile: "none",
      UpdateHostKeys: "no",
    };
    return await runSsh([
      ...Object.entries(options).flatMap(([key, value]) => ["-o", `${key}=${value}`]),
      ...words,
      ...["-T", "-p", port === "" ? "22" : port, "-l", login, "--", hostname.replace(/^\[|\]$/g, "")],
      command,
    ], input);
  } finally {
    await Deno.remove(knownHosts);
  }
}

async function runSsh(
  args: readonly string[],
  input: string,
): Promise<{ readonly code: number; readonly stdout: string; readonly stderr: string }> {
  const process = startSsh(args);
  const writer = process.stdin.getWriter();
  const written = writer.write(new TextEncoder().encode(input)).then(() => writer.close());
  // What ends early says itself why.
  written.catch(() => undefined);
  const [stdout, stderr] = await Promise.all([
    collectBytes(process.stdout, MAX_OUTPUT_BYTES),
    collectBytes(process.stderr, MAX_OUTPUT_BYTES),
  ]);
  // Whoever writes more than is read here ends by that.
  const { code } = await process.status;
  if (stdout === undefined || stderr === undefined) {
    throw new AppError("upstream_failure", `The host answers with more than ${MAX_OUTPUT_BYTES} bytes`);
  }
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
}

function startSsh(args: readonly string[]): Deno.ChildProcess {
  try {
    return new Deno.Command("ssh", { args: [...args], stdin: "piped", stdout: "piped", stderr: "piped" })
      .spawn();
  } catch (cause) {
    const hint = "leave out --over ssh, and pipe what is printed";
    const fault = new AppError("not_supported", `Cannot start ssh: ${errorText(cause)}`, { cause });
    throw new HintedError(fault, hint);
  }
}
