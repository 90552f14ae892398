import assert from "node:assert/strict";
import type { ListedSession } from "@gateway/shared/wire";
import { createFolder } from "../stage/folder.ts";
import { poll } from "../stage/poll.ts";
import { editConfig, HOST, runBrokerCtl } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { McpProcess } from "./mcp_process.ts";
import { SessionClient } from "./session_client.ts";
import { OPEN_POLICY } from "./session_scene.ts";

Deno.test.each([
  { name: "the signer", controlPlane: false },
  { name: "a control plane", controlPlane: true },
])("an operator lists, kills and replays sessions of brokers behind $name", async ({ controlPlane }) => {
  await using folder = await createFolder();
  await withStage({ controlPlane, signer: OPEN_POLICY }, async (stage) => {
    const { client_config, mcp_config } = stage.init;
    await editConfig(mcp_config, [
      { path: ["revocation_poll_seconds"], value: 1 },
      { path: ["session_recording_dir"], value: folder.path },
    ]);
    await stage.startSigner();
    if (controlPlane) await stage.startControlPlane();
    const ctl = async (...args: string[]) => {
      const { code, stdout, stderr } = await runBrokerCtl(
        ["--client-config", client_config, ...args],
        folder.path,
      );
      const [out = "", err = ""] = [stdout, stderr].map((bytes) => new TextDecoder().decode(bytes));
      assert.equal(code, 0, err);
      return out;
    };
    const list = async () =>
      (JSON.parse(await ctl("session", "list", "--json")) as { sessions: ListedSession[] }).sessions;
    // Both brokers have the same certificate, as brokers of two windows of one MCP client.
    await using first = await McpProcess.start(await stage.mcpCommand());
    await using second = await McpProcess.start(await stage.mcpCommand());
    const [one, other] = [new SessionClient(first), new SessionClient(second)];
    const shell = await one.open({ mode: "shell" });
    assert.equal((await one.exec(shell, "echo hello; : mysql -phunter2x")).isError, false);
    const ids = [shell, await one.open(), await other.open()];
    await poll(async () => (await list()).length === 3, { what: "three sessions in the list" });
    const sessions = await list();
    assert.deepEqual(sessions.map(({ id }) => id).toSorted(), ids.toSorted());
    const { opened_at, ...listed } = sessions.find(({ id }) => id === shell) ?? assert.fail();
    assert.ok(Math.abs(Date.parse(opened_at) - Date.now()) < 600_000);
    assert.deepEqual(listed, {
      ...{
        id: shell,
        caller: "broker-local",
        end_user: "mcp-stdio",
        host: HOST,
        mode: "shell",
        recorded: true,
      },
      last_command: "echo hello; : mysql -p[REDACTED:mysql-p-attached]",
    });
    for (const id of ids) {
      assert.match(await ctl("session", "kill", id.slice(0, 12)), new RegExp(`^frozen session_id=${id} `));
    }
    await poll(async () => await ctl("session", "list") === "(no open sessions)\n", {
      what: "an empty list",
    });
    assert.equal((await one.exec(shell, "true")).text, `unknown or expired session: "${shell}"`);
    const played = await ctl("recording", "play", shell.slice(0, 12), "--recordings", folder.path);
    assert.ok(played.includes(`$ ${listed.last_command}\x1b[0m\r\nhello\r\n`), played);
    assert.match(await ctl("recording", "list", "--recordings", folder.path), / mcp-stdio +web01 /);
  });
});
