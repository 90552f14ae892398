import "@gateway/shared/service/no_storage";
import { systemClock } from "@gateway/shared/clock";
import { writeAllSync } from "@gateway/shared/text";
import type { Environment } from "./cli/environment.ts";
import type { ExitCode } from "./cli/options.ts";
import { runProgram } from "./cli/program.ts";

const SIGNALS = ["SIGINT", "SIGTERM", "SIGHUP"] as const satisfies readonly Deno.Signal[];
const DEFAULT_WIDTH = 80;
const MIN_WIDTH = 40;
const MAX_WIDTH = 120;

if (import.meta.main) await runHere(runProgram);

/** Runs a program of the debate with the terminal, signals and settings of this process, then exits. */
export async function runHere(
  run: (args: readonly string[], environment: Environment) => Promise<ExitCode>,
): Promise<never> {
  const stop = new AbortController();
  const onSignal = () => {
    stop.abort(new Error("stopped"));
    // A second signal ends the program immediately.
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
          // The terminal is closed. A run must not fail because its progress cannot be shown.
        }
      },
      isLive,
      outColor: Deno.stdout.isTerminal() && !Deno.noColor,
      errColor: isLive && !Deno.noColor,
      width: isLive ? Math.min(MAX_WIDTH, columns()) : DEFAULT_WIDTH,
    },
    workingFolder: Deno.cwd(),
    // The permission set allows only the variables of the settings and of the tools.
    variables: Deno.env.toObject(),
    clock: systemClock,
    randomBytes: (length) => crypto.getRandomValues(new Uint8Array(length)),
    signal: stop.signal,
  });
  // A stopped run can leave listeners and timers, which would keep the process alive.
  Deno.exit();
}

function columns(): number {
  try {
    const { columns } = Deno.consoleSize();
    // A terminal with an unknown width reports 0.
    return columns === 0 ? DEFAULT_WIDTH : Math.max(MIN_WIDTH, columns);
  } catch {
    return DEFAULT_WIDTH;
  }
}
