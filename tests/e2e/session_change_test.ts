import assert from "node:assert/strict";
import { editConfig, HOST, type Stage } from "../stage/stage.ts";
import { share } from "../stage/share.ts";
import { type SessionScene, withSessions } from "./session_scene.ts";

const withShared = share<SessionScene>((use) => withSessions({}, use));

async function reload(stage: Stage, path: readonly string[], value: unknown): Promise<void> {
  await editConfig(stage.init.signer_config, [{ path, value }]);
  const operator = await stage.signerClient("operator");
  const { status, text } = await operator.request({ method: "POST", path: "/v1/reload", body: {} });
  assert.equal(status, 200, text);
}

Deno.test("a session is refused as soon as the way to its host has changed, and works when it is as before", () =>
  withShared(async ({ stage, client, records }) => {
    const id = await client.open();
    assert.equal((await client.exec(id, "true")).isError, false);
    await reload(stage, ["hosts", HOST, "user"], "nobody");
    const refused = await client.exec(id, "true");
    assert.deepEqual([refused.isError, refused.text], [
      true,
      `session host connectivity changed for "${HOST}"; close this session and open a new one`,
    ]);
    assert.equal((await records()).at(-1)?.["outcome"], "session_exec_denied");
    await reload(stage, ["hosts", HOST, "user"], stage.target.user);
    assert.equal((await client.exec(id, "true")).isError, false);
  }));

Deno.test("an open session outlives its signer: refused while it is down, working when it is back", () =>
  withShared(async ({ stage, signer, client }) => {
    const id = await client.open({ mode: "shell" });
    await client.exec(id, "x=1");
    await signer.stop("SIGKILL");
    const refused = await client.exec(id, "echo $x");
    assert.match(refused.text, /^session connectivity preflight: signing service unavailable/);
    await stage.startSigner();
    assert.equal((await client.exec(id, "echo $x")).structured["stdout"], "1\n");
  }));

Deno.test("a command policy that is switched on ends what a shell session may do, and rules an exec session", () =>
  withShared(async ({ stage, client }) => {
    const shell = await client.open({ mode: "shell" });
    const exec = await client.open();
    assert.equal((await client.exec(shell, "id")).isError, false);
    await reload(stage, ["group_command_policies"], { _default: ["starter"] });
    const refused = await client.exec(shell, "uptime");
    assert.match(refused.text, /^session command (policy preflight|not allowed): /);
    assert.equal((await client.exec(exec, "uptime")).isError, false);
    assert.match((await client.exec(exec, "id")).text, /^session command not allowed/);
    const opened = await client.call("ssh_session_open", { server: HOST, mode: "shell" });
    assert.match(opened.text, /^signing cert for "web01": signing rejected \(403\): /);
  }));
