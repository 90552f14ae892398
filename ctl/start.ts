/**
 * Starts a service from source under exactly the permissions that its config calls for. For development: it
 * may start programs, which none of the services may.
 *
 * @module
 */
import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import type { BrokerFrontend } from "@gateway/broker/permissions";
import { writeAllSync } from "@gateway/shared/bytes";
import { derivePermissions, memberOf, type Service } from "./service_permissions.ts";
import { exitCodeOf } from "./exit_code.ts";
import { hintMissingConfig } from "./missing_config.ts";
import { writeError } from "./output.ts";
import { parseStart, type StartRequest } from "./start_arguments.ts";

const FORWARDED = ["SIGTERM", "SIGHUP", "SIGINT"] as const satisfies readonly Deno.Signal[];

if (import.meta.main) {
  try {
    Deno.exitCode = await start(parseStart(Deno.args), Deno.cwd());
  } catch (error) {
    const err = (text: string) => writeAllSync(Deno.stderr, text);
    writeError({ out: err, err }, { json: false }, error);
    Deno.exitCode = exitCodeOf(error);
  }
}

/** Runs the service until it ends, and gives its exit code. */
async function start(request: StartRequest, workingFolder: string): Promise<number> {
  const configPath = resolve(workingFolder, request.config);
  const frontend = request.frontend ?? "serve-http";
  const { flags } = await hintMissingConfig(() =>
    derivePermissions({ service: request.service, configPath, workingFolder, frontend })
  );
  const main = fileURLToPath(new URL(`../${memberOf(request.service)}/main.ts`, import.meta.url));
  const args = [
    "run",
    ...flags,
    main,
    ...subcommand(request.service, frontend),
    "--config",
    configPath,
  ];
  const child = new Deno.Command(Deno.execPath(), {
    args: [...args, ...request.rest],
    stdin: "inherit",
    stdout: "inherit",
    stderr: "inherit",
  }).spawn();
  for (const signal of FORWARDED) Deno.addSignalListener(signal, () => forward(child, signal));
  return (await child.status).code;
}

function subcommand(service: Service, frontend: BrokerFrontend): readonly string[] {
  return service === "broker" ? [frontend] : [];
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
