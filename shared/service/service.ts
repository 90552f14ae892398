/**
 * What the `main.ts` of every service shares: its command line, its end, and what an operator reads when it
 * fails.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { parseServiceArguments } from "@gateway/shared/service";
 *
 * const options = parseServiceArguments(["-config", "/etc/gateway/signer.json"], { defaultConfig: "signer.json" });
 * assert.equal(options.config, "/etc/gateway/signer.json");
 * assert.equal(options.version, false);
 * ```
 *
 * @module
 */
import { writeAllSync } from "../text.ts";
import { AppError } from "../errors.ts";

interface ServiceArguments {
  readonly config: string;
  readonly version: boolean;
  readonly verbose: boolean;
  readonly help: boolean;
}

interface ServiceArgumentsOptions {
  /** The config file when the command line names none. */
  readonly defaultConfig: string;
}

const FLAGS = "--config FILE, --version, --verbose, --help";
const SWITCHES = { version: "version", verbose: "verbose", help: "help", h: "help" } as const;

/**
 * Parses a service's command line. Long options with one dash or two, values after `=` or as the next
 * argument; the last of several counts. Nothing is ignored.
 *
 * @throws {AppError} `invalid_request` for an unknown option, a missing value or any other argument
 */
export function parseServiceArguments(
  args: readonly string[],
  options: ServiceArgumentsOptions,
): ServiceArguments {
  let config = options.defaultConfig;
  const switches = { version: false, verbose: false, help: false };
  const rest = args.values();
  for (const argument of rest) {
    const { name, value } = splitOption(argument);
    if (name === "config") {
      config = value ?? rest.next().value ?? "";
      if (config === "") throw new AppError("invalid_request", "Option --config needs the name of a file");
    } else if (isSwitch(name)) {
      switches[SWITCHES[name]] = parseSwitch(argument, value);
    } else {
      throw new AppError(
        "invalid_request",
        `Unknown argument ${JSON.stringify(argument)}: known are ${FLAGS}`,
      );
    }
  }
  return { config, ...switches };
}

function splitOption(argument: string): { readonly name: string; readonly value: string | undefined } {
  const match = /^--?([a-z]+)(?:=(.*))?$/s.exec(argument);
  return { name: match?.[1] ?? "", value: match?.[2] };
}

function isSwitch(name: string): name is keyof typeof SWITCHES {
  return Object.hasOwn(SWITCHES, name);
}

function parseSwitch(argument: string, value: string | undefined): boolean {
  if (value === undefined || value === "true") return true;
  if (value === "false") return false;
  throw new AppError("invalid_request", `Cannot use option ${JSON.stringify(argument)}: it is true or false`);
}

/** The signals that ask a service to end. */
const STOP_SIGNALS: readonly Deno.Signal[] = ["SIGINT", "SIGTERM"];

/**
 * Resolves with the name of the first signal that arrives. After that the signals have their usual effect
 * again, so that a second one ends a service that hangs while it stops.
 */
export function waitForStop(signals: readonly Deno.Signal[] = STOP_SIGNALS): Promise<Deno.Signal> {
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
 * Runs a service and gives its exit code: what it returns, or for a failure, which is told the operator, 2
 * when the command line is wrong and 1 otherwise.
 *
 * @param tell shows a text to the operator, by default on stderr
 */
export async function exitCodeOf(
  run: () => Promise<number | void> | number | void,
  tell: (text: string) => void = writeToStderr,
): Promise<number> {
  try {
    return await run() ?? 0;
  } catch (error) {
    tell(`${describeFailure(error)}\n`);
    return error instanceof AppError && error.code === "invalid_request" ? 2 : 1;
  }
}

function writeToStderr(text: string): void {
  writeAllSync(Deno.stderr, text);
}

/** What an operator is told: the message of an {@linkcode AppError}; everything, when it is a defect of ours. */
function describeFailure(error: unknown): string {
  if (error instanceof AppError) return error.message;
  return error instanceof Error ? `Unexpected failure: ${error.stack ?? error.message}` : String(error);
}
