import assert from "node:assert/strict";
import { readPid } from "../ssh_target/running.ts";
import { poll } from "../stage/poll.ts";
import { processesOf, sessionOf } from "../ssh_target/session_processes.ts";
import { mayNotSudo as ignore, SUDO_ACCOUNTS } from "../ssh_target/sudo_host.ts";
import { share } from "../stage/share.ts";
import { SUDO_HOST, type SudoScene, withSudoHost } from "./sudo_scene.ts";

const { login, any, narrow } = SUDO_ACCOUNTS;

/** The requested account, the account that the host must see, and the required fields of both logs. */
const ELEVATIONS = [
  { name: "no sudo", args: {}, user: login.name, elevation: undefined },
  // Without sudo, the account to elevate to has no effect.
  { name: "a sudo_user alone", args: { sudo_user: any.name }, user: login.name, elevation: undefined },
  { name: "sudo", args: { sudo: true }, user: "root", elevation: "sudo:root" },
  {
    name: "sudo to an account",
    args: { sudo: true, sudo_user: any.name },
    user: any.name,
    elevation: `sudo:${any.name}`,
  },
];

/** Asserts that both logs record the elevation under one serial. */
async function assertRecorded(
  { lastRecords }: SudoScene,
  { outcome, elevation }: { readonly outcome: string; readonly elevation: string | undefined },
): Promise<void> {
  const [issued = {}, ran = {}] = await lastRecords({ signer: "issued", broker: outcome });
  const [, signed] = / elev=(\S+)/.exec(String(issued["command"])) ?? [];
  assert.deepEqual([signed, ran["elevation"]], [elevation, elevation]);
  assert.equal(issued["serial"], ran["serial"]);
  assert.deepEqual([issued["user"], ran["user"]], [login.name, login.name]);
}

// Sudo could not run the last two without a shell.
const COMMANDS = ["id -un", "id -un; exit 3", "umask 077; id -un | cat"];

async function assertOneShots(scene: SudoScene, { args, user, elevation }: (typeof ELEVATIONS)[number]) {
  for (const pty of [false, true]) {
    for (const command of COMMANDS) {
      const ran = await scene.client.call("ssh_execute", { server: SUDO_HOST, command, pty, ...args });
      assert.equal(ran.isError, false, ran.text);
      assert.deepEqual(
        [ran.structured["stdout"], ran.structured["stderr"], ran.structured["exit_code"]],
        [pty ? `${user}\r\n` : `${user}\n`, "", command.includes("exit") ? 3 : 0],
      );
      await assertRecorded(scene, { outcome: "executed", elevation });
    }
  }
}

async function assertSessions(scene: SudoScene, { args, user, elevation }: (typeof ELEVATIONS)[number]) {
  const { client } = scene;
  for (const mode of ["exec", "shell", "pty"]) {
    const id = await client.open({ server: SUDO_HOST, mode, ...args });
    await assertRecorded(scene, { outcome: "session_open", elevation });
    for (const command of COMMANDS.filter((command) => mode === "exec" || !command.includes("exit"))) {
      const ran = await client.exec(id, command);
      assert.deepEqual(
        [ran.structured["stdout"], ran.structured["exit_code"]],
        [`${user}\n`, command.includes("exit") ? 3 : 0],
      );
      await assertRecorded(scene, { outcome: "session_exec", elevation });
    }
  }
}

const withShared = share<SudoScene>((use) => withSudoHost({}, use));
const withStopping = share<SudoScene>((use) => withSudoHost({ stop_on_disconnect: true }, use));

Deno.test.each(ELEVATIONS)(
  "with $name, commands and sessions run as $user, and both logs record it (needs root and sudo)",
  { ignore },
  (row) =>
    withShared(async (scene) => {
      await assertOneShots(scene, row);
      await assertSessions(scene, row);
    }),
);

Deno.test("a sudoers rule for one command matches only that command (needs root and sudo)", {
  ignore,
}, () =>
  withShared(async (scene) => {
    const { client } = scene;
    const args = { server: SUDO_HOST, sudo: true, sudo_user: narrow.name };
    const id = await client.open({ ...args, mode: "exec" });
    const runs = {
      executed: (command: string) => client.call("ssh_execute", { ...args, command }),
      session_exec: (command: string) => client.exec(id, command),
    };
    for (const [outcome, run] of Object.entries(runs)) {
      assert.equal((await run("id -un")).structured["stdout"], `${narrow.name}\n`);
      const refused = await run("id -un; id");
      assert.deepEqual(
        [refused.isError, refused.structured["stdout"], refused.structured["exit_code"]],
        [false, "", 1],
      );
      assert.equal(refused.structured["stderr"], "sudo: a password is required\n");
      const [, ran = {}] = await scene.lastRecords({ signer: "issued", broker: outcome });
      assert.deepEqual([ran["exit_code"], ran["elevation"]], [1, `sudo:${narrow.name}`]);
    }
    const shell = await client.call("ssh_session_open", { ...args, mode: "shell" });
    assert.deepEqual([shell.isError, shell.text], [true, "execution: session shell has ended"]);
    const [, failed = {}] = await scene.lastRecords({ signer: "issued", broker: "error" });
    assert.equal(failed["command"], "mode=shell");
    assert.equal(failed["elevation"], `sudo:${narrow.name}`);
  }));

