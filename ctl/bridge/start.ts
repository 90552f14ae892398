/**
 * Prints the command that starts the bridge with exactly the permissions that its settings need. `start.sh` runs this
 * module, because only a shell can replace itself with another program.
 *
 * @module
 */
import { extname } from "node:path";
import { fileURLToPath } from "node:url";
import { singleQuote, writeAllSync } from "@gateway/shared/text";
import { formatFlags } from "@gateway/shared/permissions";
import { exitCodeOf } from "@gateway/shared/service";
import { bridgePermissions, ENV_NAMES, readSettings } from "./settings.ts";

function describeCommand(args: readonly string[]): string {
  const variables = Object.fromEntries(ENV_NAMES.map((name) => [name, Deno.env.get(name)]));
  const settings = readSettings(args, { variables, workingFolder: Deno.cwd() });
  const isPrinted = settings.action === "help" || settings.action === "version";
  const flags = isPrinted ? ["--no-prompt", "--ignore-env"] : formatFlags(bridgePermissions(settings));
  const main = fileURLToPath(new URL(`main${extname(import.meta.url)}`, import.meta.url));
  return [Deno.execPath(), "run", "--quiet", ...flags, main, ...args].map(singleQuote).join(" ");
}

if (import.meta.main) {
  Deno.exitCode = await exitCodeOf(() => writeAllSync(Deno.stdout, describeCommand(Deno.args)));
}
