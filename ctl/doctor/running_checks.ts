import { normalize } from "node:path";
import { systemClock } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { describeReadFailure, readRegularFile } from "@gateway/shared/files";
import { quoteText } from "@gateway/shared/text";
import { runToEnd } from "../run_program.ts";
import { derivePermissions, type Service } from "../service_permissions.ts";
import { readServiceCommand, type ServiceCommandLine } from "../service_process.ts";
import { readMonitor } from "../status/read_monitor.ts";
import { fail, type Finding, pass, unknown, warn } from "./finding.ts";
import { compareGranted, type Granted, readEmbedded, readFlags } from "./granted.ts";

/** What ps shows of a command line is cut off there, less a little: letters may have several bytes. */
const CUT_AT = 120_000;

/** A service that is looked for on this machine. */
interface SoughtService {
  readonly service: Service;
  readonly file: string;
  readonly workingFolder: string;
  /** Where it says which process it is; empty: nowhere. */
  readonly monitor: string;
}

/** A process, as `ps` shows it. */
interface Running {
  readonly user: string;
  readonly pid: number;
  /** It was not started before this, in milliseconds since the epoch: `ps` tells whole seconds. */
  readonly startedAfter: number;
  readonly args: string;
}

/** A process that is told of the config, or may be. */
interface Candidate extends Running {
  readonly command: ServiceCommandLine;
  /** By which name it is told of it; absent: by one that can be another's too. */
  readonly told?: string;
}

/**
 * Whether the processes that run with a config may do what it calls for, and no more. Each one that looks like the
 * service is looked at: one that only looks so hides no other.
 */
export async function checkRunning(sought: SoughtService): Promise<readonly Finding[]> {
  const { file, monitor } = sought;
  let all: readonly Running[];
  try {
    all = await listProcesses();
  } catch (error) {
    return [
      unknown(
        file,
        `what its processes may do can't be looked at: ${errorText(error)}`,
        "install ps of procps",
      ),
    ];
  }
  // Nobody but the service itself answers there.
  const said = await readMonitor(monitor).catch(() => undefined);
  const names = [...new Set([file, await Deno.realPath(file)])];
  const cut = all.filter(({ args }) => args.length >= CUT_AT && /^\S*deno/.test(args));
  const candidates = all.flatMap((process): readonly Candidate[] => {
    const command = readServiceCommand(process.args);
    return command === undefined ? [] : identify({ ...process, command }, names, sought);
  });
  const judged = await Promise.all(candidates.map((candidate) => {
    const { told = candidate.pid === said?.processId ? file : undefined, command } = candidate;
    return told === undefined || command.isAmbiguous
      ? unknown(
        file,
        `${describe(candidate)} may be the service of this config: its command line can be read in two ways`,
        "start it with the absolute path of its config, as ctl/start.sh does",
      )
      : judge(candidate, sought, told);
  }));
  const findings = [
    ...judged,
    ...cut.map((process) =>
      unknown(
        file,
        `${describe(process)} may be the service of this config: its command line is too long for ps`,
        `look at /proc/${process.pid}/cmdline`,
      )
    ),
  ];
  if (said?.service === undefined || candidates.some(({ pid }) => pid === said.processId)) return findings;
  // As a version has it that does not say its number.
  if (said.processId === undefined && candidates.length > 0) return findings;
  const which = said.processId === undefined ? "" : ` (it says: process ${said.processId})`;
  return [
    ...findings,
    unknown(
      file,
      `the process that answers at ${monitor} is not found here with this config${which}: what it may do is not known`,
      "run this where it runs, outside of containers, as a user who sees its processes",
    ),
  ];
}

/** @throws {AppError} `not_supported` without a `ps` that knows these columns */
async function listProcesses(): Promise<readonly Running[]> {
  const args = ["-e", "-ww", "-o", "user:32=,pid=,etimes=,args="];
  const asked = systemClock.now();
  const { success, stdout, stderr } = await runToEnd("ps", args);
  if (!success) throw new AppError("not_supported", `ps ${args.join(" ")}: ${stderr.trim().slice(0, 200)}`);
  return stdout.split("\n").flatMap((line) => {
    const [, user = "", pid, seconds, args = ""] = /^(\S+) +(\d+) +(\d+) (.*)$/.exec(line) ?? [];
    const startedAfter = asked - (Number(seconds) + 1) * 1000;
    return pid === undefined ? [] : [{ user, pid: Number(pid), startedAfter, args }];
  });
}

