/**
 * `broker-ctl`: sets up and operates the access broker.
 *
 * @module
 */
import { writeAllSync } from "@gateway/shared/text";
import { ENV_NAMES } from "./find_client.ts";
import { readKeys } from "./read_keys.ts";
import { runProgram } from "./program.ts";

if (import.meta.main) {
  Deno.exitCode = await runProgram(Deno.args, {
    terminal: {
      out: (text) => writeAllSync(Deno.stdout, text),
      err: (text) => writeAllSync(Deno.stderr, text),
      // A terminal that says 0 does not know.
      columns: Deno.stdout.isTerminal() && Deno.consoleSize().columns || undefined,
    },
    keys: Deno.stdin.isTerminal() ? readKeys : undefined,
    dropPrograms: () => void Deno.permissions.revokeSync({ name: "run" }),
    workingFolder: Deno.cwd(),
    variables: Object.fromEntries(ENV_NAMES.map((name) => [name, Deno.env.get(name)])),
  });
}
