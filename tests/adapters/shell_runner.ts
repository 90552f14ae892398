/**
 * Runs texts in the machine's shells and tells which commands each of them executed, word for word.
 *
 * The programs are shell functions that write their arguments to a file: one shell process reads thousands of
 * texts, each through `eval` in a subshell of its own, which parses exactly as `-c` does.
 */
import { join } from "node:path";
import { shellQuote } from "@gateway/shared/policy/elevation";

/** A shell of this machine. */
export interface Shell {
  readonly name: string;
  readonly command: readonly [string, ...string[]];
  readonly locale: string;
}

const SHELLS: readonly Shell[] = [
  { name: "dash", locale: "C.UTF-8", command: ["/bin/dash"] },
  { name: "bash", locale: "C.UTF-8", command: ["/bin/bash"] },
  { name: "bash in locale C", locale: "C", command: ["/bin/bash"] },
  { name: "bash --posix", locale: "C.UTF-8", command: ["/bin/bash", "--posix"] },
  { name: "busybox ash", locale: "C.UTF-8", command: ["/bin/busybox", "ash"] },
];

/** The shells that are installed; a missing one is told, or fails the run under REQUIRE_REAL_SERVERS=1. */
export async function findShells(): Promise<readonly Shell[]> {
  const found: Shell[] = [];
  for (const shell of SHELLS) {
    const runs = await new Deno.Command(shell.command[0], { args: [...shell.command.slice(1), "-c", ":"] })
      .output().then((output) => output.success, () => false);
    if (runs) {
      found.push(shell);
      continue;
    }
    if (Deno.env.get("REQUIRE_REAL_SERVERS") === "1") throw new Error(`Shell not installed: ${shell.name}`);
    await Deno.stderr.write(new TextEncoder().encode(`skipped: shell not installed: ${shell.name}\n`));
  }
  return found;
}

/** What a shell made of one text. */
export interface ShellRun {
  /** The words of each command that ran, in the order in which they ran (of a pipe: any order). */
  readonly executed: readonly (readonly string[])[];
}

// One printf per record: a single append, which the stages of a pipe cannot interleave.
const PRELUDE = `
record() { printf '%s\\037' "$number" "$#" "$@" >>"$record_file"; }
run() { number=$1; ( eval "$2" ) </dev/null >/dev/null 2>/dev/null; }
`;

/** Runs every text in one process of the shell; `programs` are the command names that are recorded. */
export async function runTexts(
  shell: Shell,
  { texts, programs }: { readonly texts: readonly string[]; readonly programs: readonly string[] },
): Promise<readonly ShellRun[]> {
  const folder = await Deno.makeTempDir({ prefix: "shell-runner-" });
  try {
    const script = [
      PRELUDE,
      ...programs.map((program) => `${program}() { record ${program} "$@"; }`),
      ...texts.map((text, index) => `run ${index} ${shellQuote(text)}`),
      "exit 0",
    ].join("\n");
    const recordFile = join(folder, "record");
    await Deno.writeTextFile(recordFile, "");
    await Deno.writeTextFile(join(folder, "script"), script);
    const [program, ...args] = shell.command;
    const { code } = await new Deno.Command(program, {
      args: [...args, join(folder, "script")],
      cwd: folder,
      clearEnv: true,
      env: { PATH: folder, HOME: "/home/agent", LC_ALL: shell.locale, record_file: recordFile },
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).output();
    if (code !== 0) throw new Error(`${shell.name} ended with ${code}`);
    return readRecords(await Deno.readTextFile(recordFile), texts.length);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

function readRecords(records: string, count: number): readonly ShellRun[] {
  const runs = Array.from({ length: count }, (): string[][] => []);
  const fields = records.split("\x1f");
  for (let at = 0; at + 2 < fields.length;) {
    const [number, length] = [Number(fields[at]), Number(fields[at + 1])];
    runs[number]!.push(fields.slice(at + 2, at + 2 + length));
    at += 2 + length;
  }
  return runs.map((executed) => ({ executed }));
}
