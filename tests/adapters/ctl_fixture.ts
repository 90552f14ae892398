/** Shared by the tests of `broker-ctl` share. */
import { runProgram } from "../../ctl/program.ts";
import { createFolder } from "../stage/folder.ts";

export { createFolder, names } from "../stage/folder.ts";

/** The keys that a signer config requires. Their paths are never read. */
export const SIGNER_KEYS: Readonly<Record<string, string>> = Object.fromEntries(
  ["server_cert", "server_key", "client_ca", "ca_key", "audit_log", "audit_key"].map((key) => [key, "x"]),
);

/** The words of a command line. Only the first text is split at spaces. */
export function words(line: string | readonly string[]): string[] {
  const [text = "", ...more] = [line].flat();
  return text === "" ? more : [...text.split(" "), ...more];
}

/** Runs `broker-ctl` in this process, with no environment and no terminal. */
export function run(workingFolder: string, ...args: string[]) {
  return runInTerminal({ workingFolder }, ...args);
}

/** A directory with a signer's config, and `broker-ctl` in it. */
export async function withConfig(text: string) {
  const folder = await createFolder();
  const path = `${folder.path}/signer.json`;
  await Deno.writeTextFile(path, text, { mode: 0o640 });
  return {
    folder: folder.path,
    path,
    ctl: (...args: string[]) => run(folder.path, ...args),
    read: () => Deno.readTextFile(path),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

/** Runs `broker-ctl` like {@linkcode run}, in a terminal with this many columns or with variables or keys. */
export async function runInTerminal(
  { workingFolder, columns, variables = {}, keys }: {
    readonly workingFolder: string;
    readonly columns?: number;
    readonly keys?: () => AsyncIterable<string>;
    readonly variables?: Readonly<Record<string, string>>;
  },
  ...args: string[]
) {
  const result = { out: "", err: "" };
  const exit = await runProgram(words(args), {
    terminal: {
      out: (text) => void (result.out += text),
      err: (text) => void (result.err += text),
      columns,
    },
    workingFolder,
    variables,
    keys,
  });
  return { ...result, exit };
}

/** Starts a command that ends only when it is stopped. Its output can be watched. */
export function start(workingFolder: string, ...args: string[]) {
  const controller = new AbortController();
  const result = { out: "", err: "" };
  const exit = runProgram(words(args), {
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
