import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import type { PolicyVersions } from "../live/state/postgres.ts";
import { prepareElsewhere } from "./policy.ts";

Deno.test("prepareElsewhere() waits for all, for 5 s at most, and not behind another proposal", async () => {
  const clock = new FakeClock();
  const proposed: string[] = [];
  let answer: Awaited<ReturnType<PolicyVersions["findPrepared"]>> = "some";
  const versions = {
    propose: (document: string) => Promise.resolve(void proposed.push(document)),
    findPrepared: () => Promise.resolve(answer),
  } as Partial<PolicyVersions> as PolicyVersions;
  const start = () => {
    const waiting = { done: false, promise: Promise.resolve() };
    waiting.promise = prepareElsewhere(versions, { document: "{}", sha256: "00", clock }).finally(() =>
      waiting.done = true
    );
    waiting.promise.catch(() => {});
    return waiting;
  };
  const late = start();
  await clock.advance(4_900);
  assert.equal(late.done, false);
  await clock.advance(200);
  assert.equal(late.done, true);
  const quick = start();
  await clock.advance(100);
  answer = "all";
  await clock.advance(100);
  assert.equal(quick.done, true);
  answer = "replaced";
  await assert.rejects(start().promise, { code: "conflict", message: /changed meanwhile, by somebody else/ });
  assert.deepEqual(proposed, ["{}", "{}", "{}"]);
});
