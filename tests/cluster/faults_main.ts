/**
 * `deno task test:faults [--rounds n] [--no-clocks]`: injects faults into signers, control planes, database
 * and wires, and checks the acknowledged answers for contradictions. Exit code 1 if there is one.
 *
 * @module
 */
import { parseArgs } from "node:util";
import { hasClocks } from "./cluster.ts";
import { runFaults } from "./fault_run.ts";

function say(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(`${text}\n`));
}

const { values } = parseArgs({
  args: Deno.args,
  options: {
    rounds: { type: "string", default: "200" },
    "no-clocks": { type: "boolean", default: false },
  },
});
const clocks = !values["no-clocks"];
if (clocks && !hasClocks()) {
  say("Clocks can't be set: install libfaketime, or leave them alone with --no-clocks");
  Deno.exit(2);
}
const from = performance.now();
try {
  const report = await runFaults({ rounds: Number(values.rounds), clocks, say });
  say(`${report}\n\nno contradiction, nothing lost; ${((performance.now() - from) / 1000).toFixed(0)} s`);
} catch (error) {
  say(`${error instanceof Error ? error.stack : error}`);
  Deno.exit(1);
}
