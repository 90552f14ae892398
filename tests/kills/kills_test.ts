/** A short run of what `deno task test:kills` does at length. */
import { runKills } from "./kill_run.ts";

Deno.test("commands that are killed while they write leave nothing torn, and do it when they are run again", async () => {
  await runKills({ rounds: 2, only: ["identity renew", "restore"] });
});
