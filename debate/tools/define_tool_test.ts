import assert from "node:assert/strict";
import * as z from "@zod/zod";
import { defineTool, MAX_RESULT, timeoutArgument } from "./define_tool.ts";
import { ToolFailure } from "./run_program.ts";
import { BARE_SETTINGS, FakePorts } from "./testing/tool_bench.ts";

const schema = z.strictObject({ word: z.string().max(5), timeout: timeoutArgument(10) });

function make(
  ports: FakePorts,
  run: (
    word: string,
    signal: AbortSignal,
    seconds: number,
  ) => Promise<{ ok: boolean; title: string; body: string }>,
) {
  return defineTool({
    name: "echo",
    description: "",
    schema,
    run: ({ word }, { signal, seconds }) => run(word, signal, seconds),
  })({ ports, settings: BARE_SETTINGS, allowed: { hosts: new Set(), networks: [] } });
}

const context = () => ({ signal: new AbortController().signal, runId: "run" });

Deno.test("defineTool() starts with what was done and how long it took, redacts and cuts", async () => {
  const ports = new FakePorts();
  const tool = make(ports, async (word) => {
    await ports.clock.advance(12);
    return { ok: true, title: `echo\n${word}`, body: `hunter2 ${"x".repeat(9000)}` };
  });
  const { ok, text } = await tool.run({ word: "a" }, context());
  assert.equal(ok, true);
  assert.match(text, /^echo a \[12 ms\]\n\[REDACTED\] x/);
  assert.ok(text.length <= MAX_RESULT);
});

Deno.test.each([
  { name: "a missing argument", args: {}, problem: /word/ },
  { name: "an argument of the wrong type", args: { word: 1 }, problem: /word/ },
  { name: "an argument that is too long", args: { word: "abcdef" }, problem: /word/ },
  { name: "an unknown argument", args: { word: "a", shell: true }, problem: /shell/ },
  { name: "no object", args: null, problem: /object/ },
  { name: "a negative timeout", args: { word: "a", timeout: -1 }, problem: /timeout/ },
])("defineTool() explains $name and runs nothing", async ({ args, problem }) => {
  const tool = make(new FakePorts(), () => assert.fail("must not run"));
  const { ok, text } = await tool.run(args, context());
  assert.equal(ok, false);
  assert.match(text, /^echo failed: Invalid arguments/);
  assert.match(text, problem);
});

Deno.test.each([
  { name: "the default", asked: {}, seconds: 10 },
  { name: "what is asked for", asked: { timeout: 3 }, seconds: 3 },
  { name: "never more than a minute", asked: { timeout: 1e9 }, seconds: 60 },
])("defineTool() bounds the time: $name", async ({ asked, seconds }) => {
  const tool = make(new FakePorts(), (_word, _signal, bound) => {
    assert.equal(bound, seconds);
    return Promise.resolve({ ok: true, title: "", body: "" });
  });
  assert.equal((await tool.run({ word: "a", ...asked }, context())).ok, true);
});

Deno.test("defineTool() aborts what takes too long, and says so", async () => {
  const ports = new FakePorts();
  const tool = make(
    ports,
    (_word, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  );
  const [result] = await Promise.all([tool.run({ word: "a" }, context()), ports.clock.advance(10_000)]);
  assert.deepEqual(result, { ok: false, text: "echo failed: No answer within 10 s" });
});

Deno.test("defineTool() does not wait for what does not heed its signal", async () => {
  const ports = new FakePorts();
  const tool = make(ports, () => new Promise(() => {}));
  const [result] = await Promise.all([tool.run({ word: "a" }, context()), ports.clock.advance(20_000)]);
  assert.deepEqual(result, { ok: false, text: "echo failed: No answer within 10 s" });
});

Deno.test("defineTool() leaves time to tell what there was", async () => {
  const ports = new FakePorts();
  const tool = make(
    ports,
    (_word, signal) =>
      new Promise((resolve) =>
        signal.addEventListener("abort", () => resolve({ ok: false, title: "half", body: "so far" }))
      ),
  );
  const [result] = await Promise.all([tool.run({ word: "a" }, context()), ports.clock.advance(10_000)]);
  assert.match(result.text, /^half \[10000 ms\]\nso far$/);
});

Deno.test("defineTool() throws the reason of a cancelled run", async () => {
  const run = new AbortController();
  const tool = make(
    new FakePorts(),
    (_word, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  );
  const call = tool.run({ word: "a" }, { signal: run.signal, runId: "run" });
  run.abort(new Error("cancelled"));
  await assert.rejects(call, /cancelled/);
});

Deno.test("defineTool() makes a failure a result, redacted, and throws a defect", async () => {
  const failing = make(new FakePorts(), () => Promise.reject(new ToolFailure("no hunter2")));
  assert.deepEqual(await failing.run({ word: "a" }, context()), {
    ok: false,
    text: "echo failed: no [REDACTED]",
  });
  const broken = make(new FakePorts(), () => Promise.reject(new TypeError("bug")));
  await assert.rejects(broken.run({ word: "a" }, context()), TypeError);
});
