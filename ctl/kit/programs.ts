import { collectBytes, quoteText } from "@gateway/shared/text";
import { type Clock, Deadline, systemClock } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import type { SignerConfig } from "@gateway/signer/config";
import { oneOf } from "./command.ts";
import { type Environment, HintedError, invalid } from "./output.ts";

/** The options of commands that can work on hosts over ssh. */
export const overSsh = (what: string) => ({
  "--over <way>": oneOf(["ssh"], what),
  "--login <account>": "with --over: login account (default: root)",
  "--sshd-config <file>": "config file of the host's sshd, if not the default",
});

/** The fields of a host in the signer's config that a login needs. */
export type OwnHost = Pick<SignerConfig["hosts"][string], "addr" | "host_key" | "jump">;

// The maximum output of a host. An attacker may control the host.
const MAX_OUTPUT_BYTES = 1_000_000;
export const MAX_SECONDS = 180;

const WITHOUT_SSH = "omit --over ssh, and pipe the printed script to a shell on the host";
/** The exit code of `ssh` if ssh itself fails. */
const SSH_FAILED = 255;

/** Runs a shell script on the host, as root, with the `ssh` of this machine, its agent and its config. */
export async function runOverSsh(
  name: string,
  host: OwnHost,
  { script, login }: { readonly script: readonly string[]; readonly login: string },
) {
  const command = login === "root" ? "sh -s" : "sudo -n sh -s";
  const input = script.map((line) => `${line}\n`).join("");
  const { code, stdout, stderr } = await sshTo(name, host, { login, command, input });
  return { code, lines: `${stdout}${stderr}`.split(/\r?\n/).filter((line) => line !== "") };
}

/** The alias under which ssh looks up the host key, because a host name in the config could be a pattern. */
const ALIAS = "host-of-the-signers-config";

/**
 * Overrides the config of this machine's ssh. No shared connection, DNS record or program can supply another host key,
 * and the host receives no agent, forwarding or display.
 */
const NOTHING_ELSE = {
  UpdateHostKeys: "no",
  VerifyHostKeyDNS: "no",
  KnownHostsCommand: "none",
  ControlMaster: "no",
  ControlPath: "none",
  ForwardAgent: "no",
  ForwardX11: "no",
  ClearAllForwardings: "yes",
  Tunnel: "no",
  PermitLocalCommand: "no",
  ServerAliveInterval: "15",
} as const;

/** Logs in to a host and runs a command there. ssh accepts only the host key of the signer's config. */
export async function sshTo(
  name: string,
  { addr, host_key, jump }: OwnHost,
  { login, options = {}, command, input, clock = systemClock }: {
    readonly login: string;
    /** More options for ssh, such as the key. */
    readonly options?: Readonly<Record<string, string>>;
    readonly command: string;
    readonly input: string;
    readonly clock?: Clock;
  },
) {
  if (!/^[A-Za-z_][\w.-]*$/.test(login)) {
    throw invalid(`Cannot log in as ${quoteText(login)}: expected an account name`);
  }
  if (jump !== undefined) {
    const problem = `Cannot log in to ${quoteText(name)}: it is behind the bastion ${quoteText(jump)}`;
    throw new HintedError(new AppError("not_supported", problem), WITHOUT_SSH);
  }
  const { hostname, port } = new URL(`ssh://${addr}`);
  const host = hostname.replace(/^\[|\]$/g, "");
  if (!/^[A-Za-z0-9:][A-Za-z0-9_.:-]*$/.test(host)) {
    throw invalid(`Cannot log in to ${quoteText(addr)}: expected the address of a host`);
  }
  const knownHosts = await Deno.makeTempFile({ prefix: "known-hosts-" });
  try {
    await Deno.writeTextFile(knownHosts, `${ALIAS} ${host_key}\n`);
    const all = {
      ...options,
      BatchMode: "yes",
      ConnectTimeout: "20",
      StrictHostKeyChecking: "yes",
      HostKeyAlias: ALIAS,
      UserKnownHostsFile: knownHosts,
      GlobalKnownHostsFile: "none",
      ...NOTHING_ELSE,
    };
    const flags = Object.entries(all).flatMap(([key, value]) => ["-o", `${key}=${value}`]);
    const words = ["-T", "-p", port === "" ? "22" : port, "-l", login, "--", host, command];
    return await runSsh([...flags, ...words], input, clock);
  } finally {
    await Deno.remove(knownHosts);
  }
}

