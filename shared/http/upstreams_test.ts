import assert from "node:assert/strict";
import { REQUEST_ID_HEADER } from "../service/mod.ts";
import { FakeClock } from "../testing/fake_clock.ts";
import type { JsonClientRequest } from "./client.ts";
import { UnansweredRequests, UpstreamWatch } from "./upstreams.ts";

/** An upstream that answers with a status (0: does not answer), and the requests to it. */
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
  { name: "answers 404", status: 404 },
  { name: "answers 500", status: 500 },
])("an upstream that $name causes no problem report", async ({ status }) => {
  await using watched = await watch(status);
  await watched.clock.advance(60_000);
  assert.equal(watched.upstream.problem(), undefined);
  assert.equal(watched.service.asked, 31);
});

Deno.test.each([
  { name: "does not answer", status: 0 },
  { name: "rejects the certificate", status: 401 },
])("an upstream that $name is reported after exactly 10 s, until it answers", async ({ status }) => {
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

Deno.test("an upstream that never answered is reported 10 s after the start", async () => {
  await using watched = await watch(0);
  assert.equal(watched.upstream.problem(), undefined);
  await watched.clock.advance(10_000);
  assert.match(watched.upstream.problem() ?? "", /^no answer/);
});

Deno.test("silence is detected after 10 s although the clock was set back", async () => {
  await using watched = await watch(200);
  watched.service.status = 0;
  await watched.clock.advance(-3_600_000);
  assert.equal(watched.upstream.silentMs, 0);
  await watched.clock.advance(10_000);
  assert.match(watched.upstream.problem() ?? "", /^no answer/);
});

const lostOne = (id: string, broker: string): JsonClientRequest => ({
  ...{ method: "POST", path: "/v1/sign", body: { on_behalf_of: broker } },
  headers: { [REQUEST_ID_HEADER]: id },
});

/** Brokers whose requests were lost, and the brokers that were reported, in order. */
function losing(statusFor: (broker: string) => number) {
  const told: string[] = [];
  const [clock, stop] = [new FakeClock(), new AbortController()];
  const client = {
    request({ headers = {} }: JsonClientRequest) {
      const broker = headers["x-on-behalf-of"] ?? "";
      told.push(broker);
      return Promise.resolve({ status: statusFor(broker), headers: {}, text: "", body: undefined });
    },
  };
  return { lost: new UnansweredRequests({ client, clock, signal: stop.signal }), told, clock, stop };
}

Deno.test("a report that an older signer answers with 404 is sent to another signer", async () => {
  const statuses = [404, 404, 200];
  const { lost, clock } = losing(() => statuses.shift() ?? 500);
  lost.add(lostOne("a", "broker-1"));
  for (let second = 0; second < 9; second++) await clock.advance(1_000);
  assert.deepEqual(statuses, []);
});

Deno.test("a broker whose reports get 429 does not delay the reports of other brokers", async () => {
  const { lost, told, clock, stop } = losing((broker) => broker === "busy" ? 429 : 200);
  lost.add(lostOne("a", "busy"));
  lost.add(lostOne("b", "broker-1"));
  lost.add(lostOne("c", "broker-2"));
  for (let second = 0; second < 4; second++) await clock.advance(1_000);
  assert.deepEqual(told.slice(0, 4), ["busy", "broker-1", "broker-2", "busy"]);
  stop.abort();
});

Deno.test("a request lost just as the previous report ends is also reported", async () => {
  for (let turns = 0; turns < 20; turns++) {
    const { lost, told } = losing(() => 200);
    lost.add(lostOne("a", "broker-1"));
    for (let turn = 0; turn < turns; turn++) await Promise.resolve();
    lost.add(lostOne("b", "broker-2"));
    for (let turn = 0; turn < 40; turn++) await Promise.resolve();
    assert.deepEqual(told, ["broker-1", "broker-2"], `after ${turns} turns`);
  }
});
