import assert from "node:assert/strict";
import type { Recorder } from "./recorder.ts";
import { printed, sent } from "../testing/fake_runner.ts";
import { SessionFixture } from "../testing/session_fixture.ts";

async function withReaper(test: (broker: SessionFixture) => Promise<void>): Promise<void> {
  const broker = new SessionFixture();
  const stop = new AbortController();
  const reaping = broker.registry.reapUntil(stop.signal);
  await test(broker);
  stop.abort();
  await reaping;
}

Deno.test("a session without commands is closed when it has been idle for too long", () =>
  withReaper(async (broker) => {
    const id = await broker.open();
    await broker.clock.advance(299_000);
    assert.equal(broker.registry.size, 1);
    await broker.clock.advance(31_000);
    assert.deepEqual([broker.registry.size, broker.links[0]?.closed], [0, true]);
    const entry = broker.log.entries.at(-1);
    assert.deepEqual([entry?.outcome, entry?.err, entry?.session_id], [
      "session_close",
      "reaped (idle/lifetime)",
      id,
    ]);
    await assert.rejects(broker.exec(id), { message: `unknown or expired session: "${id}"` });
  }));

Deno.test("each command starts the idle time again, at its start and at its end", () =>
  withReaper(async (broker) => {
    const id = await broker.open();
    await broker.clock.advance(280_000);
    broker.links[0]!.answer = async () => {
      await broker.clock.advance(280_000);
      return printed("");
    };
    await broker.exec(id);
    await broker.clock.advance(280_000);
    assert.equal(broker.registry.size, 1);
  }));

Deno.test("a session is closed when it is too old, however much it is used", () =>
  withReaper(async (broker) => {
    const id = await broker.open();
    for (let used = 0; used < 1700; used += 100) {
      await broker.clock.advance(100_000);
      await broker.exec(id);
    }
    assert.equal(broker.registry.size, 1);
    await broker.clock.advance(130_000);
    assert.equal(broker.registry.size, 0);
  }));

Deno.test("a busy session is neither idle nor too old", () =>
  withReaper(async (broker) => {
    const id = await broker.open();
    const hold = Promise.withResolvers<void>();
    broker.links[0]!.answer = () => hold.promise.then(() => printed("done"));
    const running = broker.exec(id);
    await broker.clock.advance(4_000_000);
    assert.equal(broker.registry.size, 1);
    hold.resolve();
    assert.deepEqual((await running).stdout, sent("done"));
    await broker.clock.advance(30_000);
    assert.equal(broker.registry.size, 0);
  }));

Deno.test("a session that is too old takes nothing new, so that no overlap keeps it for ever (K10)", () =>
  withReaper(async (broker) => {
    const id = await broker.open();
    const hold = Promise.withResolvers<void>();
    broker.links[0]!.answer = () => hold.promise.then(() => printed("done"));
    const running = broker.exec(id);
    await broker.clock.advance(1_800_000);
    await assert.rejects(broker.exec(id), {
      code: "not_found",
      message: `unknown or expired session: "${id}"`,
    });
    hold.resolve();
    assert.deepEqual((await running).stdout, sent("done"));
    await broker.clock.advance(30_000);
    assert.equal(broker.registry.size, 0);
  }));

Deno.test("a session that is too old can still be closed by its owner", async () => {
  const broker = new SessionFixture();
  const id = await broker.open();
  await broker.clock.advance(1_900_000);
  await broker.close(id);
  assert.equal(broker.registry.size, 0);
});

Deno.test("the end of the certificate does not close a session", () =>
  withReaper(async (broker) => {
    const id = await broker.open({ ttlSeconds: 60 });
    await broker.clock.advance(200_000);
    assert.equal((await broker.exec(id)).exitCode, 0);
  }));

Deno.test("closing all records each, and what its recording holds", async () => {
  const broker = new SessionFixture();
  broker.startRecording = () =>
    Promise.resolve(
      { close: () => Promise.resolve({ sha256: "abc", bytes: 1, complete: true }) } as Recorder,
    );
  await broker.open({ mode: "shell" });
  await broker.open();
  await broker.registry.closeAll();
  const closed = broker.log.entries.filter(({ outcome }) => outcome === "session_close");
  assert.deepEqual(closed.map(({ body_sha256 }) => body_sha256).toSorted(), ["abc", undefined]);
  assert.ok(broker.links.every((link) => link.closed));
  assert.equal(broker.registry.size, 0);
});

Deno.test.each([
  ["is whole", "abc", true, ""],
  ["has gaps", "abc", false, "the recording is not complete"],
  ["could not be closed", undefined, false, "the recording could not be closed"],
])("the end of a session says of its recording that it %s", async (_name, sha256, complete, warning) => {
  const broker = new SessionFixture();
  const close = () => Promise.resolve({ sha256, bytes: 1, complete });
  broker.startRecording = () => Promise.resolve({ close } as Recorder);
  await broker.close(await broker.open({ mode: "shell" }));
  const entry = broker.log.entries.at(-1);
  assert.deepEqual([entry?.warning, entry?.body_sha256], [warning, sha256]);
});

Deno.test("the digest of a recording is recorded also when the session's connection fails to close", async () => {
  const broker = new SessionFixture();
  broker.startRecording = () =>
    Promise.resolve(
      { close: () => Promise.resolve({ sha256: "abc", bytes: 1, complete: true }) } as Recorder,
    );
  const id = await broker.open({ mode: "pty" });
  broker.links[0]!.close = () => Promise.reject(new Error("no"));
  await broker.close(id);
  assert.equal(broker.log.entries.at(-1)?.body_sha256, "abc");
});

Deno.test("a session ends once, however many end it (K17)", async () => {
  const broker = new SessionFixture();
  const id = await broker.open();
  const session = broker.registry.find(id, "alice", "");
  await Promise.all([
    broker.close(id),
    broker.registry.kill(() => true, "x"),
    broker.registry.end(session, { outcome: "session_close" }),
  ]);
  assert.equal(broker.log.entries.length, 2);
});
