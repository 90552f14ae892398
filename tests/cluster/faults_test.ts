/** A short run of what `deno task test:faults` does at length. */
import { isPostgresMissing } from "../stage/postgres_server.ts";
import { runFaults } from "./fault_run.ts";

Deno.test({
  name:
    "nothing that signers and control planes acknowledged is contradicted when they, their database and wires fail",
  ignore: isPostgresMissing,
  async fn() {
    const report = await runFaults({ rounds: 8, clocks: false });
    Deno.stderr.writeSync(new TextEncoder().encode(`${report}\n`));
  },
});