Deno.test(
  "the signer denies a sudo_user that the host does not list, and an invalid one (needs root and sudo)",
  { ignore },
  () =>
    withSudoHost({ allowed_sudo_users: [any.name] }, async ({ client, host }) => {
      for (
        const [sudo_user, reason] of [
          [narrow.name, `sudo_user "${narrow.name}" is not allowed on "${SUDO_HOST}"`],
          ["-u", 'invalid sudo_user: "-u"'],
        ]
      ) {
        const args = { server: SUDO_HOST, sudo: true, sudo_user };
        const expected = `signing cert for "${SUDO_HOST}": signing rejected (403): ${reason}`;
        const file = `${host.folder}/ran`;
        assert.equal(
          (await client.call("ssh_execute", { ...args, command: `touch ${file}` })).text,
          expected,
        );
        assert.equal((await client.call("ssh_session_open", args)).text, expected);
        await assert.rejects(Deno.stat(file), Deno.errors.NotFound);
      }
    }),
);

Deno.test(
  "files are transferred as the login account, also on a host that permits sudo (needs root and sudo)",
  { ignore },
  () =>
    withShared(async ({ client, host }) => {
      const call = (tool: string, args: object) => client.call(tool, { server: SUDO_HOST, ...args });
      // A file name that begins with a dash and points outside the home directory.
      assert.equal((await call("ssh_put_file", { path: "-rf", content: "mine" })).isError, false);
      const { uid } = await Deno.stat(`${host.home}/-rf`);
      assert.equal(uid, login.id);
      assert.equal((await call("ssh_get_file", { path: "-rf" })).structured["content"], "mine");
      const others = `${host.folder}/others`;
      await Deno.writeTextFile(others, "root's", { mode: 0o600 });
      for (
        const answer of [
          await call("ssh_get_file", { path: others }),
          await call("ssh_put_file", { path: others, content: "x" }),
        ]
      ) {
        assert.match(
          answer.text,
          /^upstream failure: remote (read|write) failed \(exit \d\): .*Permission denied/,
        );
      }
      for (const wish of [{ sudo: true }, { sudo_user: "root" }]) {
        for (const tool of ["ssh_get_file", "ssh_put_file"]) {
          const content = tool === "ssh_put_file" ? { content: "x" } : {};
          const answer = await call(tool, { path: others, ...content, ...wish });
          assert.equal(answer.isError, true);
          assert.match(answer.text, /unrecognized key/i);
        }
      }
      assert.equal(await Deno.readTextFile(others), "root's");
    }),
);

/** A command that writes only its process ID and has a child that ignores signals. */
function silent(file: string): string {
  return `echo $$ > ${file}; (trap '' TERM; sleep 1000) | sleep 1001`;
}

Deno.test.each([{ sudo_user: "root" }, { sudo_user: any.name }])(
  "canceling a silent command through sudo as $sudo_user leaves no process behind (needs root and sudo)",
  { ignore },
  ({ sudo_user }) =>
    withStopping(async ({ client, mcp, host }) => {
      const file = `${host.folder}/pid-${crypto.randomUUID()}`;
      const args = { server: SUDO_HOST, sudo: true, sudo_user, command: silent(file) };
      const call = await mcp.start("tools/call", { name: "ssh_execute", arguments: args });
      const session = await sessionOf(await readPid(file));
      await mcp.notify("notifications/cancelled", { requestId: call });
      await poll(async () => (await processesOf(session)).length === 0, { what: "that nothing of it runs" });
      const next = await client.call("ssh_execute", { ...args, command: "id -un" });
      assert.equal(next.structured["stdout"], `${sudo_user}\n`);
    }),
);

Deno.test.each([{ sudo_user: "root" }, { sudo_user: any.name }])(
  "closing a session in mode exec leaves no process of sudo as $sudo_user behind (needs root and sudo)",
  { ignore },
  ({ sudo_user }) =>
    withStopping(async ({ client, host }) => {
      const id = await client.open({ server: SUDO_HOST, sudo: true, sudo_user });
      const file = `${host.folder}/pid-${crypto.randomUUID()}`;
      const running = client.exec(id, silent(file));
      const session = await sessionOf(await readPid(file));
      assert.equal((await client.call("ssh_session_close", { session_id: id })).text, "closed");
      assert.equal((await running).text, `session "${id}" has ended`);
      await poll(async () => (await processesOf(session)).length === 0, { what: "that nothing of it runs" });
    }),
);
