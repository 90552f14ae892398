import { type Clock, within } from "@gateway/shared/clock";
import { concatBytes } from "@gateway/shared/text";
import { withoutCutWord } from "../engine/graph/text.ts";

/** The reason why a tool could not do what was asked; the message is for the model and the operator. */
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
  /** Its whole environment, apart from the search path and the locale. */
  readonly env?: Readonly<Record<string, string>>;
  /** The most bytes of both outputs together; a program that writes more is stopped. */
  readonly maxBytes?: number;
  readonly signal: AbortSignal;
}

export interface ProgramResult {
  /** The reason for stopping the program; `undefined` if it ended by itself. */
  readonly stopped: "signal" | "output" | undefined;
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** Runs a program to its end. If the signal is aborted, the result contains the output up to then. */
export type RunProgram = (request: ProgramRequest) => Promise<ProgramResult>;

export const PROGRAM_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

const BASE_ENV = { PATH: PROGRAM_PATH, LC_ALL: "C.UTF-8", TERM: "dumb", PAGER: "cat" };
const DEFAULT_MAX_BYTES = 256 * 1024;
/** How long a grandchild may keep an output open after its parent has ended. */
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
        // The program gets its own process group, so that all of its processes can be ended.
        detached: true,
      }).spawn();
    } catch (error) {
      if (!isMissing(error)) throw error;
      return refuse(`The program ${program} is not installed, or the service may not run it`);
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
    // The group no longer has a leader, but its members can still be signalled.
    await within({ clock, ms: LINGER_MS }, read).catch(() => killGroup(child));
    await Promise.all(outputs.map((output) => output.close()));
    const isCut = budget.left < 0;
    const [stdout = "", stderr = ""] = outputs.map((output) =>
      isCut ? withoutCutWord(output.text()) : output.text()
    );
    return { stopped: stopped ?? (isCut ? "output" : undefined), code, stdout, stderr };
  };
}

function isMissing(error: unknown): boolean {
  return error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotCapable;
}

/** `Deno.kill` needs permission to run anything; the program `kill` needs only itself. */
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
    // It has ended.
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
