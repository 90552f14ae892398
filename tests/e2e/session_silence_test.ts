import assert from "node:assert/strict";
import { isRunning, readPid } from "../ssh_target/running.ts";
import { Relay } from "../ssh_target/relay.ts";
import { availableKinds } from "../ssh_target/target.ts";
import { poll } from "../stage/poll.ts";
import { editConfig, HOST, type Stage } from "../stage/stage.ts";
import { type SessionScene, withSessions } from "./session_scene.ts";

const ignore = !availableKinds().includes("openssh");
const ALLOW_FILES = { path: ["hosts", HOST, "allow_file_transfer"], value: true };

/** Runs a test whose host is reached through a relay. */
async function withRelay(test: (scene: SessionScene, relay: Relay) => Promise<void>): Promise<void> {
  await using ends = new AsyncDisposableStack();
  let relay: Relay | undefined;
  const prepare = async (stage: Stage) => {
    relay = ends.use(new Relay(stage.target.port));
    const edit = { path: ["hosts", HOST, "addr"], value: `127.0.0.1:${relay.port}` };
    await editConfig(stage.init.signer_config, [edit, ALLOW_FILES]);
    await editConfig(stage.init.mcp_config, [{ path: ["networks", -1], value: edit.value }]);
  };
  await withSessions({ targetKind: "openssh", prepare }, async (scene) => {
    if (relay === undefined) throw new TypeError("The relay was not started");
    await test(scene, relay);
  });
}

/** Asks a silent host for everything at once, and each answer has to say so before long. */
async function assertGivenUp({ client, mcp, records }: SessionScene): Promise<void> {
  const answers = await Promise.all([
    client.call("ssh_execute", { server: HOST, command: "true" }),
    client.call("ssh_put_file", { server: HOST, path: "/nonexistent", content: "x" }),
    client.call("ssh_session_open", { server: HOST }),
    client.call("ssh_session_open", { server: HOST, mode: "shell" }),
  ]);
  for (const { isError, text } of answers) {
    assert.equal(isError, true);
    assert.match(text, /^(upstream failure: )?connection: SSH handshake timeout$/);
  }
  const errors = (await records()).filter(({ outcome }) => outcome === "error");
  assert.deepEqual(errors.map(({ err }) => err).toSorted(), answers.map(({ text }) => text).toSorted());
  assert.equal(await mcp.end(), 0);
}

Deno.test({
  name:
    "a host whose sshd stands still is given up after a bounded time, which the caller and the log are told",
  ignore,
  fn: () =>
    withSessions({ targetKind: "openssh", signer: [ALLOW_FILES] }, async (scene) => {
      const pid = Number(await Deno.readTextFile(`${scene.stage.init.folder}/../ssh/sshd.pid`));
      Deno.kill(pid, "SIGSTOP");
      await assertGivenUp(scene);
    }),
});

Deno.test(
  "sessions that fall into a black hole can be left, and take nobody with them",
  { ignore },
  () =>
    withRelay(async ({ client, mcp, records, stage }, relay) => {
      const lost = await Promise.all(["exec", "shell"].map(async (mode) => {
        const id = await client.open({ mode });
        const file = `${stage.init.folder}/pid-${mode}`;
        const call = await mcp.start("tools/call", {
          name: "ssh_session_exec",
          arguments: { session_id: id, command: `echo $$ > ${file}; exec sleep 1000` },
        });
        return { id, call, pid: await readPid(file) };
      }));
      relay.swallow();
      await Promise.all(lost.map(async ({ id, call, pid }) => {
        await mcp.notify("notifications/cancelled", { requestId: call });
        const outcomes = async () =>
          (await records()).filter(({ session_id }) => session_id === id).map(({ outcome }) => outcome);
        await poll(async () => (await outcomes()).includes("error"), { what: "the record" });
        const start = performance.now();
        assert.equal((await client.call("ssh_session_close", { session_id: id })).text, "closed");
        assert.ok(performance.now() - start < 60_000, `${performance.now() - start} ms`);
        assert.equal((await client.exec(id, "true")).text, `unknown or expired session: "${id}"`);
        assert.deepEqual(await outcomes(), ["session_open", "error", "session_close"]);
        // Nobody could tell the host; what it knows of a lost connection is its own affair.
        assert.equal(await isRunning(pid), true);
      }));
      assert.equal(await mcp.end(), 0);
    }),
);
