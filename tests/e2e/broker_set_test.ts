import assert from "node:assert/strict";
import { poll } from "../stage/poll.ts";
import { runBrokerCtl } from "../stage/stage.ts";
import { BrokerScene } from "./broker_scene.ts";
import { McpProcess } from "./mcp_process.ts";

const SERVED = /mcp-broker \(stdio\) ready/;

async function start(scene: BrokerScene): Promise<McpProcess> {
  const mcp = new McpProcess(await scene.command("serve-mcp"));
  await mcp.initialize();
  await poll(() => Promise.resolve(SERVED.test(mcp.log)), { what: "the broker to be ready" });
  return mcp;
}

async function run(mcp: McpProcess, command: string): Promise<void> {
  const { isError, content } = await mcp.call("ssh_execute", { server: "web01", command });
  assert.ok(!isError, content[0].text);
}

async function ranIn(scene: BrokerScene, log: string): Promise<readonly string[]> {
  return (await scene.records(log)).map(({ command }) => String(command));
}

async function verifySet({ dir }: BrokerScene, ...flags: readonly string[]) {
  const log = `${dir}/audit/audit.log`;
  const args = ["audit", "verify", "--set", "--log", log, "--key", `${dir}/audit.seed`, ...flags];
  const { code, stdout } = await runBrokerCtl(args, dir);
  return { code, text: new TextDecoder().decode(stdout) };
}

Deno.test("each window of an MCP client has a broker of one config, with a log of its own", async () => {
  await using scene = await BrokerScene.create();
  await using first = await start(scene);
  await using second = await start(scene);
  await using third = await start(scene);
  await run(second, "echo second");
  await Promise.all([run(first, "echo first"), run(third, "echo third"), run(second, "echo more")]);
  assert.match(
    second.log,
    /"Another process has the audit log, this one keeps another beside it","path":".*audit-2\.log"/,
  );

  // A log is free again when its process has ended, however it did.
  Deno.kill(first.pid, "SIGKILL");
  await first.end();
  await using fourth = await start(scene);
  await run(fourth, "echo fourth");
  for (const mcp of [second, third, fourth]) assert.equal(await mcp.end(), 0);

  assert.deepEqual(await ranIn(scene, "audit.log"), ["echo first", "echo fourth"]);
  assert.deepEqual(await ranIn(scene, "audit-2.log"), ["echo second", "echo more"]);
  assert.deepEqual(await ranIn(scene, "audit-3.log"), ["echo third"]);
  const { code, text } = await verifySet(scene, "--since", `${scene.dir}/heads`);
  assert.deepEqual(text.match(/^\S+ OK: .*/gm), [
    "audit.log: OK: 2 entries, chain intact, all signatures valid",
    "audit-2.log: OK: 2 entries, chain intact, all signatures valid",
    "audit-3.log: OK: 1 entries, chain intact, all signatures valid",
  ]);
  assert.equal(code, 0);
  await Deno.writeTextFile(`${scene.dir}/audit/audit-2.log`, "");
  const emptied = await verifySet(scene, "--since", `${scene.dir}/heads`);
  assert.match(emptied.text, /^audit-2\.log: ERROR: .* emptied/m);
  assert.equal(emptied.code, 1);
});

Deno.test("a second broker over HTTP on one config does not start", async () => {
  await using scene = await BrokerScene.create();
  await using first = await start(scene);
  const command = await scene.command("serve-http");
  const { code, stderr } = await new Deno.Command(Deno.execPath(), { args: [...command.args], stdin: "null" })
    .output();
  assert.equal(code, 1);
  assert.match(new TextDecoder().decode(stderr), /audit\.log": it is in use by another process/);
  await first.end();
});
