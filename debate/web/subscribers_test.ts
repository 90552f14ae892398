import { FakeClock } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import { EventLog } from "../runs/event_log.ts";
import { Subscribers } from "./subscribers.ts";

function open() {
  const clock = new FakeClock();
  const stopping = new AbortController();
  const subscribers = new Subscribers(clock, stopping.signal);
  const log = new EventLog(clock);
  const append = (json = "{}") => log.append({ type: "agent_completed", json });
  const follow = () => {
    const reader = subscribers.follow(log, null).body!.getReader();
    const read = async () => new TextDecoder().decode((await reader.read()).value);
    return { reader, read };
  };
  return { clock, stopping, subscribers, log, append, follow };
}

Deno.test("a stream greets, then gives what there is in one piece, then what comes", async () => {
  const { clock, append, follow, log } = open();
  append();
  append();
  const { read, reader } = follow();
  assert.equal(await read(), "retry: 1000\n\n");
  assert.match(await read(), /^id: 1\n[^]*id: 2\n/);
  append();
  await clock.advance(25);
  assert.match(await read(), /^id: 3\n/);
  log.end();
  assert.equal((await reader.read()).done, true);
});

Deno.test("a stream without news says that it is there", async () => {
  const { clock, follow } = open();
  const stream = follow();
  await stream.read();
  const next = stream.read();
  await clock.advance(20_000);
  assert.equal(await next, ": keep-alive\n\n");
  await stream.reader.cancel();
});

Deno.test("a subscriber that reads nothing for a minute is dropped, and uses no memory until then", async () => {
  const { clock, follow, append, subscribers } = open();
  const stream = follow();
  for (let count = 0; count < 1000; count++) append("x".repeat(1000));
  await clock.advance(55_000);
  assert.equal(subscribers.size, 1);
  await clock.advance(20_000);
  assert.equal(subscribers.size, 0);
  await assert.rejects(async () => {
    for (;;) if ((await stream.reader.read()).done) return;
  }, /does not read/);
});

Deno.test("a browser that vanishes is forgotten", async () => {
  const { follow, subscribers, append } = open();
  const stream = follow();
  await stream.reader.cancel();
  assert.equal(subscribers.size, 0);
  append();
});

Deno.test("all streams end when the server stops", async () => {
  const { follow, stopping, subscribers } = open();
  const streams = [follow(), follow()];
  for (const { read } of streams) await read();
  stopping.abort();
  for (const { reader } of streams) assert.equal((await reader.read()).done, true);
  assert.equal(subscribers.size, 0);
});

Deno.test("many subscribers read the same memory", async () => {
  const { clock, append, follow, log } = open();
  const streams = Array.from({ length: 50 }, follow);
  for (const { read } of streams) await read();
  for (let count = 0; count < 20; count++) append();
  await clock.advance(25);
  const pieces = await Promise.all(streams.map(({ reader }) => reader.read()));
  assert.equal(new Set(pieces.map(({ value }) => value?.buffer)).size, 1);
  log.end();
});

Deno.test("one subscriber too many is refused", async () => {
  const { follow } = open();
  const streams = Array.from({ length: 2000 }, follow);
  assert.throws(follow, { code: "rate_limited" });
  for (const { reader } of streams) await reader.cancel();
});
