import assert from "node:assert/strict";
import { ChangeLock } from "./durable.ts";

Deno.test("ChangeLock.run() lets changes run one after another, in their order", async () => {
  const lock = new ChangeLock();
  const log: string[] = [];
  const { promise: slow, resolve } = Promise.withResolvers<void>();
  const change = (name: string, wait?: Promise<void>) =>
    lock.run(async () => {
      log.push(`${name} begins`);
      await wait;
      log.push(`${name} ends`);
      return name;
    });
  const all = Promise.all([change("a", slow), change("b"), change("c")]);
  await new Promise((done) => setTimeout(done, 0));
  assert.deepEqual(log, ["a begins"]);
  resolve();
  assert.deepEqual(await all, ["a", "b", "c"]);
  assert.deepEqual(log, ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]);
});

Deno.test("ChangeLock.run() carries on after a change that failed", async () => {
  const lock = new ChangeLock();
  await assert.rejects(lock.run(() => Promise.reject(new Error("no"))), /no/);
  assert.equal(await lock.run(() => Promise.resolve(1)), 1);
});
