import assert from "node:assert/strict";
import { terminalTest } from "../ssh_target/terminals.ts";
import { share } from "../stage/share.ts";
import { withoutMark } from "./session_client.ts";
import { ALLOW_PTY, ENDLESS, type SessionScene, withSessions } from "./session_scene.ts";
import { isRunning, readPid } from "../ssh_target/running.ts";
import { Relay } from "../ssh_target/relay.ts";
import { availableKinds } from "../ssh_target/target.ts";
import { poll } from "../stage/poll.ts";
import { editConfig, HOST, post, type Stage } from "../stage/stage.ts";

const withShared = share<SessionScene>((use) => withSessions({ signer: [ALLOW_PTY] }, use));

Deno.test("a session in mode exec runs commands in separate shells, also concurrently", () =>
  withShared(async ({ client, records }) => {
    const id = await client.open();
    assert.match(id, /^[0-9a-f]{24}$/);
    assert.equal(
      withoutMark((await client.exec(id, "cd /usr; x=1; printf 'a\\377'; echo b >&2; exit 3")).text).replace(
        /serial=\d+/,
        "serial=n",
      ),
      "[stdout * 2 bytes]\na\ufffd\n[end *]\n[stderr * 2 bytes]\nb\n[end *]\n[exit=3 serial=n]",
    );
    assert.equal((await client.exec(id, "echo [$x]")).structured["stdout"], "[]\n");
    // Each waits for the other: they finish only if they run concurrently.
    const [pipe] = [`/tmp/${id}`];
    await client.exec(id, `mkfifo ${pipe}`);
    const [reader, writer] = await Promise.all([
      client.exec(id, `cat ${pipe}`),
      client.exec(id, `echo together > ${pipe}`),
    ]);
    assert.deepEqual([reader.structured["stdout"], writer.structured["exit_code"]], ["together\n", 0]);
    await client.exec(id, `rm ${pipe}`);
    assert.equal((await client.call("ssh_session_close", { session_id: id })).text, "closed");
    assert.equal((await client.exec(id, "true")).text, `unknown or expired session: "${id}"`);
    const outcomes = (await records()).map(({ outcome }) => outcome);
    assert.deepEqual([outcomes[0], outcomes.at(-1)], ["session_open", "session_close"]);
    assert.equal(outcomes.filter((outcome) => outcome === "session_exec").length, 6);
  }));

for (const mode of ["shell", "pty"]) {
  const register = mode === "pty" ? terminalTest : Deno.test;
  register(
    `a session in mode ${mode} keeps its state`,
    () =>
      withShared(async ({ client }) => {
        const id = await client.open({ mode });
        await client.exec(id, "cd /usr; x=5");
        assert.equal((await client.exec(id, "pwd; echo $x")).structured["stdout"], "/usr\n5\n");
        assert.equal(
          (await client.exec(id, "a\nb")).text,
          "command contains newlines; not allowed in shell/pty sessions",
        );
      }),
  );
}

const ignore = !availableKinds().includes("openssh");
const ALLOW_FILES = { path: ["hosts", HOST, "allow_file_transfer"], value: true };

/** Runs a test with a host that is reached through a relay. */
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

/** Sends all requests to a silent host at the same time; each must report it soon. */
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

Deno.test(
  "calls to a host whose sshd is stopped end after a bounded time, and caller and log get the reason",
  { ignore },
  () =>
    withSessions({ targetKind: "openssh", signer: [ALLOW_FILES] }, async (scene) => {
      const pid = Number(await Deno.readTextFile(`${scene.stage.init.folder}/../ssh/sshd.pid`));
      Deno.kill(pid, "SIGSTOP");
      await assertGivenUp(scene);
    }),
);

Deno.test(
  "sessions on a host that stopped responding can be closed without effect on other sessions",
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
        // The host could not be reached; its handling of a lost connection is outside this test.
        assert.equal(await isRunning(pid), true);
      }));
      assert.equal(await mcp.end(), 0);
    }),
);

const withSharedChange = share<SessionScene>((use) => withSessions({}, use));

async function reload(stage: Stage, path: readonly string[], value: unknown): Promise<void> {
  await editConfig(stage.init.signer_config, [{ path, value }]);
  const operator = await stage.signerClient("operator");
  const { status, text } = await post(operator, "/v1/reload", {});
  assert.equal(status, 200, text);
}

