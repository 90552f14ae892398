/** Prints the command that `start.sh` executes, because Deno cannot replace its own process. */
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { singleQuote, writeAllSync } from "@gateway/shared/text";
import { readSettings } from "./cli/environment.ts";
import { exitCodeOf, writeFailure } from "./cli/options.ts";
import { serveFlags } from "./permissions.ts";
import { PROGRAM_PATH } from "./tools/run_program.ts";
import { SANDBOX_PROGRAM } from "./tools/sandbox.ts";

if (import.meta.main) {
  try {
    writeAllSync(Deno.stdout, await describeCommand(Deno.args, Deno.cwd()));
  } catch (error) {
    writeFailure({ err: (text) => writeAllSync(Deno.stderr, text) }, error, {});
    Deno.exitCode = exitCodeOf(error);
  }
}

/** The command that runs the server, quoted for a shell. */
async function describeCommand(args: readonly string[], workingFolder: string): Promise<string> {
  const settings = await readSettings({ variables: Deno.env.toObject(), workingFolder });
  const main = fileURLToPath(new URL(`main${extname(import.meta.url)}`, import.meta.url));
  const flags = serveFlags(settings, { workingFolder, hasSandbox: await hasProgram(SANDBOX_PROGRAM) });
  // Deno resolves allowed programs in its own search path. The tools use a path without wrappers of users.
  const search = `PATH=${PROGRAM_PATH}`;
  return ["env", search, Deno.execPath(), "run", "--quiet", ...flags, main, "serve", ...args].map(singleQuote)
    .join(" ");
}

async function hasProgram(name: string): Promise<boolean> {
  const found = PROGRAM_PATH.split(":").map((folder) =>
    Deno.stat(`${folder}/${name}`).catch(() => undefined)
  );
  return (await Promise.all(found)).some((file) => file?.isFile === true);
}
