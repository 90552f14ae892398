import { resolve } from "node:path";
import { quoteText, visibleText } from "@gateway/shared/text";
import { type Call, command } from "../kit/command.ts";
import { readOperatorText } from "../kit/files.ts";
import { type CommandResult, invalid } from "../kit/output.ts";
import { REMOTE_HELP, SIGNER, usesSigner } from "../kit/remote.ts";
import { runToEnd } from "../kit/run_program.ts";
import { askReload } from "../kit/signer_change.ts";

const EXAMPLES = `
Examples:
  broker-ctl reload --client-config gateway/broker-ctl.json
  broker-ctl reload --url 10.0.0.9:9443 --cert me.crt --key me.key --ca ca.crt
  broker-ctl reload --config gateway/signer.json --pid-file signer.pid

It asks over HTTPS (POST /v1/reload), and says whether the signer took the new config; one that can't be used
changes nothing. Where HTTPS won't do, --pid-file sends SIGHUP to the process of this machine that the file names,
and whether the config was taken is in the signer's own log. The signer writes no such file; whoever starts it can:
  sh -c 'echo $$ > signer.pid; exec ctl/start.sh signer --config gateway/signer.json'
The number in a file outlives its process: none but a signer that was started with this --config gets the signal,
and otherwise it is asked over HTTPS. A service manager needs no file: systemctl reload gateway-signer.
With auto_reload_seconds in its config the signer looks at the file's time by itself.
${REMOTE_HELP}`;

export const RELOAD = command({
  name: "reload",
  summary: "Have the signer read its config again.",
  takes: {
    ...SIGNER,
    "--pid-file <file>": "send SIGHUP to the signer that this file names, instead of asking",
  },
  help: EXAMPLES,
  uses: ({ pidFile }) => pidFile === undefined ? usesSigner() : [...usesSigner(), "programs"],
  run: async (given, call) => {
    const signalled = given.pidFile === undefined
      ? undefined
      : await signal(given.pidFile, given.config, call);
    if (signalled !== undefined) return signalled;
    const { hosts, status } = await askReload(call);
    return { json: { hosts, status }, lines: [`signer reloaded via HTTP (hosts: ${hosts})`] };
  },
});

/** A number alone: `kill` would send to every process for -1, and to its own group for 0. */
const PID = /^[1-9]\d{0,9}$/;

/**
 * Sends SIGHUP to the process in a PID file if it is the signer of this config: the number in a file outlives its
 * process, and can belong to another process.
 *
 * @returns undefined if no signal was sent
 */
async function signal(
  pidFile: string,
  config: string | undefined,
  { workingFolder, terminal }: Call,
): Promise<CommandResult | undefined> {
  const path = resolve(workingFolder, pidFile);
  const configPath = resolve(workingFolder, config ?? "signer.json");
  const pid = (await readOperatorText(path, "pid file")).trim();
  if (!PID.test(pid)) {
    throw invalid(`Cannot use ${quoteText(path)}: expected the number of a process`);
  }
  const why = await trySignal(pid, configPath);
  if (why === undefined) {
    return { json: { signal: "SIGHUP", pid: Number(pid) }, lines: [`SIGHUP sent to signer (PID ${pid})`] };
  }
  terminal.err(`${visibleText(`no signal was sent: process ${pid} ${why}; asking over HTTPS`)}\n`);
  return undefined;
}

async function trySignal(pid: string, config: string): Promise<string | undefined> {
  const { stdout } = await runToEnd("ps", ["-ww", "-o", "args=", "-p", pid]);
  const args = stdout.trim();
  if (args === "") return "is not there any more";
  if (!isSignerOf(args, config)) return `is not the signer of ${quoteText(config)}`;
  const { success, stderr } = await runToEnd("kill", ["-HUP", pid]);
  return success ? undefined : `can't be signalled: ${stderr.trim()}`;
}

/**
 * The start of each service's command line: `signer/main.js` from source and from a package, else a program of that name.
 * A name that is only a word of another program does not match.
 */
const SERVICE =
  /(?<=^|[ /])(?<name>signer|control[-_]plane|broker|gateway|mcp-broker(?:-http)?)(?:\/main\.[jt]s|(?<! \k<name>))(?: serve-(?:http|mcp-http|mcp))? --?config[ =]/g;

/**
 * Whether a command line, its words joined by spaces, is that of a signer with this config. A line that can be read as
 * two services is rejected: a value of an option may look like a service.
 */
export function isSignerOf(args: string, config: string): boolean {
  const [service, ...more] = args.matchAll(SERVICE);
  if (service?.groups?.["name"] !== "signer" || more.length > 0) return false;
  const told = args.slice(service.index + service[0].length);
  return told === config || told.startsWith(`${config} -`);
}
