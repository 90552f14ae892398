import assert from "node:assert/strict";
import { FakeClock } from "@gateway/shared/testing";
import { REQUEST_ID_HEADER } from "../service/request_context.ts";
import type { JsonClientRequest } from "./json_client.ts";
import { LostRequests } from "./lost_requests.ts";

const lostOne = (id: string, broker: string): JsonClientRequest => ({
  ...{ method: "POST", path: "/v1/sign", body: { on_behalf_of: broker } },
  headers: { [REQUEST_ID_HEADER]: id },
});

Deno.test("a signer of an older version leaves it to another", async () => {
  const statuses = [404, 404, 200];
  const clock = new FakeClock();
  const client = {
    request: () =>
      Promise.resolve({ status: statuses.shift() ?? 500, headers: {}, text: "", body: undefined }),
  };
  const lost = new LostRequests({ client, clock, signal: new AbortController().signal });
  lost.add(lostOne("a", "broker-1"));
  for (let second = 0; second < 9; second++) await clock.advance(1_000);
  assert.deepEqual(statuses, []);
});

Deno.test("a broker whose requests the signers put off does not hold up what others have lost", async () => {
  const told: string[] = [];
  const clock = new FakeClock();
  const stop = new AbortController();
  const client = {
    request({ headers = {} }: JsonClientRequest) {
      const broker = headers["x-on-behalf-of"] ?? "";
      told.push(broker);
      return Promise.resolve({
        status: broker === "busy" ? 429 : 200,
        headers: {},
        text: "",
        body: undefined,
      });
    },
  };
  const lost = new LostRequests({ client, clock, signal: stop.signal });
  lost.add(lostOne("a", "busy"));
  lost.add(lostOne("b", "broker-1"));
  lost.add(lostOne("c", "broker-2"));
  for (let second = 0; second < 4; second++) await clock.advance(1_000);
  assert.deepEqual(told.slice(0, 4), ["busy", "broker-1", "broker-2", "busy"]);
  stop.abort();
});

Deno.test("what is lost just when all else has been told is told as well", async () => {
  for (let turns = 0; turns < 20; turns++) {
    const told: string[] = [];
    const client = {
      request({ headers = {} }: JsonClientRequest) {
        told.push(headers["x-on-behalf-of"] ?? "");
        return Promise.resolve({ status: 200, headers: {}, text: "", body: undefined });
      },
    };
    const lost = new LostRequests({ client, clock: new FakeClock(), signal: new AbortController().signal });
    lost.add(lostOne("a", "broker-1"));
    for (let turn = 0; turn < turns; turn++) await Promise.resolve();
    lost.add(lostOne("b", "broker-2"));
    for (let turn = 0; turn < 40; turn++) await Promise.resolve();
    assert.deepEqual(told, ["broker-1", "broker-2"], `after ${turns} turns`);
  }
});
