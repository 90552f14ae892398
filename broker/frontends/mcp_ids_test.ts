import assert from "node:assert/strict";
import { hangUntilAborted, printed } from "../testing/fake_runner.ts";
import {
  CALL,
  McpHttpFixture,
  parseEvents,
  rpc,
  statelessHeaders,
  statelessRpc,
} from "../testing/mcp_http_fixture.ts";
import { GENERATIONS, RawMcpClient, until } from "../testing/raw_mcp_client.ts";

const IN_USE = /belongs to a request that has not been answered yet/;

Deno.test.each(GENERATIONS)(
  "MCP %s over stdio refuses an id whose call still runs; the call keeps its answer",
  async (generation) => {
    const client = await RawMcpClient.connect(generation);
    const finish = Promise.withResolvers<void>();
    client.broker.runner.answer = async () => {
      await finish.promise;
      return printed("first\n");
    };
    const id = await client.start("tools/call", CALL);
    await until(() => client.broker.runner.runs.length === 1);
    for (const method of ["tools/call", "tools/list"]) {
      await client.startAs(id, method, CALL);
      const { error, ...rest } = await client.message();
      assert.deepEqual([rest.id, error.code], [id, -32600]);
      assert.match(error.message, IN_USE);
    }
    finish.resolve();
    const { result } = await client.message();
    assert.equal(result.structuredContent.stdout, "first\n");
    assert.equal(client.broker.runner.runs.length, 1);
    await client.startAs(id, "tools/call", CALL);
    assert.equal((await client.message()).result.structuredContent.exit_code, 0, "free again");
    await client.end();
  },
);

Deno.test("MCP over stdio refuses batches whole, and starts nothing of them", async () => {
  const client = await RawMcpClient.connect("2025-11-25");
  await client.sendRaw([rpc(7, "tools/call", CALL), rpc(7, "tools/call", CALL)]);
  assert.equal((await client.message()).error.code, -32600);
  assert.equal(client.broker.runner.runs.length, 0);
  await client.end();
});

Deno.test.each([
  { name: "alone", body: rpc(7, "tools/call", CALL) },
  { name: "of another method", body: rpc(7, "ping") },
  { name: "in a batch", body: [rpc(8, "tools/call", CALL), rpc(7, "tools/call", CALL)] },
])("MCP over HTTP refuses an id $name whose call still runs; a cancel reaches the call", async ({ body }) => {
  await using frontend = new McpHttpFixture();
  const session = await frontend.open("alice", "2025-03-26");
  frontend.broker.runner.answer = hangUntilAborted;
  const headers = { "mcp-protocol-version": "2025-03-26" };
  const first = await frontend.send({ token: "alice", session, headers, body: rpc(7, "tools/call", CALL) });
  await until(() => frontend.broker.runner.runs.length === 1);
  const { code, message } = await frontend.refusalOf({ token: "alice", session, headers, body });
  assert.equal(code, "invalid_request");
  assert.match(message, IN_USE);
  assert.equal(frontend.broker.runner.runs.length, 1);
  const other = await frontend.open("alice");
  const list = await frontend.send({ token: "alice", session: other, body: rpc(7, "tools/list") });
  assert.equal(parseEvents(await list.text()).length, 2, "another session has ids of its own");

  const cancel = { jsonrpc: "2.0", method: "notifications/cancelled", params: { requestId: 7 } };
  await frontend.send({ token: "alice", session, headers, body: cancel });
  await until(() => frontend.broker.log.entries.length === 1);
  assert.equal(frontend.broker.log.entries[0]?.err, "canceled");
  frontend.broker.runner.answer = () => printed("second\n");
  const again = await frontend.send({ token: "alice", session, headers, body: rpc(7, "tools/call", CALL) });
  assert.match(await again.text(), /second/);
  await first.body?.cancel();
});

Deno.test("MCP over HTTP refuses a batch that has an id twice, and starts nothing of it", async () => {
  await using frontend = new McpHttpFixture();
  const session = await frontend.open("alice", "2025-03-26");
  const headers = { "mcp-protocol-version": "2025-03-26" };
  const body = [rpc(7, "tools/call", CALL), rpc(7, "tools/list")];
  const { message } = await frontend.refusalOf({ token: "alice", session, headers, body });
  assert.match(message, IN_USE);
  assert.equal(frontend.broker.runner.runs.length, 0);
  const broken = [rpc(7, "tools/call", CALL), { jsonrpc: "2.0", id: 8 }];
  assert.equal((await frontend.send({ token: "alice", session, headers, body: broken })).status, 400);
  const good = [rpc(7, "tools/call", CALL), rpc(8, "tools/list")];
  const response = await frontend.send({ token: "alice", session, headers, body: good });
  assert.equal(parseEvents(await response.text()).filter(({ data }) => data !== undefined).length, 2);
});

Deno.test("MCP over HTTP ends a call by DELETE after its id has been tried again", async () => {
  await using frontend = new McpHttpFixture();
  const session = await frontend.open("alice");
  frontend.broker.runner.answer = hangUntilAborted;
  const first = await frontend.send({ token: "alice", session, body: rpc(7, "tools/call", CALL) });
  await until(() => frontend.broker.runner.runs.length === 1);
  await frontend.refusalOf({ token: "alice", session, body: rpc(7, "tools/call", CALL) });
  assert.equal((await frontend.send({ token: "alice", session, method: "DELETE" })).status, 204);
  await until(() => frontend.broker.log.entries.length === 1);
  assert.deepEqual(frontend.broker.runner.runs.map(({ signal }) => signal?.aborted), [true]);
  await first.body?.cancel();
});

Deno.test("MCP over HTTP keeps stateless requests of one id apart: each gets its own answer", async () => {
  await using frontend = new McpHttpFixture();
  const gates = [Promise.withResolvers<void>(), Promise.withResolvers<void>()];
  frontend.broker.runner.answer = async ({ command }) => {
    await gates[command === "first" ? 0 : 1]?.promise;
    return printed(`${command}\n`);
  };
  const call = (command: string) =>
    frontend.send({
      token: "alice",
      headers: statelessHeaders("tools/call", "ssh_execute"),
      body: statelessRpc(7, "tools/call", { name: "ssh_execute", arguments: { server: "web01", command } }),
    }).then((response) => response.text());
  const [first, second] = [call("first"), call("second")];
  await until(() => frontend.broker.runner.runs.length === 2);
  gates[1]?.resolve();
  assert.match(await second, /"stdout":"second\\n"/);
  gates[0]?.resolve();
  assert.match(await first, /"stdout":"first\\n"/);
});
