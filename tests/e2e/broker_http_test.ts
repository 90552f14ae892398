import assert from "node:assert/strict";
import type { JsonClient } from "@gateway/shared/http";
import { issueLeaf } from "../../ctl/identities/x509.ts";
import { createHostKey } from "../ssh_target/host_key.ts";
import { poll } from "../stage/poll.ts";
import { share } from "../stage/share.ts";
import { ServiceProcess } from "../stage/service_process.ts";
import { BrokerScene } from "./broker_scene.ts";
import { SERIAL } from "./fake_signer.ts";
import { terminalTest } from "../ssh_target/terminals.ts";
import { McpProcess } from "./mcp_process.ts";
import { withoutMark } from "./session_client.ts";

function run(
  client: JsonClient,
  command: string,
  options: { readonly signal?: AbortSignal; readonly pty?: true } = {},
) {
  const { signal, ...rest } = options;
  return client.request({
    method: "POST",
    path: "/v1/ssh_run",
    body: { host: "web01", command, ...rest },
    ...(signal === undefined ? {} : { signal }),
  });
}

const withShared = share<BrokerScene & { readonly monitor: string }>(async (use) => {
  await using scene = await BrokerScene.create();
  const command = await scene.command("serve-http");
  await using broker = await ServiceProcess.start(command);
  await use(Object.assign(scene, { monitor: command.monitor }));
  assert.equal((await broker.stop()).code, 0);
});

