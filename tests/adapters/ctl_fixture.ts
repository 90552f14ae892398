/** What the tests of `broker-ctl` share. */
import { runProgram } from "../../ctl/program.ts";

/** A temporary folder, removed at the end. */
export async function createFolder(): Promise<{ readonly path: string } & AsyncDisposable> {
  const path = await Deno.makeTempDir({ prefix: "ctl-init-" });
  return { path, [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }) };
}

/** Runs `broker-ctl` in this process, with no environment and no terminal. */
export function run(workingFolder: string, ...args: string[]) {
  return runInTerminal({ workingFolder }, ...args);
}

/** Runs `broker-ctl` as {@linkcode run} does, in a terminal of so many columns, or with variables. */
export async function runInTerminal(
  { workingFolder, columns, variables = {} }: {
    readonly workingFolder: string;
    readonly columns?: number;
    readonly variables?: Readonly<Record<string, string>>;
  },
  ...args: string[]
) {
  const result = { out: "", err: "" };
  const exit = await runProgram(args, {
    terminal: {
      out: (text) => void (result.out += text),
      err: (text) => void (result.err += text),
      columns,
    },
    workingFolder,
    variables,
  });
  return { ...result, exit };
}

/** Runs a command that ends only when it is stopped; what it writes can be watched. */
export function start(workingFolder: string, ...args: string[]) {
  const controller = new AbortController();
  const result = { out: "", err: "" };
  const exit = runProgram(args, {
    terminal: { out: (text) => void (result.out += text), err: (text) => void (result.err += text) },
    workingFolder,
    variables: {},
    signal: controller.signal,
  });
  return {
    result,
    stop: () => {
      controller.abort();
      return exit;
    },
  };
}

/** The names in a folder, sorted. */
export async function names(folder: string): Promise<string[]> {
  return (await Array.fromAsync(Deno.readDir(folder), ({ name }) => name)).sort();
}
