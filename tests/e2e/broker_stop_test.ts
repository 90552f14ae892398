import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { JsonClient } from "@gateway/shared/http";
import { issueLeaf } from "../../ctl/identities/x509.ts";
import { readPid } from "../ssh_target/running.ts";
import { poll } from "../stage/poll.ts";
import { processesOf, sessionOf } from "../ssh_target/session_processes.ts";
import { availableKinds } from "../ssh_target/target.ts";
import { ServiceProcess } from "../stage/service_process.ts";
import { BrokerScene } from "./broker_scene.ts";
import { McpProcess } from "./mcp_process.ts";

const ignore = !availableKinds().includes("openssh");

/** A silent command with a stubborn child: sshd tells it nothing, and it writes nothing. */
function silent(path: string): string {
  return `echo $$ > ${path}; (trap '' TERM; sleep 1000) | sleep 1001`;
}

/** Runs a test against a host with `stop_on_disconnect`, and then looks for what is left of the command. */
async function leavesNothing(
  test: (scene: BrokerScene, command: string, started: Promise<unknown>) => Promise<void>,
) {
  await using scene = await BrokerScene.create({ stopOnDisconnect: true });
  const path = `${scene.dir}/pid`;
  const session = readPid(path).then(sessionOf);
  const [id] = await Promise.all([session, test(scene, silent(path), session)]);
  await poll(async () => (await processesOf(id)).length === 0, { what: "that nothing of the command runs" });
}

function start(mcp: McpProcess, command: string): Promise<number> {
  return mcp.start("tools/call", { name: "ssh_execute", arguments: { server: "web01", command } });
}

Deno.test({
  name: "broker serve-mcp ends a silent command on sshd when its call is canceled, and serves on (K16)",
  ignore,
  fn: () =>
    leavesNothing(async (scene, command, started) => {
      await using mcp = new McpProcess(await scene.command("serve-mcp"));
      await mcp.initialize();
      const id = await start(mcp, command);
      await started;
      await mcp.notify("notifications/cancelled", { requestId: id });
      const next = await mcp.call("ssh_execute", { server: "web01", command: "cat; echo again; exit 3" });
      assert.deepEqual([next.structuredContent.stdout, next.structuredContent.exit_code], ["again\n", 3]);
      assert.equal(await mcp.end(), 0);
    }),
});

Deno.test({
  name: "broker serve-http ends a silent command on sshd when its client hangs up (K16)",
  ignore,
  fn: () =>
    leavesNothing(async (scene, command, started) => {
      await using broker = await ServiceProcess.start(await scene.command("serve-http"));
      const { certPem, keyPem } = await issueLeaf(scene.pki, { subject: "CN=agent-1", usage: "client" });
      using client = new JsonClient({
        clock: systemClock,
        baseUrl: `https://${scene.listen}`,
        cert: certPem,
        key: keyPem,
        ca: scene.pki.certPem,
        timeoutMs: 30_000,
      });
      const hangUp = new AbortController();
      const body = { host: "web01", command };
      const running = client.request({ method: "POST", path: "/v1/ssh_run", body, signal: hangUp.signal });
      running.catch(() => {});
      await started;
      hangUp.abort();
      await assert.rejects(running, { code: "canceled" });
      assert.equal((await broker.stop()).code, 0);
    }),
});

Deno.test({
  name: "a silent command on sshd ends when the broker is killed (K16)",
  ignore,
  fn: () =>
    leavesNothing(async (scene, command, started) => {
      await using mcp = new McpProcess(await scene.command("serve-mcp"));
      await mcp.initialize();
      await start(mcp, command);
      await started;
      mcp.kill("SIGKILL");
      await mcp.ended();
    }),
});