Deno.test("broker serve-http rejects a host's identity, which is for the revocation list, and a certificate with two names", () =>
  withShared(async (scene) => {
    using host = await scene.agent("CN=web01.krl");
    const { status, body } = await run(host, "echo out");
    assert.equal(status, 403);
    assert.match(JSON.stringify(body), /a host's identity is for the revocation list alone/);
    using both = await scene.agent("CN=agent-1,CN=agent-2");
    assert.equal((await run(both, "uptime")).status, 401);
    assert.deepEqual(scene.signer.requests, []);
  }));

Deno.test("broker serve-http runs commands for agents with a certificate and counts them in metrics", () =>
  withShared(async (scene) => {
    using client = await scene.agent();
    const { status, body } = await run(client, "echo out; echo err >&2; exit 4");
    assert.equal(status, 200);
    assert.deepEqual(body, { stdout: "out\n", stderr: "err\n", exit_code: 4, serial: SERIAL });
    assert.equal(scene.signer.requests[0]?.end_user, "agent-1");

    const unknown = await client.request({
      method: "POST",
      path: "/v1/ssh_run",
      body: { host: "no", command: "x" },
    });
    assert.equal(unknown.status, 404);
    const denied = await run(client, "forbidden");
    assert.equal(denied.status, 403);
    assert.deepEqual((await scene.records()).slice(-3).map(({ outcome, caller }) => ({ outcome, caller })), [
      { outcome: "executed", caller: "agent-1" },
      { outcome: "denied", caller: "agent-1" },
      { outcome: "error", caller: "agent-1" },
    ]);
    const text = await (await fetch(`http://${scene.monitor}/metrics`)).text();
    assert.match(text, /^broker_events_total\{outcome="executed"\} 1$/m);
    assert.match(text, /^audit_append_failures_total 0$/m);
    assert.match(text, /^audit_blocked_total 0$/m);
  }));

Deno.test("broker serve-http reports the class of a failure without details of the host", () =>
  withShared(async (scene) => {
    const host = {
      addr: `127.0.0.1:${scene.target.port}`,
      user: scene.target.user,
      host_key: scene.target.hostKeyLine,
    };
    using client = await scene.agent();
    const fail = async (change: Partial<typeof host> = {}) => {
      scene.signer.hosts = { web01: { ...host, ...change } };
      const { status, body } = await run(client, "true");
      return [status, (body as { readonly detail: string }).detail];
    };
    assert.deepEqual(await fail({ user: "nobody" }), [502, "upstream failure: certificate refused"]);
    for (const host_key of [createHostKey().line, "ssh-ed25519 AAAA"]) {
      assert.deepEqual(await fail({ host_key }), [502, "upstream failure: host key"]);
    }
    await scene.target.close();
    assert.deepEqual(await fail(), [502, "upstream failure: unreachable"]);
    const errors = (await scene.records()).map(({ err }) => err);
    assert.ok(
      errors.includes('upstream failure: connection: host key for "web01": parsing host key failed'),
      String(errors),
    );
  }));

Deno.test.each([
  {
    name: "an unreachable signer",
    break: async (scene: BrokerScene) => await scene.signer.close(),
    says: /initial host load from signer: signing service unavailable: /,
  },
  {
    name: "a key of another certificate",
    break: async (scene: BrokerScene) => {
      const other = await issueLeaf(scene.pki, { subject: "CN=x", usage: "client" });
      await Deno.writeTextFile(`${scene.dir}/broker.key`, other.keyPem);
    },
    says: /Cannot use (server_key|signer.client_key) ".*broker.key": it is not the key of /,
  },
  {
    name: "a missing audit key",
    break: (scene: BrokerScene) => Deno.remove(`${scene.dir}/audit.seed`),
    says: /Cannot read audit_key ".*audit.seed": /,
  },
])("broker serve-http does not start with $name", async ({ break: damage, says }) => {
  await using scene = await BrokerScene.create();
  const command = await scene.command("serve-http");
  await damage(scene);
  await using broker = ServiceProcess.spawn(command);
  assert.equal((await broker.status).code, 1);
  await poll(() => says.test(broker.log), { what: `a message like ${says}` });
});

Deno.test("broker serve-mcp runs a command on a host, fails closed without the signer and exits with its client", async () => {
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
  assert.match(mcp.log, /mcp-broker \(stdio\) ready; 1 host configured/);
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
  await using mcp = await McpProcess.start(await scene.command("serve-mcp"));
  const mark = `${scene.dir}/alive`;
  await mcp.start("tools/call", { name: "ssh_execute", arguments: endless(mark) });
  const pid = await pidIn(mark);
  mcp.kill("SIGTERM");
  assert.equal(await mcp.ended(), 0);
  await poll(() => isGone(pid), { what: "the remote command to end" });
  assert.deepEqual((await scene.records()).map(({ err }) => err), ["canceled"]);
});

Deno.test("broker serve-mcp exits with its client, also if the client has stopped reading", async () => {
  await using scene = await BrokerScene.create();
  await using mcp = await McpProcess.start(await scene.command("serve-mcp"));
  const run = (command: string) =>
    mcp.start("tools/call", { name: "ssh_execute", arguments: { server: "web01", command } });
  for (let count = 0; count < 3; count++) await run("yes 0123456789abcdef | head -c 300000");
  await run(`echo $$ > ${scene.dir}/alive; while :; do echo tick; sleep 0.05; done`);
  await pidIn(`${scene.dir}/alive`);
  await poll(async () => (await scene.records()).length === 3, { what: "the others to end" });
  assert.equal(await mcp.end(), 0);
  assert.equal((await scene.records()).at(-1)?.["err"], "canceled");
});

Deno.test("broker serve-mcp responds, not ready, until the first host list arrives (R12), and exits without one", async () => {
  await using scene = await BrokerScene.create();
  const arrived = Promise.withResolvers<void>();
  scene.signer.delay = arrived.promise;
  scene.signer.answer = () => new Response("maintenance\n", { status: 503 });
  const command = await scene.command("serve-mcp");
  await using mcp = await McpProcess.start(command);
  const isReady = () => fetch(`http://${command.monitor}/readyz`).then((answer) => answer.text(), () => "");
  await poll(async () => await isReady() !== "", { what: "the monitor" });
  assert.equal(await isReady(), "not ready\n");
  arrived.resolve();
  assert.equal(await mcp.ended(), 1);
  assert.match(mcp.log, /initial host load from signer: signing service unavailable \(503\): maintenance/);
});

/**
 * A command that runs until it is stopped. It has a terminal, because sshd delivers no signals to a command
 * forced by a certificate; hanging up the terminal ends it.
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
