import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { BrokerScene } from "./broker_scene.ts";
import { AGENTS, McpHttpScene } from "./mcp_http_scene.ts";
import { McpProcess } from "./mcp_process.ts";

const IN_USE = /the id 7 belongs to a request that is still running/;

/** A command that reports its start and runs until it is stopped. */
function waitingCommand(dir: string): string {
  return `echo run >> ${dir}/runs; while :; do echo tick; sleep 0.05; done`;
}

function call(command: string, id = 7): object {
  const params = { name: "ssh_execute", arguments: { server: "web01", command } };
  return { jsonrpc: "2.0", id, method: "tools/call", params };
}

async function countRuns(dir: string): Promise<number> {
  const text = await Deno.readTextFile(`${dir}/runs`).catch(() => "");
  return text.split("\n").length - 1;
}

async function outcomes(scene: BrokerScene): Promise<readonly string[]> {
  return (await scene.records()).map(({ outcome, err }) => `${outcome}: ${err}`);
}

Deno.test("over HTTP an id that is used again runs nothing, and cancel and DELETE reach the call that has it", async () => {
  await using scene = await McpHttpScene.create();
  const token = await scene.token(AGENTS[0]);
  const { dir } = scene.scene;
  for (const [index, by] of ["cancel", "DELETE"].entries()) {
    const session = await scene.openSession(token);
    const post = (body: unknown) => scene.send({ method: "POST", token, session, body });
    const first = await post(call(waitingCommand(dir)));
    await poll(async () => await countRuns(dir) === index + 1, { what: "the command to run" });
    const again = await post(call(waitingCommand(dir)));
    assert.equal(again.status, 400);
    assert.match((await again.json()).detail, IN_USE);
    if (by === "cancel") {
      const params = { requestId: 7 };
      await (await post({ jsonrpc: "2.0", method: "notifications/cancelled", params })).text();
    } else {
      await (await scene.send({ method: "DELETE", token, session })).text();
    }
    await poll(async () => (await scene.scene.records()).length === index + 1, { what: "the call to end" });
    assert.equal((await outcomes(scene.scene)).at(-1), "error: canceled");
    assert.equal(await countRuns(dir), index + 1);
    await first.body?.cancel();
  }
});

Deno.test("over stdio an id that is used again runs nothing, and its call ends when the client closes", async () => {
  await using scene = await BrokerScene.create();
  await using mcp = await McpProcess.start(await scene.command("serve-mcp"));
  await mcp.send(call(waitingCommand(scene.dir)));
  await poll(async () => await countRuns(scene.dir) === 1, { what: "the command to run" });
  await mcp.send(call(waitingCommand(scene.dir)));
  const { id, error } = JSON.parse(await mcp.line());
  assert.equal(id, 7);
  assert.match(error.message, IN_USE);
  await mcp.send([call("true", 8), call("true", 8)]);
  assert.equal(JSON.parse(await mcp.line()).error.code, -32600);
  assert.equal(await mcp.end(), 0);
  assert.deepEqual(await outcomes(scene), ["error: canceled"]);
  assert.equal(await countRuns(scene.dir), 1);
});

Deno.test("over stdio the process ends with its client, also when that has stopped reading", async () => {
  await using scene = await BrokerScene.create();
  await using mcp = await McpProcess.start(await scene.command("serve-mcp"));
  const much = "yes 0123456789abcdef | head -c 300000";
  for (const id of [1, 2, 3]) await mcp.send(call(much, id + 10));
  await mcp.send(call(waitingCommand(scene.dir)));
  await poll(async () => await countRuns(scene.dir) === 1, { what: "the command to run" });
  await poll(async () => (await scene.records()).length === 3, { what: "the others to end" });
  assert.equal(await mcp.end(), 0);
  assert.equal((await outcomes(scene)).at(-1), "error: canceled");
});
