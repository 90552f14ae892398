import "@gateway/shared/service/no_storage";
import { systemClock } from "@gateway/shared/clock";
import { writeAllSync } from "@gateway/shared/text";
import type { Environment } from "./cli/environment.ts";
import type { ExitCode } from "./cli/options.ts";
import { runProgram } from "./cli/program.ts";
import { ENV_NAMES } from "./settings/config.ts";
import { TOOL_ENV_NAMES } from "./tools/catalogue.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const satisfies readonly Deno.Signal[];
const DEFAULT_WIDTH = 80;
const MIN_WIDTH = 40;
const MAX_WIDTH = 120;

if (import.meta.main) await runHere(runProgram);

/** Runs a program of the debate with this process's terminal, signals and settings, and ends the process. */
export async function runHere(
  run: (args: readonly string[], environment: Environment) => Promise<ExitCode>,
): Promise<never> {
  const stop = new AbortController();
  const onSignal = () => {
    stop.abort(new Error("stopped"));
    // A second signal ends the program at once.
    for (const signal of SIGNALS) Deno.removeSignalListener(signal, onSignal);
  };
  for (const signal of SIGNALS) Deno.addSignalListener(signal, onSignal);
  const isLive = Deno.stderr.isTerminal();
  Deno.exitCode = await run(Deno.args, {
    terminal: {
      out: (text) => writeAllSync(Deno.stdout, text),
      err(text) {
        try {
          writeAllSync(Deno.stderr, text);
        } catch {
          // The terminal is gone. The result is printed even if progress can no longer be shown.
        }
      },
      isLive,
      outColour: Deno.stdout.isTerminal() && !Deno.noColor,
      errColour: isLive && !Deno.noColor,
      width: isLive ? Math.min(MAX_WIDTH, columns()) : DEFAULT_WIDTH,
    },
    workingFolder: Deno.cwd(),
    variables: Object.fromEntries(
      [...ENV_NAMES, ...TOOL_ENV_NAMES].map((name) => [name, Deno.env.get(name)]),
    ),
    clock: systemClock,
    randomBytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
    signal: stop.signal,
  });
  // The program does not wait for listeners or for what a stopped run leaves behind.
  Deno.exit();
}

function columns(): number {
  try {
    const { columns } = Deno.consoleSize();
    // A terminal that does not know its width reports 0.
    return columns === 0 ? DEFAULT_WIDTH : Math.max(MIN_WIDTH, columns);
  } catch {
    return DEFAULT_WIDTH;
  }
}
