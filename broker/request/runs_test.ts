import assert from "node:assert/strict";
import { trackRuns } from "./runs.ts";
import { BrokerFixture } from "../testing/broker_fixture.ts";
import { hangUntilAborted } from "../testing/fake_runner.ts";

const request = {
  caller: "agent-1",
  callerGroups: null,
  host: "web01",
  command: "uptime",
  ttlSeconds: 0,
  sudo: false,
  sudoUser: "",
  pty: false,
  dryRun: false,
};

Deno.test("trackRuns() cancels what runs and waits for its record", async () => {
  const broker = new BrokerFixture();
  broker.runner.answer = hangUntilAborted;
  const runs = trackRuns();
  const execute = runs.track(broker.execute);
  const signal = new AbortController().signal;
  const running = [execute(request, signal), execute(request, signal)];
  const rejected = running.map((run) => assert.rejects(run, { code: "canceled" }));
  while (broker.runner.runs.length < 2) await Promise.resolve();
  await runs.cancel();
  assert.deepEqual(broker.log.entries.map(({ err }) => err), ["canceled", "canceled"]);
  await Promise.all(rejected);
});

Deno.test("trackRuns() lets nothing run any more once it has canceled", async () => {
  const broker = new BrokerFixture();
  const runs = trackRuns();
  const execute = runs.track(broker.execute);
  await runs.cancel();
  await assert.rejects(execute(request, new AbortController().signal), { code: "canceled" });
  assert.deepEqual(broker.runner.runs, []);
});

Deno.test("trackRuns() passes results, errors and the caller's own signal on", async () => {
  const broker = new BrokerFixture();
  const runs = trackRuns();
  const execute = runs.track(broker.execute);
  const { signal } = new AbortController();
  assert.equal((await execute(request, signal)).kind, "executed");
  await assert.rejects(execute({ ...request, host: "nope" }, signal), { code: "unknown_host" });
  await assert.rejects(execute(request, AbortSignal.abort()), { code: "canceled" });
});
