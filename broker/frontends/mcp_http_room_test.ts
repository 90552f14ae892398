import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { FixedRandom } from "@gateway/shared/testing";
import {
  CALL_RPC,
  McpHttpFixture,
  readEvents,
  statelessHeaders,
  statelessRpc,
} from "../testing/mcp_http_fixture.ts";
import { MAX_OUTPUT_BYTES } from "../config/config.ts";
import { TEST_LIMITS } from "../testing/broker_fixture.ts";
import { sent } from "../testing/fake_runner.ts";
import { until } from "../testing/raw_mcp_client.ts";
import { renderExecuted } from "../tools/executed.ts";
import type { Tool } from "../tools/tool.ts";
import { textLength, USER_BOUNDS } from "./user_budget.ts";

/** What a command comes to that has printed as much as is kept of it where the config says the most. */
const LONGEST = renderExecuted(
  { random: new FixedRandom(), limits: { ...TEST_LIMITS, maxOutputBytes: MAX_OUTPUT_BYTES } },
  {
    stdout: sent("x".repeat(MAX_OUTPUT_BYTES)),
    stderr: sent("x".repeat(MAX_OUTPUT_BYTES)),
    exitCode: 0,
    serial: 1n,
    warnings: [],
  },
  { maxBytes: MAX_OUTPUT_BYTES, tail: false },
);
const FIT = Math.floor(USER_BOUNDS.sending / textLength(LONGEST));
const CALLS = FIT + 2;

const LONG_TOOL: Tool = {
  name: "ssh_execute",
  title: "",
  description: "",
  annotations: { readOnlyHint: true, destructiveHint: false, idempotentHint: true, openWorldHint: false },
  inputSchema: { type: "object" },
  outputSchema: { type: "object" },
  call: () => Promise.resolve(LONGEST),
};

/** Which of some promises are fulfilled by now. */
class Arrivals<T> {
  readonly values: T[] = [];

  constructor(promises: readonly Promise<T>[]) {
    for (const promise of promises) promise.then((value) => this.values.push(value), () => {});
  }

  async count(): Promise<number> {
    for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setTimeout(resolve, 0));
    return this.values.length;
  }
}

Deno.test("createMcpHttp() holds no more long answers of one user than have room, until the client takes them", async () => {
  await using frontend = new McpHttpFixture({ tools: [LONG_TOOL] });
  const session = await frontend.open("alice");
  const readers = [];
  for (let call = 0; call < CALLS; call++) {
    const body = { ...CALL_RPC, id: call };
    const reader = (await frontend.send({ token: "alice", session, body })).body?.getReader();
    assert.ok(reader !== undefined);
    // The event that only gives the id.
    await readEvents(reader, 1);
    readers.push(reader);
  }
  const arrivals = new Arrivals(readers.map((reader) => reader.read().then(() => reader)));
  assert.equal(await arrivals.count(), FIT);
  const bob = await frontend.open("bob");
  const others = await frontend.send({ token: "bob", session: bob, body: CALL_RPC });
  assert.ok((await others.text()).length > 2 * MAX_OUTPUT_BYTES);
  const [first, second] = arrivals.values;
  while ((await first?.read())?.done === false);
  assert.equal(await arrivals.count(), FIT + 1);
  await second?.cancel();
  assert.equal(await arrivals.count(), FIT + 2);
  await Promise.all(readers.map((reader) => reader.cancel()));
});

Deno.test("createMcpHttp() holds no more long answers of stateless calls than have room", async () => {
  await using frontend = new McpHttpFixture({ tools: [LONG_TOOL] });
  const call = (id: number) =>
    frontend.send({
      token: "alice",
      headers: statelessHeaders("tools/call", "ssh_execute"),
      body: statelessRpc(id, "tools/call", { name: "ssh_execute", arguments: {} }),
    });
  const arrivals = new Arrivals(Array.from({ length: CALLS }, (_, id) => call(id)));
  assert.equal(await arrivals.count(), FIT);
  await arrivals.values[0]?.text();
  assert.equal(await arrivals.count(), FIT + 1);
  await arrivals.values[1]?.body?.cancel();
  assert.equal(await arrivals.count(), CALLS);
  for (const response of arrivals.values.slice(2)) await response.body?.cancel();
});

Deno.test("createMcpHttp() answers a call that is canceled while its answer waits, and keeps serving", async () => {
  await using frontend = new McpHttpFixture({ tools: [LONG_TOOL] });
  const call = (signal?: AbortSignal) =>
    frontend.send({
      token: "alice",
      headers: statelessHeaders("tools/call", "ssh_execute"),
      body: statelessRpc(1, "tools/call", { name: "ssh_execute", arguments: {} }),
      ...(signal === undefined ? {} : { signal }),
    });
  const held = await Promise.all(Array.from({ length: FIT }, () => call()));
  const gone = new AbortController();
  const canceled = call(gone.signal).catch(() => undefined);
  const next = new Arrivals([call()]);
  assert.equal(await next.count(), 0);
  gone.abort();
  await (await canceled)?.body?.cancel();
  for (const response of held) await response.body?.cancel();
  assert.equal(await next.count(), 1);
  await next.values[0]?.body?.cancel();
});

Deno.test("createMcpHttp() runs so many calls of a user at a time, and counts a failed call as ended", async () => {
  const gate = Promise.withResolvers<never>();
  let running = 0;
  const call = () => {
    running += 1;
    return gate.promise;
  };
  await using frontend = new McpHttpFixture({ tools: [{ ...LONG_TOOL, call }] });
  const send = async (token: string) => {
    const response = await frontend.send({
      token,
      headers: statelessHeaders("tools/call", "ssh_execute"),
      body: statelessRpc(1, "tools/call", { name: "ssh_execute", arguments: {} }),
    });
    return await response.text();
  };
  const calls = Array.from({ length: USER_BOUNDS.calls }, () => send("alice"));
  await until(() => running === USER_BOUNDS.calls);
  assert.match(await send("alice"), /too many calls at once \(32\); wait for one to end/);
  const others = send("bob");
  await until(() => running === USER_BOUNDS.calls + 1);
  gate.reject(new AppError("upstream_failure", "failed"));
  await Promise.all([...calls, others]);
  assert.match(await send("alice"), /failed/);
});

Deno.test("createMcpHttp() lets a user take up so many streams again at a time, and no other user less", async () => {
  await using frontend = new McpHttpFixture();
  const resume = async (token: string, number: number) =>
    await frontend.send({
      token,
      session: sessions[token] ?? "",
      headers: { "last-event-id": `s${number}_1` },
    });
  const sessions: Record<string, string> = {
    alice: await frontend.open("alice"),
    bob: await frontend.open("bob"),
  };
  const streams: Response[] = [];
  for (let number = 0; number < USER_BOUNDS["resumed streams"]; number++) {
    streams.push(await resume("alice", number));
  }
  const late = { token: "alice", session: sessions["alice"] ?? "", headers: { "last-event-id": "late_1" } };
  assert.equal((await frontend.refusalOf(late)).code, "rate_limited");
  await (await resume("bob", 0)).body?.cancel();
  await streams.pop()?.body?.cancel();
  await (await frontend.send(late)).body?.cancel();
  for (const stream of streams) await stream.body?.cancel();
});

Deno.test("the answer to a command that has printed as much as is kept of it is kept for a lost client", () => {
  assert.ok(textLength(LONGEST) < USER_BOUNDS.kept);
});
