import assert from "node:assert/strict";
import { printed, sent } from "../testing/fake_runner.ts";
import { SessionFixture } from "../testing/session_fixture.ts";

Deno.test("commands of a shell run one after the other, each decided when its turn has come", async () => {
  const broker = new SessionFixture();
  const id = await broker.open({ mode: "shell" });
  const first = Promise.withResolvers<void>();
  const started = Promise.withResolvers<void>();
  broker.links[0]!.answer = async (command) => {
    started.resolve();
    if (command === "one") await first.promise;
    return printed(command);
  };
  const one = broker.exec(id, { command: "one" });
  await started.promise;
  const two = broker.exec(id, { command: "two" });
  broker.answerPreflight({ kind: "decided", decision: { allowed: false, reason: "policy" } });
  first.resolve();
  assert.deepEqual((await one).stdout, sent("one"));
  await assert.rejects(two, { message: "session command not allowed: policy" });
});

Deno.test("the queue of a shell is bounded", async () => {
  const broker = new SessionFixture();
  const id = await broker.open({ mode: "shell" });
  const hold = Promise.withResolvers<void>();
  broker.links[0]!.answer = () => hold.promise.then(() => printed(""));
  const runs = Array.from({ length: 34 }, () => broker.exec(id));
  const last = runs.at(-1)!;
  await assert.rejects(last, { code: "rate_limited" });
  hold.resolve();
  assert.equal((await Promise.allSettled(runs)).filter(({ status }) => status === "fulfilled").length, 33);
});

Deno.test("commands of an exec session overlap", async () => {
  const broker = new SessionFixture();
  const id = await broker.open();
  const both = Promise.withResolvers<void>();
  broker.links[0]!.answer = async () => {
    if (broker.links[0]!.runs.length === 2) both.resolve();
    await both.promise;
    return printed("");
  };
  await Promise.all([broker.exec(id), broker.exec(id)]);
});

Deno.test("closing a session interrupts its command, which is recorded as an error", async () => {
  const broker = new SessionFixture();
  const id = await broker.open();
  const started = Promise.withResolvers<void>();
  broker.links[0]!.answer = () => {
    started.resolve();
    return new Promise(() => {});
  };
  const running = broker.exec(id);
  running.catch(() => {});
  await started.promise;
  await broker.close(id);
  await assert.rejects(running, { message: `session "${id}" has ended` });
  assert.deepEqual(broker.outcomes.toSorted(), ["error", "session_close", "session_open"]);
});

Deno.test("a canceled command says so, and its record too", async () => {
  const broker = new SessionFixture();
  const id = await broker.open();
  const cancel = new AbortController();
  broker.links[0]!.answer = (_command, { signal }) => {
    cancel.abort();
    return Promise.reject(signal.reason);
  };
  await assert.rejects(broker.exec(id, {}, cancel.signal), { code: "canceled" });
  assert.deepEqual(broker.log.entries.at(-1)?.err, "canceled");
});

Deno.test("a command that waits for its turn ends with the session", async () => {
  const broker = new SessionFixture();
  const id = await broker.open({ mode: "shell" });
  const started = Promise.withResolvers<void>();
  broker.links[0]!.answer = () => {
    started.resolve();
    return new Promise(() => {});
  };
  const runs = [broker.exec(id), broker.exec(id)];
  const settled = Promise.allSettled(runs);
  await started.promise;
  await broker.close(id);
  for (const { status } of await settled) assert.equal(status, "rejected");
});

Deno.test.each([{ mode: "exec" }, { mode: "shell" }])(
  "a command that is cleared just when its session ends does not run (K7, mode $mode)",
  async ({ mode }) => {
    const broker = new SessionFixture();
    const id = await broker.open({ mode });
    const { answer: usual } = broker.authority;
    broker.authority.answer = (request, signal, options) => {
      if (request.preflight === true) void broker.registry.kill(() => true, "frozen");
      return usual(request, signal, options);
    };
    await assert.rejects(broker.exec(id), { message: `session "${id}" has ended` });
    assert.deepEqual(broker.links[0]!.runs, []);
  },
);
