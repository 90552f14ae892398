import { systemClock } from "@gateway/shared/clock";
import { runProgram } from "../../debate/cli/program.ts";
import { ROOT } from "../stage/service_command.ts";
import { denoDir } from "../stage/deno_dir.ts";
import { createFolder } from "../stage/folder.ts";

/** Starts the program as a process without the settings of this machine. */
export function spawnDebate(
  args: readonly string[],
  folder: string,
  env: Readonly<Record<string, string>> = {},
  program = "debate/main.ts",
): Deno.ChildProcess {
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "-q", "--no-prompt", "--cached-only", "-P=run", `${ROOT}${program}`, ...args],
    clearEnv: true,
    env: { PATH: Deno.env.get("PATH") ?? "", HOME: folder, DENO_DIR: denoDir(), ...env },
    cwd: folder,
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
}

export async function runDebate(...given: Parameters<typeof spawnDebate>) {
  const { code, stdout, stderr } = await spawnDebate(...given).output();
  return { code, out: new TextDecoder().decode(stdout), err: new TextDecoder().decode(stderr) };
}

/** Runs the program in this process, which is faster than a new process. */
export async function runDebateHere(
  args: readonly string[],
  folder: string,
  env: Readonly<Record<string, string>> = {},
) {
  const written = { out: "", err: "" };
  const code = await runProgram(args, {
    terminal: {
      out: (text) => void (written.out += text),
      err: (text) => void (written.err += text),
      isLive: false,
      outColor: false,
      errColor: false,
      width: 80,
    },
    workingFolder: folder,
    variables: { HOME: folder, ...env },
    clock: systemClock,
    randomBytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
    signal: new AbortController().signal,
  });
  return { code, ...written };
}

export async function inFolder(test: (folder: string) => Promise<void>): Promise<void> {
  await using folder = await createFolder();
  await test(folder.path);
}
