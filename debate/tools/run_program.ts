import { type Clock, Deadline, within } from "@gateway/shared/clock";
import { concatBytes } from "@gateway/shared/text";
import { dropPartialWord } from "../engine/graph/text.ts";

/** A tool rejected or failed a call. Model and operator read the message. */
export class ToolFailure extends Error {
  override readonly name = "ToolFailure";
}

export function refuse(reason: string): never {
  throw new ToolFailure(reason);
}

export interface ProgramRequest {
  readonly program: string;
  readonly args: readonly string[];
  readonly cwd: string;
  /** The environment, in addition to search path and locale. */
  readonly env?: Readonly<Record<string, string>>;
  /** Maximum bytes of both outputs together. A program that writes more is stopped. */
  readonly maxBytes?: number;
  /** The parts of the machine that the program needs; by default none. */
  readonly needs?: readonly ("network" | "processes")[];
  readonly signal: AbortSignal;
}

export interface ProgramResult {
  /** The reason of the stop, or `undefined` if the program exited. */
  readonly stopped: "signal" | "output" | undefined;
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program until it exits. If the signal is aborted, the result contains the output up to that time. */
export type RunProgram = (request: ProgramRequest) => Promise<ProgramResult>;

export const PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const BASE_ENV = { PATH: PROGRAM_PATH, LC_ALL: "C.UTF-8", TERM: "dumb", PAGER: "cat" };
const DEFAULT_MAX_BYTES = 256 * 1024;
/** A grandchild can keep an output open for this time after its parent has exited. */
const LINGER_MS = 500;

export function createProgramRunner(clock: Clock): RunProgram {
  return async ({ program, args, cwd, env = {}, maxBytes = DEFAULT_MAX_BYTES, signal }) => {
    signal.throwIfAborted();
    let child: Deno.ChildProcess;
    try {
      child = new Deno.Command(program, {
        args: [...args],
        cwd,
        env: { ...BASE_ENV, ...env },
        clearEnv: true,
        stdin: "null",
        stdout: "piped",
        stderr: "piped",
        // All processes of its process group can be killed together.
        detached: true,
      }).spawn();
    } catch (error) {
      if (!isMissing(error)) throw error;
      return refuse(`program ${program} is not installed, or the service has no permission to run it`);
    }
    const budget = { left: maxBytes };
    const full = Promise.withResolvers<"output">();
    const onFull = () => full.resolve("output");
    const outputs = [child.stdout, child.stderr].map((stream) => readOutput(stream, budget, onFull));
    const read = Promise.all(outputs.map((output) => output.done));
    const running = Promise.race([child.status.then(() => undefined), full.promise]);
    const stopped = await within({ clock, signal }, running).catch((error) => {
      if (signal.aborted) return "signal" as const;
      throw error;
    });
    if (stopped !== undefined) await killGroup(child);
    const { code } = await child.status;
    // Members of the group can still get signals after their leader has exited.
    await within({ clock, ms: LINGER_MS }, read).catch(() => killGroup(child));
    await Promise.all(outputs.map((output) => output.close()));
    const isCut = budget.left < 0;
    const [stdout = "", stderr = ""] = outputs.map((output) =>
      isCut ? dropPartialWord(output.text()) : output.text()
    );
    return { stopped: stopped ?? (isCut ? "output" : undefined), code, stdout, stderr };
  };
}

const PROBE_MS = 5000;

/** Starts a program. Returns the reason if it does not work. */
export async function probe(
  { runProgram, clock }: { readonly runProgram: RunProgram; readonly clock: Clock },
  program: string,
  ...args: readonly string[]
): Promise<string | undefined> {
  using deadline = new Deadline({
    clock,
    ms: PROBE_MS,
    late: () => new ToolFailure("its check does not end"),
  });
  try {
    const { stopped, code, stderr } = await runProgram({ program, args, cwd: "/", signal: deadline.signal });
    if (stopped === undefined && code === 0) return undefined;
    return stderr.trim() || `its check ended with exit code ${code}`;
  } catch (error) {
    if (error instanceof ToolFailure) return error.message;
    throw error;
  }
}

function isMissing(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotCapable;
}

/** `Deno.kill` needs the permission to run every program. The program `kill` needs only the permission for itself. */
async function killGroup(child: Deno.ChildProcess): Promise<void> {
  try {
    const { success } = await new Deno.Command("kill", {
      args: ["-KILL", "--", `-${child.pid}`],
      env: BASE_ENV,
      clearEnv: true,
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).output();
    if (success) return;
  } catch (error) {
    if (!isMissing(error)) throw error;
  }
  try {
    child.kill("SIGKILL");
  } catch {
    // The process has exited.
  }
}

function readOutput(stream: ReadableStream<Uint8Array>, budget: { left: number }, onFull: () => void) {
  const reader = stream.getReader();
  const chunks: Uint8Array[] = [];
  const read = async () => {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      if (budget.left > 0) chunks.push(value.subarray(0, budget.left));
      budget.left -= value.length;
      if (budget.left < 0) return onFull();
    }
  };
  const done = read();
  return {
    done,
    async close(): Promise<void> {
      await reader.cancel().catch(() => {});
      await done;
    },
    text: () => new TextDecoder().decode(concatBytes(chunks)),
  };
}