Deno.test("an open session survives its signer: commands fail while it is down and work again later", () =>
  withSharedChange(async ({ stage, signer, client }) => {
    const id = await client.open({ mode: "shell" });
    await client.exec(id, "x=1");
    await signer.stop("SIGKILL");
    const refused = await client.exec(id, "echo $x");
    assert.match(refused.text, /^session connectivity preflight: signing service unavailable/);
    await stage.startSigner();
    assert.equal((await client.exec(id, "echo $x")).structured["stdout"], "1\n");
  }));

Deno.test("a command policy that is enabled stops commands of a shell session and applies to an exec session", () =>
  withSharedChange(async ({ stage, client }) => {
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

const PER_CALLER = 20;

async function connections({ init }: Stage): Promise<number> {
  const pid = (await Deno.readTextFile(`${init.folder}/../ssh/sshd.pid`)).trim();
  const { stdout } = await new Deno.Command("ps", { args: ["-o", "pid=", "--ppid", pid] }).output();
  return new TextDecoder().decode(stdout).split("\n").filter((line) => line.trim() !== "").length;
}

Deno.test("of 200 concurrent opens, as many as the limit allows succeed, and no session leaks", {
  ignore,
}, () =>
  withSessions({ targetKind: "openssh" }, async ({ client, records, stage }) => {
    const modes = ["exec", "shell"];
    const open = (count: number) =>
      Promise.all(Array.from({ length: count }, (_, index) =>
        client.call("ssh_session_open", { server: HOST, mode: modes[index % 2] })));
    const opened = await open(200);
    const ids = opened.filter(({ isError }) =>
      !isError
    ).map(({ structured }) => String(structured["session_id"]));
    assert.equal(new Set(ids).size, PER_CALLER);
    const refusals = new Set(
      opened.filter(({ isError }) =>
        isError
      ).map(({ text }) => text),
    );
    assert.deepEqual([...refusals], [
      `per-caller session limit reached (${PER_CALLER}); close existing sessions before opening new ones`,
    ]);
    const outcomes = (await records()).map(({ outcome }) => outcome);
    assert.equal(outcomes.filter((outcome) => outcome === "session_open").length, PER_CALLER);
    assert.equal(outcomes.filter((outcome) => outcome === "denied").length, 200 - PER_CALLER);
    assert.equal(await connections(stage), PER_CALLER);

    const ran = await Promise.all(ids.map((id) => client.exec(id, `echo ${id}`)));
    assert.deepEqual(ran.map(({ structured }) => structured["stdout"]), ids.map((id) => `${id}\n`));
    await Promise.all(ids.map((id) => client.call("ssh_session_close", { session_id: id })));
    await poll(async () => await connections(stage) === 0, { what: "the connections to end" });
    const again = await open(PER_CALLER);
    assert.deepEqual(again.map(({ isError }) => isError), Array(PER_CALLER).fill(false));
  }));

Deno.test("a client that disconnects during a command ends its sessions, each with a record", {
  ignore,
}, () =>
  withSessions({ targetKind: "openssh" }, async ({ client, mcp, records, stage }) => {
    const ids = [await client.open(), await client.open({ mode: "shell" }), await client.open()];
    const calls = await Promise.all(
      ids.slice(0, 2).map(async (id, index) => {
        const file = `${stage.init.folder}/pid${index}`;
        client.exec(id, `sh -c 'echo $$ > ${file}; ${ENDLESS}'`).catch(() => {});
        return await readPid(file);
      }),
    );
    assert.equal(await mcp.end(), 0);
    for (const pid of calls) await poll(async () => !await isRunning(pid), { what: "the command to end" });
    await poll(async () => await connections(stage) === 0, { what: "the connections to end" });
    const closed = (await records()).filter(({ outcome }) => outcome === "session_close");
    assert.deepEqual(closed.map((record) => record["session_id"]).toSorted(), ids.toSorted());
    const failed = (await records()).filter(({ outcome }) => outcome === "error");
    assert.deepEqual(failed.map(({ err }) => err), ["canceled", "canceled"]);
  }));
