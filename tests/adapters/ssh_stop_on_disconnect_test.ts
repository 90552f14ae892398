import assert from "node:assert/strict";
import { stopOnDisconnect } from "@gateway/shared/policy";
import { DEFAULT_LIMITS } from "../../broker/ssh/failures.ts";
import { isRunning, readPid } from "../ssh_target/running.ts";
import { poll } from "../stage/poll.ts";
import { type Scene, type SceneRequest, withTarget } from "../ssh_target/scene.ts";
import { processesOf, sessionOf } from "../ssh_target/session_processes.ts";
import { availableKinds } from "../ssh_target/target.ts";

const ignore = !availableKinds().includes("openssh");

/** A command as a signer has it forced on a host with `stop_on_disconnect`. */
function stopping(command: string, request: SceneRequest = {}): SceneRequest {
  return {
    stopsAtStdinEnd: true,
    fields: { criticalOptions: { "force-command": stopOnDisconnect("", command) } },
    ...request,
  };
}

/** Starts a command that does not end, and gives its session once it runs. */
async function startEndless({ run, dir }: Scene, command: string, request: SceneRequest = {}) {
  const path = `${dir}/${crypto.randomUUID()}`;
  const whole = `echo $$ > ${path}; ${command}`;
  const running = run(whole, stopping(whole, request));
  running.catch(() => {});
  return { running, session: await sessionOf(await readPid(path)) };
}

async function nothingRuns(session: number): Promise<void> {
  await poll(async () => (await processesOf(session)).length === 0, {
    what: "that nothing of the session runs",
  });
}

const ENDLESS = [
  { name: "a silent command", command: "exec sleep 1000" },
  { name: "a command that ignores TERM", command: "trap '' TERM; while :; do sleep 1; done" },
  { name: "a pipeline", command: "sleep 1000 | sleep 1001 | cat" },
  { name: "children in the background", command: "sleep 1000 & (trap '' TERM; sleep 1001) & wait" },
  { name: "a stubborn child of one that obeys", command: "(trap '' TERM; sleep 1000) | cat" },
];

Deno.test({
  name: "runCommand() when canceled ends a forced command on sshd with all its processes (K16)",
  ignore,
  fn: () =>
    withTarget("openssh", async (scene) => {
      await Promise.all(ENDLESS.map(async ({ name, command }) => {
        const controller = new AbortController();
        const { running, session } = await startEndless(scene, command, { signal: controller.signal });
        controller.abort();
        await assert.rejects(running, (error: Error) => {
          assert.equal(error.message, "execution: canceled", name);
          // The abort's own reason, and not that the end is unconfirmed.
          assert.ok(!String(error.cause).includes("not confirmed"), name);
          return true;
        });
        await nothingRuns(session);
      }));
    }),
});

Deno.test({
  name: "runCommand() at its time limit ends a silent forced command on sshd (K16)",
  ignore,
  fn: () =>
    withTarget("openssh", async (scene) => {
      const limits = { commandMs: 5_000 };
      const { running, session } = await startEndless(scene, "exec sleep 1000", { limits });
      await assert.rejects(running, { message: "execution: SSH execution timeout (limit: 5s)" });
      await nothingRuns(session);
    }),
});

Deno.test({
  name: "runCommand() says in its cause what would have ended a command that may run on (K16)",
  ignore,
  fn: () =>
    withTarget("openssh", async ({ run, dir }) => {
      const controller = new AbortController();
      const command = `echo $$ > ${dir}/pid; exec sleep 1000`;
      const running = run(command, {
        signal: controller.signal,
        limits: { killGraceMs: 100 },
        fields: { criticalOptions: { "force-command": command } },
      });
      running.catch(() => {});
      const pid = await readPid(`${dir}/pid`);
      controller.abort();
      await assert.rejects(running, (error: Error) => {
        assert.match(
          String(error.cause),
          /it may run on; stop_on_disconnect in the signer's policy of this host/,
        );
        return true;
      });
      await new Deno.Command("kill", { args: ["-KILL", String(pid)] }).output();
    }),
});

Deno.test({
  name: "runCommand() leaves what a command started alone when it ends by itself on sshd",
  ignore,
  fn: () =>
    withTarget("openssh", async ({ run, dir }) => {
      const command = `sleep 1000 </dev/null >/dev/null 2>&1 & echo $! > ${dir}/pid`;
      assert.equal((await run(command, stopping(command))).exitCode, 0);
      const pid = await readPid(`${dir}/pid`);
      const session = await sessionOf(pid);
      await poll(async () => (await processesOf(session)).length === 1, { what: "that the watcher is gone" });
      await new Deno.Command("kill", { args: ["-KILL", String(pid)] }).output();
      await nothingRuns(session);
    }),
});

Deno.test({
  name: "runCommand() keeps no more than its limit on a connection whose stdin stays open",
  ignore,
  fn: () =>
    withTarget("openssh", async ({ run }) => {
      const command = "head -c 64000000 /dev/zero";
      const { stdout, exitCode } = await run(command, stopping(command));
      assert.equal(exitCode, 0);
      assert.ok(stdout.length > DEFAULT_LIMITS.outputBytes);
      assert.ok(stdout.length < DEFAULT_LIMITS.outputBytes + 200);
    }),
});

Deno.test("runCommand() sends signals where the end of its stdin does not end a command (K16)", () =>
  withTarget("embedded", async ({ run, dir }) => {
    const controller = new AbortController();
    const running = run(`echo $$ > ${dir}/pid; exec sleep 1000`, {
      stopsAtStdinEnd: true,
      limits: { stopMs: 100 },
      signal: controller.signal,
    });
    running.catch(() => {});
    const pid = await readPid(`${dir}/pid`);
    controller.abort();
    await assert.rejects(running, { message: "execution: canceled" });
    await poll(async () => !await isRunning(pid), { what: "that the remote command is gone" });
  }));
