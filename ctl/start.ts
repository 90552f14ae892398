/**
 * Prints the command that starts a service from source under exactly the permissions that its config calls for, for
 * `start.sh`: Deno can't become another program, a shell can.
 *
 * @module
 */
import { extname, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { BrokerFrontend } from "@gateway/broker/permissions";
import { singleQuote, writeAllSync } from "@gateway/shared/text";
import {
  derivePermissions,
  parseStart,
  type Service,
  type StartRequest,
} from "./setup/service_permissions.ts";
import { exitCodeOf, hintMissingConfig, writeError } from "./kit/output.ts";

if (import.meta.main) {
  try {
    writeAllSync(Deno.stdout, await describeCommand(parseStart(Deno.args), Deno.cwd()));
  } catch (error) {
    const err = (text: string) => writeAllSync(Deno.stderr, text);
    writeError({ out: err, err }, { json: false }, error);
    Deno.exitCode = exitCodeOf(error);
  }
}

async function describeCommand(request: StartRequest, workingFolder: string): Promise<string> {
  const configPath = resolve(workingFolder, request.config);
  const frontend = request.frontend ?? "serve-http";
  const { flags } = await hintMissingConfig(() =>
    derivePermissions({ service: request.service, configPath, workingFolder, frontend })
  );
  const main = fileURLToPath(
    new URL(`../${request.service.replaceAll("-", "_")}/main${extname(import.meta.url)}`, import.meta.url),
  );
  const words = [
    ...[Deno.execPath(), "run", ...flags, main, ...subcommand(request.service, frontend)],
    ...["--config", configPath, ...request.rest],
  ];
  return words.map(singleQuote).join(" ");
}

function subcommand(service: Service, frontend: BrokerFrontend): readonly string[] {
  return service === "broker" ? [frontend] : [];
}
