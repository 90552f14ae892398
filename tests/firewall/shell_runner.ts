/**
 * Runs texts in a real shell and returns the commands that it executed, word for word.
 *
 * No program of the machine can run: PATH is a temporary directory of stubs that record their arguments, and
 * the environment is empty. `runTexts` passes thousands of texts to one process. Each runs through `eval`,
 * which parses like `-c`. The stubs are functions, so builtins with their names do not run. `runProcesses`
 * starts the shell for every text, like sshd, and its stubs are executables.
 */
import { join } from "node:path";
import { shellQuote } from "@gateway/shared/text";
import { FAILING, isFunctionName } from "./belief.ts";
import type { Shell } from "./shells.ts";

export interface Batch {
  readonly texts: readonly string[];
  /** The names of the stubs; none contains a `/`. */
  readonly stubs: ReadonlySet<string>;
  /** The texts that may end the shell and therefore run in a separate subshell. */
  readonly apart?: ReadonlySet<number>;
  /** No stub is a function: builtins run for real, and a changed PATH is detected. */
  readonly asExecutables?: boolean;
}

/** The words of each command that one text ran, in the order in which they ran (of a pipe: any order). */
export type Executed = readonly (readonly string[])[];

// Names that no text can contain by accident.
const [RECORD, RUN, APART, END] = ["_fw_record", "_fw_run", "_fw_apart", "_fw_end"];

// One write per record: a single append, which the stages of a pipe cannot interleave.
const createPrelude = ({ write = `command printf '%s\\037' "$@"` }: Shell): string => `
export _fw_number=0
_fw_write() { ${write}; }
${RECORD}() { _fw_write "$_fw_number" "$#" "$@" >>"$_fw_file"; }
${RUN}() { _fw_number=$1; eval "$2"; }
${APART}() { _fw_number=$1; ( eval "$2" ); }
`;

const FOR_FUNCTIONS = `
# Bash and zsh call it for a name that has no stub, and so nobody believed in. (Busybox gives it the name alone.)
if [ -n "$BASH_VERSION$ZSH_VERSION" ]; then
  command_not_found_handle() { ${RECORD} "$@"; return 127; }
  command_not_found_handler() { ${RECORD} "$@"; return 127; }
fi
# An alias of mksh, which would stand in the way of a function.
[ -z "$KSH_VERSION" ] || unalias type || :
`;

const EXECUTABLE = `#!/bin/dash
printf '%s\\037' "$_fw_number" "$(($# + 1))" "\${0##*/}" "$@" >>"$_fw_file"
case "\${0##*/}" in ${FAILING.join("|")}) exit 1;; esac
`;

/**
 * Runs all texts in one process of the shell. If a text ends the shell, runs them again with a subshell each.
 * Returns undefined if the texts still do not complete, or if they leave a file behind.
 */
export async function runTexts(shell: Shell, batch: Batch): Promise<readonly Executed[] | undefined> {
  const all = new Set(batch.texts.keys());
  return await tryTexts(shell, batch) ?? await tryTexts(shell, { ...batch, apart: all });
}

async function tryTexts(shell: Shell, batch: Batch): Promise<readonly Executed[] | undefined> {
  const functions = batch.asExecutables === true ? [] : [...batch.stubs].filter(isFunctionName);
  const script = [
    createPrelude(shell),
    ...(batch.asExecutables === true ? [] : [FOR_FUNCTIONS]),
    ...functions.map((name) =>
      `${name}() { ${RECORD} ${name} "$@"; ${FAILING.includes(name) ? "return 1; " : ""}}`
    ),
    ...batch.texts.map((text, index) =>
      `${batch.apart?.has(index) === true ? APART : RUN} ${index} ${shellQuote(text)}`
    ),
    `${RECORD} ${END}`,
    "exit 0",
  ].join("\n");
  const executables = batch.stubs.difference(new Set(functions));
  return await runScript({ shell, command: shell.command, script, executables, count: batch.texts.length });
}

const DRIVER: Shell = { name: "dash", command: ["/bin/dash"], locale: "C.UTF-8" };

/** Starts the shell with `-c` for every text; undefined as in {@linkcode runTexts}. */
export async function runProcesses(
  shell: Shell,
  { texts, stubs }: Batch,
): Promise<readonly Executed[] | undefined> {
  const start = shell.command.map(shellQuote).join(" ");
  const script = [
    createPrelude(DRIVER),
    ...texts.map((text, index) => `_fw_number=${index}; ${start} -c ${shellQuote(text)}`),
    `${RECORD} ${END}`,
    "exit 0",
  ].join("\n");
  const count = texts.length;
  return await runScript({ shell, command: DRIVER.command, script, executables: stubs, count });
}

interface Script {
  readonly shell: Shell;
  readonly command: readonly [string, ...string[]];
  readonly script: string;
  readonly executables: ReadonlySet<string>;
  readonly count: number;
}

async function runScript(
  { shell, command: [program, ...args], script, executables, count }: Script,
): Promise<readonly Executed[] | undefined> {
  const folder = await Deno.makeTempDir({ prefix: "firewall-" });
  try {
    const [recordFile, scriptFile, stubs, work] = ["record", "script", "stubs", "work"].map((name) =>
      join(folder, name)
    );
    await Deno.mkdir(stubs!);
    await Deno.mkdir(work!);
    await writeExecutables(folder, stubs!, executables);
    await Deno.writeTextFile(recordFile!, "");
    await Deno.writeTextFile(scriptFile!, script);
    // Many times the usual duration. A text that waits must not block the run forever.
    const signal = AbortSignal.timeout(30_000 + 10 * count);
    const { status, stderr } = new Deno.Command(program, {
      args: [...args, scriptFile!],
      cwd: work!,
      clearEnv: true,
      env: { PATH: stubs!, HOME: "/home/agent", LC_ALL: shell.locale, _fw_file: recordFile! },
      stdin: "null",
      stdout: "null",
      stderr: "piped",
      signal,
    }).spawn();
    // Some shells do not wait for all stages of a pipe. The record is complete when all processes closed it.
    await Promise.all([status, stderr.pipeTo(new WritableStream(), { signal }).catch(() => {})]);
    const left = await Array.fromAsync(Deno.readDir(work!));
    return left.length > 0 ? undefined : readRecords(await Deno.readTextFile(recordFile!), count);
  } finally {
    await removeFolder(folder);
  }
}

/** A pipe stage that is still running may create the record again. */
async function removeFolder(folder: string): Promise<void> {
  for (let left = 100;; left -= 1) {
    try {
      return await Deno.remove(folder, { recursive: true });
    } catch (error) {
      if (left === 0) throw error;
    }
  }
}

async function writeExecutables(folder: string, stubs: string, names: ReadonlySet<string>): Promise<void> {
  const executable = join(folder, "stub");
  await Deno.writeTextFile(executable, EXECUTABLE, { mode: 0o700 });
  for (const name of names) await Deno.symlink(executable, join(stubs, name));
}

function readRecords(records: string, count: number): readonly Executed[] | undefined {
  const runs = Array.from({ length: count }, (): string[][] => []);
  const fields = records.split("\x1f");
  let hasEnded = false;
  for (let at = 0; at + 2 < fields.length;) {
    const [number, length] = [Number(fields[at]), Number(fields[at + 1])];
    const words = fields.slice(at + 2, at + 2 + length);
    // A pipe stage that its shell did not wait for may write after the end mark.
    if (words[0] === END) hasEnded = true;
    else runs[number]!.push(words);
    at += 2 + length;
  }
  return hasEnded ? runs : undefined;
}
