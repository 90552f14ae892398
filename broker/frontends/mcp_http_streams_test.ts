import assert from "node:assert/strict";
import { printed, sent } from "../testing/fake_runner.ts";
import {
  CALL_RPC,
  INITIALIZED,
  LIST,
  McpHttpFixture,
  parseEvents,
  readEvents,
  rpc,
  statelessHeaders,
  statelessRpc,
} from "../testing/mcp_http_fixture.ts";
import { until } from "../testing/raw_mcp_client.ts";
import { SessionFixture } from "../testing/session_fixture.ts";
import { createSshSessionExecTool } from "../tools/ssh_commands.ts";
import { exactMembers } from "./mcp_http.ts";
import { AppError } from "@gateway/shared/errors";
import { FixedRandom } from "@gateway/shared/testing";
import { MAX_OUTPUT_BYTES } from "../config/config.ts";
import { TEST_LIMITS } from "../testing/broker_fixture.ts";
import { renderExecuted } from "../tools/executed.ts";
import type { Tool } from "../tools/tool.ts";
import { textLength, USER_BOUNDS } from "./user_budget.ts";

/** A frontend with an open SSH session of alice. The test answers its commands; `call` runs one. */
async function openSshSession() {
  const broker = new SessionFixture();
  const frontend = new McpHttpFixture({ tools: [createSshSessionExecTool(broker)] });
  const sessionId = await broker.open();
  const call = { name: "ssh_session_exec", arguments: { session_id: sessionId, command: "uptime" } };
  return { broker, frontend, link: broker.links[0]!, call };
}

Deno.test("createMcpHttp() keeps the result of an SSH session's command if its connection is lost", async () => {
  const { broker, frontend: opened, link, call } = await openSshSession();
  await using frontend = opened;
  const result = Promise.withResolvers<ReturnType<typeof printed>>();
  link.answer = () => result.promise;
  const session = await frontend.open("alice");
  const lost = await frontend.send({ token: "alice", session, body: rpc(7, "tools/call", call) });
  const reader = lost.body?.getReader();
  const [primer] = parseEvents(new TextDecoder().decode((await reader?.read())?.value));
  await until(() => link.runs.length === 1);
  await reader?.cancel();
  result.resolve(printed("late\n", { exitCode: 3 }));
  await until(() => broker.outcomes.includes("session_exec"));
  const headers = { "last-event-id": primer?.id ?? "" };
  const resumed = await frontend.send({ token: "alice", session, headers });
  assert.match(await resumed.text(), /late.*"exit_code":3/);
  assert.equal(broker.log.entries.at(-1)?.exit_code, 3);
});

Deno.test("createMcpHttp() cancels and records an SSH session's command if a stateless connection is lost", async () => {
  const { broker, frontend: opened, link, call } = await openSshSession();
  await using frontend = opened;
  link.answer = (_command, { signal }) =>
    new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason)));
  const client = new AbortController();
  const answer = frontend.send({
    token: "alice",
    headers: statelessHeaders("tools/call", "ssh_session_exec"),
    body: statelessRpc(1, "tools/call", call),
    signal: client.signal,
  });
  await until(() => link.runs.length === 1);
  client.abort();
  assert.equal((await answer).status, 499);
  await until(() => broker.outcomes.includes("error"));
  assert.equal(broker.log.entries.at(-1)?.err, "canceled");
});

Deno.test("createMcpHttp() resumes a stream before the broker notices that the old connection is lost", async () => {
  await using frontend = new McpHttpFixture();
  const result = Promise.withResolvers<ReturnType<typeof printed>>();
  frontend.broker.runner.answer = () => result.promise;
  const session = await frontend.open("alice");
  const silent = await frontend.send({ token: "alice", session, body: CALL_RPC });
  const reader = silent.body?.getReader();
  const [primer] = parseEvents(new TextDecoder().decode((await reader?.read())?.value));
  const headers = { "last-event-id": primer?.id ?? "" };
  const resumed = await frontend.send({ token: "alice", session, headers });
  assert.equal((await reader?.read())?.done, true);
  result.resolve(printed("late\n"));
  assert.match(await resumed.text(), /late/);
});

