import { AppError } from "@gateway/shared/errors";
import { quoteText } from "@gateway/shared/text";
import { readOperatorFile } from "../kit/files.ts";
import { runToEnd } from "../kit/run_program.ts";

/** The number alone: `kill` would take -1 for every process, and 0 for its own group. */
const PID = /^[1-9]\d{0,9}$/;

type Signalled =
  | { readonly sent: true; readonly pid: number }
  | { readonly sent: false; readonly why: string };

/**
 * Sends SIGHUP to the process that a file names, if it is the signer of this config: a number in a file outlives its
 * process, and can be another's by now.
 *
 * @param config the signer's config, absolute
 * @throws {AppError} for a file that is not there or no pid file; `not_supported` without `ps`
 */
export async function signalSigner(pidFile: string, config: string): Promise<Signalled> {
  const pid = new TextDecoder().decode(await readOperatorFile(pidFile, "pid file")).trim();
  if (!PID.test(pid)) {
    throw new AppError(
      "invalid_request",
      `Cannot use ${quoteText(pidFile)}: expected the number of a process`,
    );
  }
  const { stdout } = await runToEnd("ps", ["-ww", "-o", "args=", "-p", pid]);
  const args = stdout.trim();
  if (args === "") return { sent: false, why: `process ${pid} is not there any more` };
  if (!isSignerOf(args, config)) {
    return { sent: false, why: `process ${pid} is not the signer of ${quoteText(config)}` };
  }
  const { success, stderr } = await runToEnd("kill", ["-HUP", pid]);
  if (!success) return { sent: false, why: `process ${pid} can't be signalled: ${stderr.trim()}` };
  return { sent: true, pid: Number(pid) };
}

/**
 * The start of each service's command line: `signer/main.js` from source and from a package, else a program of that name.
 * A name that is only a word of another program does not count.
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
