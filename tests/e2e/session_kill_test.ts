import assert from "node:assert/strict";
import { isRunning, readPid } from "../ssh_target/running.ts";
import { poll } from "../stage/poll.ts";
import { share } from "../stage/share.ts";
import { HOST, post } from "../stage/stage.ts";
import { ALLOW_PTY, ENDLESS, type SessionScene, withSessions } from "./session_scene.ts";
import { createHash } from "node:crypto";
import { NO_TERMINAL } from "../ssh_target/terminals.ts";
import { createFolder } from "../stage/folder.ts";

const POLL = { path: ["revocation_poll_seconds"], value: 1 };

async function freeze({ stage }: SessionScene, kind: string, value: string): Promise<void> {
  const operator = await stage.signerClient("operator");
  const body = { kind, value };
  const { status, text } = await post(operator, "/v1/freeze", body);
  assert.equal(status, 200, text);
}

const withBroker = (use: (scene: SessionScene) => Promise<void>) => withSessions({ broker: [POLL] }, use);
const withShared = share(withBroker);

async function openBusy({ client, stage }: SessionScene, mode: string) {
  const opened = await client.call("ssh_session_open", { server: HOST, mode });
  const id = String(opened.structured["session_id"]);
  const file = `${stage.init.folder}/${id}`;
  const running = client.exec(id, `sh -c 'echo $$ > ${file}; ${ENDLESS}'`);
  return { id, serial: String(opened.structured["serial"]), pid: await readPid(file), running };
}

Deno.test("a freeze of another session, serial or caller does not affect a session", () =>
  withShared(async (scene) => {
    const { client } = scene;
    const opened = await client.call("ssh_session_open", { server: HOST });
    const id = String(opened.structured["session_id"]);
    await freeze(scene, "serial", String(BigInt(String(opened.structured["serial"])) ^ 1n));
    await freeze(scene, "caller", "broker-other");
    await freeze(scene, "session_id", id.replace(/^./, (digit) => digit === "0" ? "1" : "0"));
    const killed = await client.open();
    await freeze(scene, "session_id", killed);
    // The killed session shows that the broker has processed the list.
    await poll(async () => (await client.exec(killed, "true")).isError, { what: "a poll" });
    assert.equal((await client.exec(id, "true")).isError, false);
  }));

Deno.test.each<
  { kind: string; value: (open: { id: string; serial: string }) => string; within?: typeof withBroker }
>([
  { kind: "session_id", value: ({ id }) => id },
  { kind: "serial", value: ({ serial }) => serial },
  { kind: "end_user", value: () => "mcp-stdio" },
  { kind: "caller", value: () => "broker-local", within: withBroker },
])(
  "a freeze by $kind kills busy sessions in modes exec and shell",
  ({ kind, value, within = withShared }) =>
    within(async (scene) => {
      const { client, records, stage } = scene;
      const sessions = [await openBusy(scene, "exec"), await openBusy(scene, "shell")];
      for (const session of sessions) await freeze(scene, kind, value(session));
      for (const { id, serial, pid, running } of sessions) {
        const killed = await running;
        assert.deepEqual([killed.isError, killed.text], [true, `session "${id}" has ended`]);
        await poll(async () => !await isRunning(pid), { what: "the remote command to end" });
        if (kind === "session_id") {
          const isRevoked = async () => {
            const text = await Deno.readTextFile(stage.init.signer_audit_log);
            return text.includes(`"command":"revoked serial=${serial} reason=session-frozen"`);
          };
          await poll(isRevoked, { what: "the certificate of the session to be revoked" });
        }
        const killOf = async () =>
          (await records()).find(({ outcome, session_id }) =>
            outcome === "session_killed" && session_id === id
          );
        await poll(async () => await killOf() !== undefined, { what: "the record" });
        assert.equal((await killOf())?.["err"], "frozen (kill switch)");
        assert.equal((await client.exec(id, "true")).text, `unknown or expired session: "${id}"`);
      }
    }),
);

const withSharedFailure = share<SessionScene>((use) => withSessions({}, use));
const withSshd = share<SessionScene>((use) => withSessions({ targetKind: "openssh" }, use));

Deno.test.each([{ mode: "exec" }, { mode: "shell" }] as const)(
  "if the sshd of a session in mode $mode is killed, its command and every later one fail",
  ({ mode }) =>
    withSshd(async ({ client }) => {
      const id = await client.open({ mode });
      const sshd = Number((await client.exec(id, "echo $PPID")).structured["stdout"]);
      const running = client.exec(id, ENDLESS);
      await new Promise((resolve) => setTimeout(resolve, 0));
      Deno.kill(sshd, "SIGKILL");
      assert.match((await running).text, /^session execution: /);
      assert.match(
        (await client.exec(id, "true")).text,
        /^session execution: .*close this session and open a new one$/,
      );
      assert.equal((await client.call("ssh_session_close", { session_id: id })).text, "closed");
    }),
);

