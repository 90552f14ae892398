/** A short version of `deno task test:kills`. */
import { runKills } from "./kill_run.ts";

Deno.test("commands killed during writes leave no partial file, and complete when they are run again", async () => {
  await runKills({ rounds: 2, only: ["identity renew", "restore"] });
});
