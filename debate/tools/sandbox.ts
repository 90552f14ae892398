/**
 * Runs the programs of tools with `bwrap` (Debian package bubblewrap): read-only files, no privileges, and neither
 * network nor other processes unless the program needs them.
 */
import type { Clock } from "@gateway/shared/clock";
import { probe, type RunProgram, ToolFailure } from "./run_program.ts";

export const SANDBOX_PROGRAM = "bwrap";

/** A runner, and the reason why it runs programs without a sandbox. */
interface SandboxedRunner {
  readonly runProgram: RunProgram;
  readonly problem: string | undefined;
}

/**
 * Starts a program in a sandbox once, to learn whether this machine allows it. Services whose unit protects `/proc`
 * cannot mount another one: their programs have their own process IDs, and still see the processes of the machine.
 */
export async function openRunner(plain: RunProgram, clock: Clock): Promise<SandboxedRunner> {
  let problem: string | undefined;
  for (const ownProc of [true, false]) {
    const runProgram = inSandbox(plain, ownProc);
    problem = await probe({ runProgram, clock }, "cat", "/dev/null");
    if (problem === undefined) return { runProgram, problem };
  }
  return { runProgram: plain, problem };
}

function inSandbox(run: RunProgram, ownProc: boolean): RunProgram {
  return async (request) => {
    const { program, args, cwd, needs = [] } = request;
    const options = [
      ..."--ro-bind / / --dev /dev --cap-drop ALL --die-with-parent".split(
        " ",
      ),
      ...(needs.includes("network") ? [] : ["--unshare-net"]),
      ...(needs.includes("processes") ? [] : ["--unshare-pid", ...(ownProc ? ["--proc", "/proc"] : [])]),
      ...["--chdir", cwd],
    ];
    const result = await run({
      ...request,
      program: SANDBOX_PROGRAM,
      args: [...options, "--", program, ...args],
    });
    if (result.stderr.startsWith("bwrap: execvp ")) {
      throw new ToolFailure(`program ${program} is not installed`);
    }
    return result;
  };
}
