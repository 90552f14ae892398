/**
 * `deno task test:kills [--rounds n] [--only command]`: kills writing commands of broker-ctl at any moment,
 * runs them again, and finds incomplete files, lost changes and stuck commands. Exit code 1 if there is one.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { runAtOnce } from "./at_once.ts";
import { runKills } from "./kill_run.ts";

function say(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(`${text}\n`));
}

const { values } = parseArgs({
  args: Deno.args,
  options: { rounds: { type: "string", default: "100" }, only: { type: "string", multiple: true } },
});
try {
  const options = { rounds: Number(values.rounds), ...(values.only && { only: values.only }), say };
  await runKills(options);
  await runAtOnce(options);
  say("nothing torn, nothing lost");
} catch (error) {
  say(`${error instanceof Error ? error.message : error}`);
  Deno.exit(1);
}
