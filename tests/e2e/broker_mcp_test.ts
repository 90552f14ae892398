import assert from "node:assert/strict";
import { terminalTest } from "../ssh_target/terminals.ts";
import { poll } from "../stage/poll.ts";
import { BrokerScene } from "./broker_scene.ts";
import { SERIAL } from "./fake_signer.ts";
import { McpProcess } from "./mcp_process.ts";
import { withoutMark } from "./session_client.ts";

Deno.test("broker serve-mcp runs a command on a host, fails closed when the signer is gone, and ends with its client", async () => {
  await using scene = await BrokerScene.create();
  await using mcp = new McpProcess(await scene.command("serve-mcp"));
  const { serverInfo } = await mcp.initialize();
  assert.equal(serverInfo.name, "gateway");

  const list = await mcp.call("ssh_list_servers", {});
  assert.equal(list.content[0].text, "web01 (sudo=false pty=false file_transfer=false)\n");

  const line = await mcp.request("tools/call", {
    name: "ssh_execute",
    arguments: { server: "web01", command: "printf 'a\\377b'; echo oops >&2; exit 3" },
  });
  assert.ok(line.includes(`"serial":${SERIAL}}`), line);
  const { result } = JSON.parse(line);
  assert.equal(
    withoutMark(result.content[0].text),
    `[stdout * 3 bytes]\na\ufffdb\n[end *]\n[stderr * 5 bytes]\noops\n[end *]\n[exit=3 serial=${SERIAL}]`,
  );
  assert.equal(result.structuredContent.exit_code, 3);

  const denied = await mcp.call("ssh_execute", { server: "web01", command: "forbidden" });
  assert.equal(denied.isError, true);
  assert.equal(
    denied.content[0].text,
    'signing cert for "web01": signing rejected (403): command denied by policy',
  );

  await scene.signer.close();
  const gone = await mcp.call("ssh_execute", { server: "web01", command: "uptime" });
  assert.equal(gone.isError, true);
  assert.match(
    gone.content[0].text,
    /^upstream failure: refreshing host list: signing service unavailable: /,
  );
  assert.ok(!gone.content[0].text.includes("127.0.0.1"));

  assert.equal(await mcp.end(), 0);
  assert.match(mcp.log, /mcp-broker \(stdio\) ready; 1 hosts configured/);
  const [executed, refused] = await scene.records();
  assert.deepEqual(
    [
      executed?.["caller"],
      executed?.["outcome"],
      executed?.["serial"],
      executed?.["exit_code"],
      executed?.["host"],
    ],
    ["mcp-stdio", "executed", SERIAL, 3, `127.0.0.1:${scene.target.port}`],
  );
  assert.equal(refused?.["outcome"], "error");
  assert.equal(JSON.stringify(executed, (_key, value) => String(value)).includes("oops\n"), false);
});

terminalTest("broker serve-mcp ends what runs when it gets SIGTERM", async () => {
  await using scene = await BrokerScene.create();
  await using mcp = new McpProcess(await scene.command("serve-mcp"));
  await mcp.initialize();
  const mark = `${scene.dir}/alive`;
  await mcp.start("tools/call", { name: "ssh_execute", arguments: endless(mark) });
  const pid = await pidIn(mark);
  mcp.kill("SIGTERM");
  assert.equal(await mcp.ended(), 0);
  await poll(() => isGone(pid), { what: "the remote command to end" });
  assert.deepEqual((await scene.records()).map(({ err }) => err), ["canceled"]);
});

Deno.test("broker serve-mcp answers while the first host list is on its way, not ready yet (R12), and ends without one", async () => {
  await using scene = await BrokerScene.create();
  const arrived = Promise.withResolvers<void>();
  scene.signer.delay = arrived.promise;
  scene.signer.answer = () => new Response("maintenance\n", { status: 503 });
  const command = await scene.command("serve-mcp");
  await using mcp = new McpProcess(command);
  await mcp.initialize();
  const isReady = () => fetch(`http://${command.monitor}/readyz`).then((answer) => answer.text(), () => "");
  await poll(async () => await isReady() !== "", { what: "the monitor" });
  assert.equal(await isReady(), "not ready\n");
  arrived.resolve();
  assert.equal(await mcp.ended(), 1);
  assert.match(mcp.log, /initial host load from signer: signing service unavailable \(503\): maintenance/);
});

/**
 * A command that ends only when it is told to. With a terminal, because sshd passes no signal on to a command that
 * a certificate forces; it ends such a command by hanging up its terminal.
 */
function endless(mark: string) {
  return { server: "web01", command: `echo $$ > ${mark}; exec sleep 300`, pty: true };
}

async function pidIn(path: string): Promise<number> {
  let pid = 0;
  await poll(async () => {
    pid = Number(await Deno.readTextFile(path).catch(() => ""));
    return pid > 0;
  }, { what: "the remote command to start" });
  return pid;
}

function isGone(pid: number): boolean {
  try {
    return / Z /.test(Deno.readTextFileSync(`/proc/${pid}/stat`));
  } catch {
    return true;
  }
}