/**
 * The process, if it is told of the config, or of one by a relative path that can be this. Whatever stands behind the
 * path: better one process too many is looked at.
 *
 * @param names the paths of the config, absolute
 */
function identify(process: Candidate, names: readonly string[], { service }: SoughtService): Candidate[] {
  const { config, isAmbiguous, service: found } = process.command;
  if (isAmbiguous) return names.some((name) => config.includes(name)) ? [process] : [];
  if (found !== service) return [];
  const told = names.find((name) => config === name || config.startsWith(`${name} `));
  if (told !== undefined) return [{ ...process, told }];
  const [path = ""] = config.split(" -");
  return !path.startsWith("/") && names.some((name) => name.endsWith(`/${normalize(path)}`)) ? [process] : [];
}

async function judge(candidate: Candidate, sought: SoughtService, configPath: string): Promise<Finding> {
  const { command, startedAfter } = candidate;
  const { file, service, workingFolder } = sought;
  const shown = describe(candidate);
  try {
    const { frontend } = command;
    const { flags } = await derivePermissions({ service, frontend, workingFolder, configPath });
    const granted = await readGranted(command, flags);
    const { more, less } = compareGranted(granted, readFlags(flags));
    const derived = `broker-ctl permissions ${service} --config ${configPath}` +
      (service === "broker" ? ` --frontend ${frontend}` : "");
    const isChanged = ((await Deno.stat(file)).mtime?.getTime() ?? 0) > startedAfter;
    const since = isChanged ? "; the config was changed since it was started" : "";
    if (granted.set !== undefined && !more.some((flag) => flag.startsWith("--"))) {
      return unknown(
        file,
        `${shown} may do what the set ${
          quoteText(granted.set)
        } of a deno.json has, which is not derived from its config`,
        `compare that with ${derived}`,
      );
    }
    if (more.length > 0) {
      return fail(
        file,
        `${shown} may do more than its config calls for: ${more.join(" ")}${since}`,
        `restart it; where that does not help, start it with what is derived: ${derived}`,
      );
    }
    return less.length === 0 ? pass(file, `${shown} may do what its config calls for`) : warn(
      file,
      `${shown} may not do all that its config calls for: ${less.join(" ")}${since}`,
      "restart it",
    );
  } catch (error) {
    return unknown(
      file,
      `what ${shown} may do is not known: ${errorText(error)}`,
      "start it as ctl/start.sh does; run this as who may read what it is started from",
    );
  }
}

function describe({ pid, user }: Running): string {
  return `process ${pid} of ${user}`;
}

/** @throws {Error} for what does not say what it may do */
async function readGranted(
  { runtime, program }: ServiceCommandLine,
  derived: readonly string[],
): Promise<Granted> {
  if (runtime === "") return await readExecutable(program);
  // What starts it, such as sudo, may stand before.
  const deno = /(?:^| )(?:\S*\/)?deno[^\s/]*(?= |$)/.exec(runtime);
  if (deno === null) throw new Error("it is not run by deno");
  const words = runtime.slice(deno.index + deno[0].length).trimStart().replace(/^run(?: |$)/, "");
  // As it should be it is known even where blanks are in paths: what follows is the beginning of the module's.
  const exact = derived.join(" ");
  const isExact = words === exact ||
    (words.startsWith(`${exact} /`) && !words.slice(exact.length).includes(" -"));
  return readFlags(isExact ? derived : words.split(/ (?=-)/).filter((word) => word !== ""));
}

async function readExecutable(path: string): Promise<Granted> {
  if (!path.startsWith("/")) throw new Error(`where ${quoteText(path)} is, can't be seen`);
  let bytes: Uint8Array;
  try {
    bytes = await readRegularFile(path);
  } catch (cause) {
    throw new Error(`cannot read ${quoteText(path)}: ${describeReadFailure(cause)}`, { cause });
  }
  const granted = readEmbedded(bytes);
  if (granted === undefined) throw new Error(`${quoteText(path)} is no executable of deno compile`);
  return granted;
}
