import assert from "node:assert/strict";
import { NO_TERMINAL } from "../ssh_target/terminals.ts";
import { editConfig, HOST, post } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { addHostsBehind, addHostsToStage } from "./hosts_behind.ts";
import { LocalScene } from "./local_scene.ts";
import { McpProcess } from "./mcp_process.ts";
import { SessionClient } from "./session_client.ts";
import { OPEN_POLICY } from "./session_scene.ts";
import { createFolder } from "../stage/folder.ts";

interface RouteScene {
  readonly client: SessionClient;
  readonly dir: string;
  /** Outcome and command in the audit records of the signer and of the broker. */
  issued(): Promise<readonly string[]>;
  broker(): Promise<readonly string[]>;
}

/** The hosts behind the first one, each reached through the previous one. */
const NAMES = ["inner01", "db01"];

type Start = (test: (scene: RouteScene) => Promise<void>) => Promise<void>;

async function withFolder(test: (dir: string) => Promise<void>): Promise<void> {
  await using dir = await createFolder();
  await test(dir.path);
}

async function linesOf(path: string): Promise<readonly string[]> {
  const lines = (await Deno.readTextFile(path)).trimEnd().split("\n");
  return lines.map((line) => JSON.parse(line)).map(({ outcome, command }) => `${outcome} ${command}`);
}

async function withClient(
  command: { readonly args: readonly string[] },
  test: (client: SessionClient) => Promise<void>,
) {
  await using mcp = await McpProcess.start(command);
  await test(new SessionClient(mcp));
  assert.equal(await mcp.end(), 0);
}

const startStage = (controlPlane: boolean): Start => (test) =>
  withFolder((dir) =>
    withStage({ controlPlane, signer: OPEN_POLICY }, async (stage) => {
      await addHostsToStage(stage, { dir, names: NAMES });
      await stage.startSigner();
      if (controlPlane) await stage.startControlPlane();
      await withClient(await stage.mcpCommand(), (client) =>
        test({
          client,
          dir,
          issued: () => linesOf(stage.init.signer_audit_log),
          broker: () => linesOf(stage.init.mcp_audit_log),
        }));
    })
  );

const startLocal: Start = (test) =>
  withFolder(async (dir) => {
    await using ends = new AsyncDisposableStack();
    await using scene = await LocalScene.create();
    await addHostsBehind({
      dir,
      names: NAMES,
      configPath: scene.configPath,
      caPublicKeyLine: await Deno.readTextFile(`${scene.dir}/ssh_ca.pub`),
      defer: (end) => ends.defer(end),
    });
    // One log contains both records.
    const records = async () => await linesOf(`${scene.dir}/audit/audit.log`);
    const isIssued = (line: string) => line.startsWith("issued");
    await withClient(await scene.command("serve-mcp"), (client) =>
      test({
        client,
        dir,
        issued: async () => (await records()).filter(isIssued),
        broker: async () => (await records()).filter((line) => !isIssued(line)),
      }));
  });

const SET_UPS: readonly { readonly setUp: string; readonly start: Start }[] = [
  { setUp: "at the signer", start: startStage(false) },
  { setUp: "through the control plane", start: startStage(true) },
  { setUp: "in local mode", start: startLocal },
];
const MODES = ["exec", "shell", ...(NO_TERMINAL === "" ? ["pty"] : [])];

Deno.test.each(SET_UPS)(
  `sessions (${MODES}) and files go through one and two bastions $setUp`,
  ({ start }) =>
    start(async (scene) => {
      for (const index of NAMES.keys()) await passThrough(scene, index);
    }),
);

async function passThrough({ client, dir, issued, broker }: RouteScene, index: number): Promise<void> {
  const server = NAMES[index];
  const bastions = NAMES.slice(0, index + 1).map(() => "role=bastion");
  for (const mode of MODES) {
    const id = await client.open({ server, mode });
    // Each host accepts only its own principal, so the principal proves which host ran the command.
    await client.exec(id, "x=5");
    const state = await client.exec(id, "echo [$x]; echo err >&2; sh -c 'exit 7'");
    const { stdout, stderr, exit_code } = state.structured;
    assert.deepEqual(
      [stdout, stderr, exit_code],
      {
        exec: ["[]\n", "err\n", 7],
        shell: ["[5]\n", "err\n", 7],
        pty: ["[5]\nerr\n", "", 7],
      }[mode],
    );
    assert.equal((await client.call("ssh_session_close", { session_id: id })).text, "closed");
    assert.deepEqual((await broker()).slice(-4).map((line) => line.split(" ")[0]), [
      "session_open",
      "session_exec",
      "session_exec",
      "session_close",
    ]);
    const roles = (await issued()).filter((line) => /^issued .*purpose=session/.test(line))
      .slice(-bastions.length - 1).map((line) => line.split(" ")[1]);
    assert.deepEqual(roles, [...bastions, "role=target"], mode);
  }
  const path = `${dir}/file-${server}`;
  const put = await client.call("ssh_put_file", {
    server,
    path,
    content: "AP8K",
    content_base64: true,
  });
  assert.equal(put.isError, false, put.text);
  assert.deepEqual(await Deno.readFile(path), Uint8Array.of(0, 255, 10));
  const got = await client.call("ssh_get_file", { server, path });
  assert.deepEqual([got.structured["content"], got.structured["sha256"]], [
    "AP8K",
    put.structured["sha256"],
  ]);
  assert.deepEqual((await broker()).slice(-4).map((line) => line.split(" ")[0]), [
    "executed",
    "file_put",
    "executed",
    "file_get",
  ]);
}

Deno.test("a session behind a host that is no longer a bastion runs no command and reports the reason", () =>
  withFolder((dir) =>
    withStage({ signer: OPEN_POLICY }, async (stage) => {
      await addHostsToStage(stage, { dir, names: ["db01"] });
      await stage.startSigner();
      await withClient(await stage.mcpCommand(), async (client) => {
        const ids = await Promise.all(["exec", "shell"].map((mode) => client.open({ server: "db01", mode })));
        await editConfig(stage.init.signer_config, [{
          path: ["hosts", HOST, "allow_as_bastion"],
          value: false,
        }]);
        const operator = await stage.signerClient("operator");
        assert.equal((await post(operator, "/v1/reload", {})).status, 200);
        for (const id of ids) {
          const refused = await client.exec(id, `touch ${dir}/ran`);
          assert.deepEqual([refused.isError, refused.text], [
            true,
            `session bastion "${HOST}" not allowed: host "${HOST}" is not allowed as a bastion`,
          ]);
        }
        await assert.rejects(Deno.stat(`${dir}/ran`), Deno.errors.NotFound);
        const [refusal] = (await linesOf(stage.init.mcp_audit_log)).slice(-1);
        assert.equal(refusal, `session_exec_denied touch ${dir}/ran`);
      });
    })
  ));
