import assert from "node:assert/strict";
import { FakeClock } from "../testing/fake_clock.ts";
import { UpstreamWatch } from "./upstream.ts";

/** An upstream that answers with a status, or not at all with 0; and what is asked of it. */
async function watch(status: number) {
  const clock = new FakeClock();
  const service = { status, asked: 0 };
  const client = {
    request() {
      service.asked += 1;
      return service.status === 0 ? Promise.reject(new Error("refused")) : Promise.resolve(service);
    },
  };
  const upstream = new UpstreamWatch({ what: "the signer", client, clock });
  const stop = new AbortController();
  const running = upstream.run(stop.signal);
  await clock.advance(0);
  return {
    clock,
    service,
    upstream,
    async [Symbol.asyncDispose]() {
      stop.abort();
      await running;
      assert.equal(clock.sleeping, 0);
    },
  };
}

Deno.test.each([
  { name: "answers", status: 200 },
  { name: "has no such page, which is an answer", status: 404 },
  { name: "answers that it has a problem of its own", status: 500 },
])("an upstream that $name has no problem", async ({ status }) => {
  await using watched = await watch(status);
  await watched.clock.advance(60_000);
  assert.equal(watched.upstream.problem(), undefined);
  assert.equal(watched.service.asked, 31);
});

Deno.test.each([
  { name: "does not answer", status: 0 },
  { name: "does not take the certificate", status: 401 },
])("an upstream that $name is named after 10 s, not before, and until it answers", async ({ status }) => {
  await using watched = await watch(200);
  const { clock, upstream, service } = watched;
  service.status = status;
  await clock.advance(9_999);
  assert.equal(upstream.problem(), undefined);
  await clock.advance(1);
  assert.equal(upstream.problem(), "no answer from the signer for 10 s");
  await clock.advance(25_000);
  assert.equal(upstream.problem(), "no answer from the signer for 35 s");
  service.status = 404;
  await clock.advance(2_000);
  assert.equal(upstream.problem(), undefined);
});

Deno.test("an upstream that has never answered has 10 s from the start", async () => {
  await using watched = await watch(0);
  assert.equal(watched.upstream.problem(), undefined);
  await watched.clock.advance(10_000);
  assert.match(watched.upstream.problem() ?? "", /^no answer/);
});

Deno.test("a clock that is set back does not hide a silence", async () => {
  await using watched = await watch(200);
  watched.service.status = 0;
  await watched.clock.advance(-3_600_000);
  assert.equal(watched.upstream.silentMs, 0);
  await watched.clock.advance(10_000);
  assert.match(watched.upstream.problem() ?? "", /^no answer/);
});