async function runSsh(args: readonly string[], input: string, clock: Clock) {
  using deadline = new Deadline({ clock, ms: MAX_SECONDS * 1000 });
  const process = startSsh(args, deadline.signal);
  const writer = process.stdin.getWriter();
  const written = writer.write(new TextEncoder().encode(input)).then(() => writer.close());
  // Ignore a failed write, because the output of a program that exits early shows the reason.
  written.catch(() => undefined);
  const [stdout, stderr] = await Promise.all(
    [process.stdout, process.stderr].map((stream) => collectBytes(stream, MAX_OUTPUT_BYTES)),
  );
  // If the program writes more than the limit, the closed pipe stops it.
  const { code } = await process.status;
  const fail = (problem: string) => new AppError("upstream_failure", problem);
  if (deadline.signal.aborted) {
    throw fail(
      `The host did not respond within ${MAX_SECONDS} seconds; the script may still be running there`,
    );
  }
  if (stdout === undefined || stderr === undefined) {
    throw fail(`The host sent more than ${MAX_OUTPUT_BYTES} bytes`);
  }
  const [out = "", err = ""] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
  if (code === SSH_FAILED && /Bad configuration option/i.test(err)) {
    const need = "The ssh of this machine is too old: --over ssh needs OpenSSH 8.5 or later";
    throw new AppError("not_supported", `${need}: ${err.trim()}`);
  }
  return { code, stdout: out, stderr: err };
}

function startSsh(args: readonly string[], signal: AbortSignal) {
  const streams = { stdin: "piped", stdout: "piped", stderr: "piped" } as const;
  try {
    return new Deno.Command("ssh", { args: [...args], ...streams, signal }).spawn();
  } catch (cause) {
    const fault = new AppError("not_supported", `Cannot start ssh: ${errorText(cause)}`, { cause });
    throw new HintedError(fault, WITHOUT_SSH);
  }
}

/** Runs an action for each item, `size` items at a time. The results are in the order of the items. */
export async function inBatches<T, R>(
  items: readonly T[],
  size: number,
  action: (item: T) => Promise<readonly R[]>,
): Promise<readonly R[]> {
  const results: R[] = [];
  for (let start = 0; start < items.length; start += size) {
    results.push(...(await Promise.all(items.slice(start, start + size).map(action))).flat());
  }
  return results;
}

/** Runs a program without input, with output in English. */
export async function runToEnd(name: string, args: readonly string[]) {
  try {
    const command = new Deno.Command(name, { args: [...args], stdin: "null", env: { LC_ALL: "C.UTF-8" } });
    const { success, stdout, stderr } = await command.output();
    const decoder = new TextDecoder();
    return { success, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr) };
  } catch (cause) {
    throw new AppError("not_supported", `Cannot start ${name}: ${errorText(cause)}`, { cause });
  }
}

/** Opens a file in the operator's editor, and waits for its end. */
export async function runEditor(path: string, variables: Environment["variables"]) {
  const [name = "vi", ...args] = (variables["VISUAL"] || variables["EDITOR"] || "vi").trim().split(/\s+/);
  const fail = (problem: string, cause?: unknown) =>
    new HintedError(
      new AppError("not_supported", `Cannot edit in ${quoteText(name)}: ${problem}`, { cause }),
      "set VISUAL to vi, vim, nvim, nano, micro, hx, emacs, ed or code --wait",
    );
  // Editors keep Ctrl-C as a signal, which the terminal also sends to this process.
  const ignore = () => {};
  Deno.addSignalListener("SIGINT", ignore);
  try {
    const streams = { stdin: "inherit", stdout: "inherit", stderr: "inherit" } as const;
    const { success, code } = await new Deno.Command(name, { args: [...args, path], ...streams }).spawn()
      .status;
    if (!success) throw fail(`it exited with code ${code}; nothing was written`);
  } catch (cause) {
    throw cause instanceof AppError ? cause : fail(errorText(cause), cause);
  } finally {
    Deno.removeSignalListener("SIGINT", ignore);
  }
}