Deno.test.each([{ mode: "exec" }, { mode: "shell" }] as const)(
  "closing a session in mode $mode takes a bounded time if sshd is stopped",
  ({ mode }) =>
    withSshd(async ({ client }) => {
      const id = await client.open({ mode });
      const sshd = Number((await client.exec(id, "echo $PPID")).structured["stdout"]);
      Deno.kill(sshd, "SIGSTOP");
      try {
        const running = client.exec(id, "true");
        const start = performance.now();
        assert.equal((await client.call("ssh_session_close", { session_id: id })).text, "closed");
        assert.match((await running).text, /has ended$/);
        assert.ok(performance.now() - start < 60_000, `${performance.now() - start} ms`);
      } finally {
        Deno.kill(sshd, "SIGKILL");
      }
    }),
);

Deno.test("a shell that has exited is reported for its command and for every later command", () =>
  withSharedFailure(async ({ client }) => {
    const id = await client.open({ mode: "shell" });
    assert.equal((await client.exec(id, "exit 3")).text, "session execution: session shell has ended");
    const later = "session execution: session shell has ended; close this session and open a new one";
    assert.equal((await client.exec(id, "true")).text, later);
  }));

Deno.test("canceling a command breaks a shell session and leaves an exec session usable", () =>
  withSharedFailure(async ({ client, mcp, stage }) => {
    for (const mode of ["shell", "exec"]) {
      const id = await client.open({ mode });
      const file = `${stage.init.folder}/${mode}`;
      const call = await mcp.start("tools/call", {
        name: "ssh_session_exec",
        arguments: { session_id: id, command: `echo x > ${file}; ${ENDLESS}` },
      });
      await poll(() => Deno.stat(file).then(() => true, () => false), { what: "the command to start" });
      await mcp.notify("notifications/cancelled", { requestId: call });
      const next = await client.exec(id, "echo next");
      if (mode === "exec") assert.equal(next.structured["stdout"], "next\n");
      else assert.match(next.text, /desynchronised/);
    }
  }));

Deno.test("a session in mode shell or pty is recorded, and the audit log contains the digest of the recording", async () => {
  await using folder = await createFolder();
  const broker = [
    { path: ["session_recording_dir"], value: folder.path },
    { path: ["session_recording_strict"], value: true },
  ];
  await withSessions({ broker, signer: [ALLOW_PTY] }, async ({ client, mcp, records }) => {
    const ids: string[] = [];
    for (const mode of ["shell", ...(NO_TERMINAL === "" ? ["pty"] : [])]) {
      const id = await client.open({ mode });
      ids.push(id);
      assert.equal((await client.exec(id, "echo hello; mysql -phunter2x")).isError, false);
    }
    await mcp.end();
    for (const id of ids) {
      const bytes = await Deno.readFile(`${folder.path}/${id}.cast`);
      const text = new TextDecoder().decode(bytes);
      const [header, typed, printed] = text.split("\n");
      assert.equal(JSON.parse(header ?? "").gateway.session_id, id);
      assert.deepEqual(JSON.parse(typed ?? "").slice(1), [
        "i",
        "echo hello; mysql -p[REDACTED:mysql-p-attached]\n",
      ]);
      assert.match(JSON.parse(printed ?? "")[2], /^hello\r?\n/);
      assert.doesNotMatch(text, /hunter2x|__BRK_/);
      const closed = (await records()).find(({ outcome, session_id }) =>
        outcome === "session_close" && session_id === id
      );
      assert.equal(closed?.["body_sha256"], createHash("sha256").update(bytes).digest("hex"));
      assert.equal(closed?.["err"], "broker stopped");
    }
  });
});

Deno.test("a broker that stops closes its sessions and records each one", () =>
  withSharedFailure(async ({ client, mcp, records }) => {
    const ids = [await client.open(), await client.open({ mode: "shell" })];
    const running = client.exec(ids[0] ?? "", ENDLESS).catch(() => {});
    mcp.kill("SIGTERM");
    assert.equal(await mcp.ended(), 0);
    await running;
    const closed = (await records()).filter(({ outcome }) => outcome === "session_close")
      .map((record) => String(record["session_id"]));
    // Earlier tests also closed sessions.
    assert.deepEqual(closed.filter((id) => ids.includes(id)).toSorted(), ids.toSorted());
  }));
