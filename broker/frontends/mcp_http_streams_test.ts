import assert from "node:assert/strict";
import { printed } from "../testing/fake_runner.ts";
import {
  CALL_RPC,
  INITIALIZED,
  LIST,
  McpHttpFixture,
  parseEvents,
  rpc,
  statelessHeaders,
  statelessRpc,
} from "../testing/mcp_http_fixture.ts";
import { until } from "../testing/raw_mcp_client.ts";
import { SessionFixture } from "../testing/session_fixture.ts";
import { createSshSessionExecTool } from "../tools/ssh_commands.ts";

Deno.test("createMcpHttp() runs on when the connection of a session is lost, and keeps the result", async () => {
  await using frontend = new McpHttpFixture();
  const result = Promise.withResolvers<ReturnType<typeof printed>>();
  frontend.broker.runner.answer = () => result.promise;
  const session = await frontend.open("alice");
  const headers = { "mcp-protocol-version": "2025-11-25" };
  const lost = await frontend.send({ token: "alice", session, headers, body: CALL_RPC });
  const reader = lost.body?.getReader();
  const [primer] = parseEvents(new TextDecoder().decode((await reader?.read())?.value));
  assert.ok(primer?.id !== undefined);
  await until(() => frontend.broker.runner.runs.length === 1);
  await reader?.cancel();
  result.resolve(printed("late\n"));
  await until(() => frontend.broker.counted.includes("executed"));

  const resume = { ...headers, "last-event-id": primer.id };
  const stranger = await frontend.refusalOf({ token: "bob", session, headers: resume });
  assert.equal(stranger.code, "forbidden");
  const resumed = await frontend.send({ token: "alice", session, headers: resume });
  assert.equal(resumed.status, 200);
  assert.match(await resumed.text(), /late/);
});

/** A frontend with an open SSH session of alice's, whose commands a test answers, and the call of one. */
async function openSshSession() {
  const broker = new SessionFixture();
  const frontend = new McpHttpFixture({ tools: [createSshSessionExecTool(broker)] });
  const sessionId = await broker.open();
  const call = { name: "ssh_session_exec", arguments: { session_id: sessionId, command: "uptime" } };
  return { broker, frontend, link: broker.links[0]!, call };
}

Deno.test("createMcpHttp() keeps the result of an SSH session's command when its connection is lost", async () => {
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

Deno.test("createMcpHttp() cancels an SSH session's command when a stateless connection is lost, and records it", async () => {
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

Deno.test("createMcpHttp() lets a client take up a stream whose connection it alone knows to be lost", async () => {
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

Deno.test("createMcpHttp() keeps a session in which a call runs although nobody waits for it", async () => {
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

Deno.test("createMcpHttp() primes the stream of a call for a client that names no version again", async () => {
  await using frontend = new McpHttpFixture();
  const session = await frontend.open("alice", "2025-11-25");
  const text = await (await frontend.send({ token: "alice", session, body: CALL_RPC })).text();
  assert.match(text, /^id: \S+\nretry: 1000\ndata: \n\n/);
  assert.equal(parseEvents(text)[0]?.data, undefined);
});

Deno.test("createMcpHttp() ends standing streams when it drains, and lets calls finish", async () => {
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
