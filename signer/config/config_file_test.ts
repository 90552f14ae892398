import assert from "node:assert/strict";
import type { Clock } from "@gateway/shared/clock";
import { openConfigFile } from "./config_file.ts";
import type { Snapshot } from "./snapshot.ts";
import { CONFIG, snapshotOf } from "../testing/memory_signer.ts";

/** Time passes quickly, so that whatever may pause does; what takes long enough to be a bound is not waited for. */
function hastyClock() {
  let [now, pauses] = [0, 0];
  const sleep = (ms: number) => ms > 1 ? new Promise<void>(() => {}) : Promise.resolve(void pauses++);
  const clock: Clock = { now: () => now += 50, sleep };
  return { clock, pauses: () => pauses };
}

Deno.test("a config file is read and compiled in slices: many hosts don't keep requests waiting", async () => {
  const hostOf = (n: number) => [`host-${n}`, { ...CONFIG.hosts.open01, principal: `host:${n}` }];
  const hosts = Object.fromEntries(Array.from({ length: 200 }, (_, n) => hostOf(n)));
  const hasty = hastyClock();
  const file = openConfigFile("signer.json", { clock: hasty.clock, fetch, readEnv: () => undefined });
  const config = await file.parse(JSON.stringify({ ...CONFIG, hosts }));
  assert.equal(Object.keys(config.hosts).length, 200);
  const parsing = hasty.pauses();
  assert.ok(parsing >= 200, "once a host");
  // The CA key is loaded after the policy is compiled, and tests of this member may not read files.
  const compile = (previous?: Snapshot) =>
    assert.rejects(file.compile(JSON.stringify({ ...CONFIG, hosts }), previous), /Cannot read ca_key/);
  await compile(snapshotOf(CONFIG));
  const reloading = hasty.pauses();
  assert.ok(reloading - 2 * parsing >= 200, "once a host again");
  await compile({ ...snapshotOf(CONFIG), config });
  const again = hasty.pauses();
  assert.ok(reloading - parsing - (again - reloading) >= 200, "what is written as before is not read again");
  await compile();
  assert.equal(hasty.pauses(), again, "at the start nobody waits");
});
