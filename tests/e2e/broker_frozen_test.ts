import assert from "node:assert/strict";
import { editConfig, HOST, post, runBrokerCtl, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { McpProcess } from "./mcp_process.ts";
import { recordsOf } from "../stage/audit.ts";
import { poll } from "../stage/poll.ts";
import { share } from "../stage/share.ts";
import { addHostsToStage } from "./hosts_behind.ts";
import { SessionClient } from "./session_client.ts";
import { readPid } from "../ssh_target/running.ts";
import { processesOf, sessionOf } from "../ssh_target/session_processes.ts";
import { availableKinds } from "../ssh_target/target.ts";
import { BrokerScene } from "./broker_scene.ts";
import { createFolder } from "../stage/folder.ts";

Deno.test("agents of a frozen broker receive 403 over HTTPS and the same text over MCP", () =>
  withStage({}, async (stage) => {
    await stage.startSigner();
    await stage.startBroker();
    await using mcp = await McpProcess.start(await stage.mcpCommand());
    const client = await stage.brokerClient();
    const run = () => post(client, "/v1/ssh_run", { host: HOST, command: "uptime" });
    assert.equal((await run()).status, 200);
    const operator = await stage.signerClient("operator");
    const frozen = await post(operator, "/v1/freeze", { kind: "caller", value: "broker-local" });
    assert.equal(frozen.status, 200, frozen.text);

    const { status, body } = await run();
    const { code, detail } = body as { readonly code: string; readonly detail: string };
    assert.deepEqual([status, code], [403, "frozen"]);
    assert.match(detail, /^refreshing host list: host list refused \(403\): .*frozen/);
    const called = await mcp.call("ssh_execute", { server: HOST, command: "uptime" });
    assert.equal(called.isError, true);
    assert.equal(called.content[0].text, detail);
    assert.equal(await mcp.end(), 0);
  }));

async function withBastions(
  test: (scene: { readonly stage: Stage; readonly mcp: McpProcess }) => Promise<void>,
): Promise<void> {
  await using dir = await createFolder();
  await withStage({}, async (stage) => {
    await addHostsToStage(stage, { dir: dir.path, names: ["inner01", "db01"] });
    await editConfig(stage.init.mcp_config, [{ path: ["revocation_poll_seconds"], value: 1 }]);
    await stage.startSigner();
    await using mcp = await McpProcess.start(await stage.mcpCommand());
    await test({ stage, mcp });
    assert.equal(await mcp.end(), 0);
  });
}

const withShared = share<{ readonly stage: Stage; readonly mcp: McpProcess }>(withBastions);

Deno.test("broker serve-mcp runs a command behind two bastions that it cannot reach directly", () =>
  withShared(async ({ stage, mcp }) => {
    const list = await mcp.call("ssh_list_servers", {});
    assert.equal(
      list.content[0].text,
      "db01 (sudo=false pty=true file_transfer=true via=inner01)\n" +
        "inner01 (sudo=false pty=true file_transfer=true via=web01)\n" +
        "web01 (sudo=false pty=false file_transfer=false)\n",
    );
    const result = await mcp.call("ssh_execute", { server: "db01", command: "echo through; exit 5" });
    assert.equal(result.isError, undefined, result.content[0].text);
    assert.deepEqual(
      [result.structuredContent.stdout, result.structuredContent.exit_code],
      ["through\n", 5],
    );
    const issued = await recordsOf(stage.init.signer_audit_log);
    assert.deepEqual(issued.map(({ outcome }) => outcome), ["issued", "issued", "issued"]);
    const executed = await recordsOf(stage.init.mcp_audit_log);
    assert.deepEqual(executed.map(({ outcome, serial }) => [outcome, serial]), [
      ["executed", issued[2]?.["serial"]],
    ]);
  }));

Deno.test("a freeze of a session ID also revokes the session's certificates for the bastions", () =>
  withShared(async ({ stage, mcp }) => {
    const before = (await recordsOf(stage.init.signer_audit_log)).length;
    const id = await new SessionClient(mcp).open({ server: "db01" });
    const operator = await stage.signerClient("operator");
    const body = { kind: "session_id", value: id };
    const { status, text } = await post(operator, "/v1/freeze", body);
    assert.equal(status, 200, text);
    const serials = async (outcome: string) =>
      (await recordsOf(stage.init.signer_audit_log)).slice(before).filter((record) =>
        record["outcome"] === outcome
      )
        .map(({ serial }) => serial);
    await poll(async () => (await serials("revoked")).length > 0, { what: "the revocation" });
    assert.deepEqual((await serials("revoked")).toSorted(), (await serials("issued")).toSorted());
    assert.equal((await serials("issued")).length, 3);
  }));

const ignore = !availableKinds().includes("openssh");

/** A silent command whose child ignores signals. sshd cannot signal it, and it never gets SIGPIPE. */
function silent(path: string): string {
  return `echo $$ > ${path}; (trap '' TERM; sleep 1000) | sleep 1001`;
}

/** Runs a test on a host with `stop_on_disconnect`, then checks that no process remains. */
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

Deno.test("broker serve-mcp ends a silent command on sshd if its call is canceled, and continues (K16)", {
  ignore,
}, () =>
  leavesNothing(async (scene, command, started) => {
    await using mcp = await McpProcess.start(await scene.command("serve-mcp"));
    const id = await start(mcp, command);
    await started;
    await mcp.notify("notifications/cancelled", { requestId: id });
    const next = await mcp.call("ssh_execute", { server: "web01", command: "cat; echo again; exit 3" });
    assert.deepEqual([next.structuredContent.stdout, next.structuredContent.exit_code], ["again\n", 3]);
    assert.equal(await mcp.end(), 0);
  }));

Deno.test(
  "a silent command on sshd ends if the broker is killed (K16)",
  { ignore },
  () =>
    leavesNothing(async (scene, command, started) => {
      await using mcp = await McpProcess.start(await scene.command("serve-mcp"));
      await start(mcp, command);
      await started;
      mcp.kill("SIGKILL");
      await mcp.ended();
    }),
);

const SERVED = /mcp-broker \(stdio\) ready/;

async function startSet(scene: BrokerScene): Promise<McpProcess> {
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

Deno.test("several serve-mcp brokers share one config, each with a separate audit log", async () => {
  await using scene = await BrokerScene.create();
  await using first = await startSet(scene);
  await using second = await startSet(scene);
  await using third = await startSet(scene);
  await run(second, "echo second");
  await Promise.all([run(first, "echo first"), run(third, "echo third"), run(second, "echo more")]);
  assert.match(
    second.log,
    /"audit log in use by another process, writing to another file","path":".*audit-2\.log"/,
  );

  // A log is unlocked when its process has ended, even after a kill.
  Deno.kill(first.pid, "SIGKILL");
  await first.end();
  await using fourth = await startSet(scene);
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
  assert.match(emptied.text, /^audit-2\.log: ERROR: .* it was truncated, replaced or changed/m);
  assert.equal(emptied.code, 1);
});

Deno.test("a second serve-http broker with the same config does not start", async () => {
  await using scene = await BrokerScene.create();
  await using first = await startSet(scene);
  const command = await scene.command("serve-http");
  const { code, stderr } = await new Deno.Command(Deno.execPath(), { args: [...command.args], stdin: "null" })
    .output();
  assert.equal(code, 1);
  assert.match(new TextDecoder().decode(stderr), /audit\.log": it is in use by another process/);
  await first.end();
});
