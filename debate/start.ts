/**
 * Starts the web server from source under exactly the permissions that its settings call for. It may start programs
 * of any name itself, which the server may not.
 *
 * @module
 */
import { fileURLToPath } from "node:url";
import { readSettings } from "./cli/environment.ts";
import { exitCodeOf, writeFailure } from "./cli/failure.ts";
import { ENV_NAMES } from "./config.ts";
import { serveFlags } from "./permissions.ts";

const FORWARDED = ["SIGTERM", "SIGHUP", "SIGINT"] as const satisfies readonly Deno.Signal[];

if (import.meta.main) {
  try {
    Deno.exitCode = await start(Deno.args, Deno.cwd());
  } catch (error) {
    const err = (text: string) => Deno.stderr.writeSync(new TextEncoder().encode(text));
    writeFailure({ err }, error, { json: false });
    Deno.exitCode = exitCodeOf(error);
  }
}

/** Runs the server until it ends, and gives its exit code. */
async function start(args: readonly string[], workingFolder: string): Promise<number> {
  const variables = Object.fromEntries(ENV_NAMES.map((name) => [name, Deno.env.get(name)]));
  const settings = await readSettings({ variables, workingFolder });
  const main = fileURLToPath(new URL("main.ts", import.meta.url));
  const child = new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", ...serveFlags(settings, { workingFolder }), main, "serve", ...args],
    stdin: "inherit",
    stdout: "inherit",
    stderr: "inherit",
  }).spawn();
  for (const signal of FORWARDED) Deno.addSignalListener(signal, () => forward(child, signal));
  return (await child.status).code;
}

/** A terminal sends Ctrl-C to the child as well: passing it on would be a second one, which means at once. */
function forward(child: Deno.ChildProcess, signal: Deno.Signal): void {
  if (signal === "SIGINT" && Deno.stdin.isTerminal()) return;
  try {
    child.kill(signal);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound || error instanceof TypeError)) throw error;
  }
}
