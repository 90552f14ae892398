/**
 * Prints the command that starts a service from source with exactly the permissions that its config needs. `start.sh`
 * runs this module, because only a shell can replace itself with another program.
 *
 * @module
 */
import { extname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { singleQuote, writeAllSync } from "@gateway/shared/text";
import { derivePermissions, parseStart, type StartRequest } from "./setup/service_permissions.ts";
import { exitCodeOf, withFix, writeError } from "./kit/output.ts";

if (import.meta.main) {
  try {
    writeAllSync(Deno.stdout, await describeCommand(parseStart(Deno.args), Deno.cwd()));
  } catch (error) {
    const err = (text: string) => writeAllSync(Deno.stderr, text);
    writeError({ out: err, err }, { output: "table" }, withFix(error, "broker-ctl help permissions"));
    Deno.exitCode = exitCodeOf(error);
  }
}

async function describeCommand(
  { service, frontend = "serve-http", config, rest }: StartRequest,
  workingFolder: string,
): Promise<string> {
  const configPath = resolve(workingFolder, config);
  const { flags } = await derivePermissions({ service, configPath, workingFolder, frontend });
  const main = new URL(`../${service.replaceAll("-", "_")}/main${extname(import.meta.url)}`, import.meta.url);
  const subcommand = service === "broker" ? [frontend] : [];
  const words = [
    Deno.execPath(),
    "run",
    ...flags,
    fileURLToPath(main),
    ...subcommand,
    "--config",
    configPath,
  ];
  return [...words, ...rest].map(singleQuote).join(" ");
}
