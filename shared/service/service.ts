/**
 * The command line, the end and the version of every service, and the texts for operators when it fails.
 *
 * @module
 */
import { writeAllSync } from "../text.ts";
import { AppError } from "../errors.ts";

const FLAGS = "--config FILE, --version, --verbose, --help";
type Switch = "version" | "verbose" | "help";
const SWITCHES = new Map<string, Switch>([["version", "version"], ["verbose", "verbose"], ["help", "help"], [
  "h",
  "help",
]]);

/**
 * Parses a service's command line: long options with one dash or two, values after `=` or as the next argument. The last
 * of several counts.
 *
 * @throws {AppError} `invalid_request` for an unknown option, a missing value or any other argument
 */
export function parseServiceArguments(
  args: readonly string[],
  { defaultConfig }: { readonly defaultConfig: string },
): { readonly config: string } & Readonly<Record<Switch, boolean>> {
  let config = defaultConfig;
  const switches = { version: false, verbose: false, help: false };
  const rest = args.values();
  for (const argument of rest) {
    const [, name = "", value] = /^--?([a-z]+)(?:=(.*))?$/s.exec(argument) ?? [];
    if (name === "config") {
      config = value ?? rest.next().value ?? "";
      if (config === "") throw new AppError("invalid_request", "Option --config needs the name of a file");
      continue;
    }
    const known = SWITCHES.get(name);
    if (known === undefined) {
      const message = `Unknown argument ${JSON.stringify(argument)}: known are ${FLAGS}`;
      throw new AppError("invalid_request", message);
    }
    switches[known] = parseSwitch(argument, value);
  }
  return { config, ...switches };
}

function parseSwitch(argument: string, value: string | undefined): boolean {
  if (value === undefined || value === "true") return true;
  if (value === "false") return false;
  throw new AppError("invalid_request", `Cannot use option ${JSON.stringify(argument)}: it is true or false`);
}

/** Resolves with the first signal. A second signal then ends a service that hangs while it stops. */
export function waitForStop(signals: readonly Deno.Signal[] = ["SIGINT", "SIGTERM"]): Promise<Deno.Signal> {
  return new Promise((resolve) => {
    const listeners = signals.map((signal) => ({
      signal,
      listener: () => {
        for (const other of listeners) Deno.removeSignalListener(other.signal, other.listener);
        resolve(signal);
      },
    }));
    for (const { signal, listener } of listeners) Deno.addSignalListener(signal, listener);
  });
}

/**
 * Runs a service and gives its exit code: its result or, after a failure, 2 for a wrong command line and 1 otherwise.
 *
 * @param tell shows a text to the operator, by default on stderr
 */
export async function exitCodeOf(
  run: () => Promise<number | void> | number | void,
  tell: (text: string) => void = (text) => writeAllSync(Deno.stderr, text),
): Promise<number> {
  try {
    return await run() ?? 0;
  } catch (error) {
    tell(`${describeFailure(error)}\n`);
    return error instanceof AppError && error.code === "invalid_request" ? 2 : 1;
  }
}

function describeFailure(error: unknown): string {
  if (error instanceof AppError) return error.message;
  return error instanceof Error ? `Unexpected failure: ${error.stack ?? error.message}` : String(error);
}