Deno.test("createMcpHttp() keeps a session with a running call after its client disconnects", async () => {
  await using frontend = new McpHttpFixture();
  const result = Promise.withResolvers<ReturnType<typeof printed>>();
  frontend.broker.runner.answer = () => result.promise;
  const session = await frontend.open("alice");
  const lost = await frontend.send({ token: "alice", session, body: CALL_RPC });
  await until(() => frontend.broker.runner.runs.length === 1);
  await lost.body?.cancel();
  await frontend.clock.advance(120 * 60_000);
  assert.equal((await frontend.send({ token: "alice", session, body: INITIALIZED })).status, 202);
  result.resolve(printed("late\n"));
  await until(() => frontend.broker.counted.includes("executed"));
  await frontend.clock.advance(31 * 60_000);
  assert.equal((await frontend.refusalOf({ token: "alice", session, body: LIST })).code, "not_found");
});

Deno.test("createMcpHttp() sends the priming event to a client that omits the version header", async () => {
  await using frontend = new McpHttpFixture();
  const session = await frontend.open("alice", "2025-11-25");
  const text = await (await frontend.send({ token: "alice", session, body: CALL_RPC })).text();
  assert.match(text, /^id: \S+\nretry: 1000\ndata: \n\n/);
  assert.equal(parseEvents(text)[0]?.data, undefined);
});

Deno.test("createMcpHttp() ends standing streams on drain and lets calls finish", async () => {
  await using frontend = new McpHttpFixture();
  const result = Promise.withResolvers<ReturnType<typeof printed>>();
  frontend.broker.runner.answer = () => result.promise;
  const session = await frontend.open("alice");
  const stream = await frontend.send({ token: "alice", session });
  const second = await frontend.send({ token: "alice", session });
  assert.equal(second.status, 409);
  await second.text();
  const answer = await frontend.send({ token: "alice", session, body: CALL_RPC });
  frontend.frontend.drain();
  assert.equal(await stream.text(), "");
  assert.equal((await frontend.refusalOf({ token: "alice", session })).code, "canceled");
  result.resolve(printed("done\n"));
  assert.match(await answer.text(), /done/);
});

Deno.test("exactMembers() makes JSON.stringify write 64-bit integers at any depth", () => {
  const value = {
    serial: 18446744073709551615n,
    list: [{ serial: 0n }, null, "1", 2, true],
    absent: undefined,
  };
  assert.equal(
    JSON.stringify(exactMembers(value)),
    '{"serial":18446744073709551615,"list":[{"serial":0},null,"1",2,true]}',
  );
});

Deno.test("exactMembers() keeps __proto__ as an ordinary member", () => {
  const value = exactMembers(JSON.parse('{"__proto__":{"serial":1}}'));
  assert.equal(JSON.stringify(value), '{"__proto__":{"serial":1}}');
});

/** The result of a command whose output reaches the highest configurable limit. */
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

/** Reports which of several promises are fulfilled. */
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

Deno.test("createMcpHttp() holds a limited number of long answers per user until the client reads them", async () => {
  await using frontend = new McpHttpFixture({ tools: [LONG_TOOL] });
  const session = await frontend.open("alice");
  const readers = [];
  for (let call = 0; call < CALLS; call++) {
    const body = { ...CALL_RPC, id: call };
    const reader = (await frontend.send({ token: "alice", session, body })).body?.getReader();
    assert.ok(reader !== undefined);
    // The first event only announces the ID.
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

Deno.test("createMcpHttp() holds a limited number of long answers of stateless calls", async () => {
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

Deno.test("createMcpHttp() frees the slot of a call that is canceled while its answer waits", async () => {
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

Deno.test("createMcpHttp() limits the concurrent calls per user and counts a failed call as ended", async () => {
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
  assert.match(await send("alice"), /too many concurrent calls \(limit: 32\); wait until one ends/);
  const others = send("bob");
  await until(() => running === USER_BOUNDS.calls + 1);
  gate.reject(new AppError("upstream_failure", "failed"));
  await Promise.all([...calls, others]);
  assert.match(await send("alice"), /failed/);
});

Deno.test("createMcpHttp() limits the resumed streams of each user separately", async () => {
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

Deno.test("the longest answer of a command fits in the events kept for a disconnected client", () => {
  assert.ok(textLength(LONGEST) < USER_BOUNDS.kept);
});
