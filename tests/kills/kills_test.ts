/** A short run of what `deno task test:kills` does at length. */
import { runAtOnce } from "./at_once.ts";
import { runKills } from "./kill_run.ts";

Deno.test("commands that are killed while they write leave nothing torn, and do it when they are run again", async () => {
  await runKills({ rounds: 2, only: ["identity renew", "restore"] });
});

Deno.test("of two who do the same at once each is told how it went, and what they leave is whole", async () => {
  await runAtOnce({ rounds: 1, only: ["init --force", "host add"] });
});
