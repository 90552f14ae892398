/**
 * `broker-ctl`: sets up and operates the access broker.
 *
 * @module
 */
import { writeAllSync } from "@gateway/shared/text";
import { ENV_NAMES } from "./kit/client_config.ts";
import { runProgram } from "./program.ts";

/** Signals that end the process. */
const ENDING = ["SIGINT", "SIGTERM", "SIGHUP"] as const;

if (import.meta.main) {
  Deno.exitCode = await runProgram(Deno.args, {
    terminal: {
      out: (text) => writeAllSync(Deno.stdout, text),
      err: (text) => writeAllSync(Deno.stderr, text),
      // A terminal of unknown width reports 0.
      columns: Deno.stdout.isTerminal() && Deno.consoleSize().columns || undefined,
      color: Deno.stdout.isTerminal() && !Deno.env.get("NO_COLOR") && Deno.env.get("TERM") !== "dumb",
      screen: Deno.stdin.isTerminal() ? Deno.consoleSize : undefined,
    },
    keys: Deno.stdin.isTerminal() ? readKeys : undefined,
    dropPrograms: () => void Deno.permissions.revokeSync({ name: "run" }),
    workingFolder: Deno.cwd(),
    variables: Object.fromEntries(ENV_NAMES.map((name) => [name, Deno.env.get(name)])),
  });
}

/**
 * The typed keys until the signal is aborted, or the process is signaled to end. The terminal does not echo them, and
 * delivers Ctrl-C as a key.
 */
async function* readKeys(signal: AbortSignal): AsyncGenerator<string> {
  Deno.stdin.setRaw(true);
  const reader = Deno.stdin.readable.getReader();
  const stop = () => void reader.cancel();
  signal.addEventListener("abort", stop, { once: true });
  for (const name of ENDING) Deno.addSignalListener(name, stop);
  const decoder = new TextDecoder();
  try {
    while (!signal.aborted) {
      const { done, value } = await reader.read();
      if (done) return;
      yield* decoder.decode(value, { stream: true });
    }
  } finally {
    signal.removeEventListener("abort", stop);
    for (const name of ENDING) Deno.removeSignalListener(name, stop);
    Deno.stdin.setRaw(false);
  }
}
