import assert from "node:assert/strict";
import { terminalTest } from "../ssh_target/terminals.ts";
import { share } from "../stage/share.ts";
import { withoutMark } from "./session_client.ts";
import { ALLOW_PTY, type SessionScene, withSessions } from "./session_scene.ts";

const withShared = share<SessionScene>((use) => withSessions({ signer: [ALLOW_PTY] }, use));

Deno.test("a session in mode exec runs commands apart from each other, and several at once", () =>
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
    // Each waits for the other: they are done only if they run at once.
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
