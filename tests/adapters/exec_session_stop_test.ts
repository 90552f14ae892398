import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { STOP_GRACE_SECONDS, stopOnDisconnect } from "@gateway/shared/policy";
import { createExecLink } from "../../broker/sessions/connect_session.ts";
import { connectRoute } from "../../broker/ssh/connect.ts";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { PATIENT_LIMITS } from "../ssh_target/patient_limits.ts";
import { isRunning, readPid } from "../ssh_target/running.ts";
import { poll } from "../stage/poll.ts";
import { type Scene, type SceneRequest, withTarget } from "../ssh_target/scene.ts";
import { processesOf, sessionOf } from "../ssh_target/session_processes.ts";
import { availableKinds } from "../ssh_target/target.ts";
import { DEFAULT_LIMITS } from "../../broker/ssh/failures.ts";
import { spawn } from "node:child_process";
import { createFolder } from "../stage/folder.ts";

const ignore = !availableKinds().includes("openssh");

async function openLink({ target, certify }: Scene) {
  const key = createEphemeralKey();
  const { port, hostKeyLine, user } = target;
  const hop = { name: "target", addr: `127.0.0.1:${port}`, hostKey: hostKeyLine, user, key };
  const certificate = await certify(key.publicKeyLine);
  const { signal } = new AbortController();
  const bounds = { clock: systemClock, limits: PATIENT_LIMITS, signal };
  return createExecLink(await connectRoute([{ ...hop, certificate }], bounds), systemClock);
}

Deno.test(
  "with stop_on_disconnect, killing an exec session ends all its commands on sshd (K16)",
  { ignore },
  () =>
    withTarget("openssh", async (scene) => {
      await Promise.all(ENDLESS.map(async ({ name, command }) => {
        const link = await openLink(scene);
        const path = `${scene.dir}/${crypto.randomUUID()}`;
        const killed = new AbortController();
        const running = link.run(stopOnDisconnect("", `echo $$ > ${path}; ${command}`), {
          signal: killed.signal,
          stopsAtStdinEnd: true,
        });
        running.catch(() => {});
        const session = await sessionOf(await readPid(path));
        killed.abort(new Error("killed"));
        await link.close();
        await nothingRuns(session, name);
        await assert.rejects(running, Error, name);
      }));
    }),
);

Deno.test("with stop_on_disconnect, commands of an exec session overlap and return exit code and output", {
  ignore,
}, () =>
  withTarget("openssh", async (scene) => {
    const link = await openLink(scene);
    const { signal } = new AbortController();
    const run = (command: string) =>
      link.run(stopOnDisconnect("", command), { signal, stopsAtStdinEnd: true });
    const results = await Promise.all([1, 2, 3].map((code) => run(`echo ${code}; cat; exit ${code}`)));
    const shown = results.map(({ stdout, exitCode }) => [new TextDecoder().decode(stdout.head), exitCode]);
    assert.deepEqual(shown, [["1\n", 1], ["2\n", 2], ["3\n", 3]]);
    await link.close();
  }));

function stopping(command: string, request: SceneRequest = {}): SceneRequest {
  return {
    stopsAtStdinEnd: true,
    fields: { criticalOptions: { "force-command": stopOnDisconnect("", command) } },
    ...request,
  };
}

/** Starts an endless command and returns its session when the command runs. */
async function startEndless({ run, dir }: Scene, command: string, request: SceneRequest = {}) {
  const path = `${dir}/${crypto.randomUUID()}`;
  const whole = `echo $$ > ${path}; ${command}`;
  const running = run(whole, stopping(whole, request));
  running.catch(() => {});
  return { running, session: await sessionOf(await readPid(path)) };
}

async function nothingRuns(session: number, name: string): Promise<void> {
  await poll(async () => (await processesOf(session)).length === 0, {
    what: `that nothing of the session runs (${name})`,
  });
}

const ENDLESS = [
  { name: "a silent command", command: "exec sleep 1000" },
  { name: "a command that ignores TERM", command: "trap '' TERM; while :; do sleep 1; done" },
  { name: "a pipeline", command: "sleep 1000 | sleep 1001 | cat" },
  { name: "children in the background", command: "sleep 1000 & (trap '' TERM; sleep 1001) & wait" },
  { name: "a stubborn child of one that obeys", command: "(trap '' TERM; sleep 1000) | cat" },
];

Deno.test(
  "runCommand() ends a forced command on sshd with all its processes on cancel or timeout (K16)",
  { ignore },
  () =>
    withTarget("openssh", async (scene) => {
      const canceled = ENDLESS.map(async ({ name, command }) => {
        const controller = new AbortController();
        const { running, session } = await startEndless(scene, command, { signal: controller.signal });
        controller.abort();
        await assert.rejects(running, (error: Error) => {
          assert.equal(error.message, "execution: canceled", name);
          // The error must contain the abort's own reason, not an unconfirmed end.
          assert.ok(!String(error.cause).includes("not confirmed"), name);
          return true;
        });
        await nothingRuns(session, name);
      });
      const late = async () => {
        const limits = { commandMs: 5_000 };
        const { running, session } = await startEndless(scene, "exec sleep 1000", { limits });
        await assert.rejects(running, { message: "execution: SSH execution timeout (limit: 5s)" });
        await nothingRuns(session, "at its time limit");
      };
      await Promise.all([...canceled, late()]);
    }),
);

Deno.test(
  "runCommand() suggests stop_on_disconnect if a canceled command may still run (K16)",
  { ignore },
  () =>
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
          /may still run; with stop_on_disconnect in the signer's policy of this host/,
        );
        return true;
      });
      await new Deno.Command("kill", { args: ["-KILL", String(pid)] }).output();
    }),
);

Deno.test(
  "runCommand() keeps background processes of a command that exits by itself on sshd",
  { ignore },
  () =>
    withTarget("openssh", async ({ run, dir }) => {
      const command = `sleep 1000 </dev/null >/dev/null 2>&1 & echo $! > ${dir}/pid`;
      assert.equal((await run(command, stopping(command))).exitCode, 0);
      const pid = await readPid(`${dir}/pid`);
      const session = await sessionOf(pid);
      await poll(async () => (await processesOf(session)).length === 1, { what: "that the watcher is gone" });
      await new Deno.Command("kill", { args: ["-KILL", String(pid)] }).output();
      await nothingRuns(session, command);
    }),
);

Deno.test(
  "runCommand() keeps at most its output limit on a connection whose stdin stays open",
  { ignore },
  () =>
    withTarget("openssh", async ({ run }) => {
      const command = "head -c 64000000 /dev/zero";
      const { stdout, exitCode } = await run(command, stopping(command));
      assert.equal(exitCode, 0);
      assert.ok(stdout.length > DEFAULT_LIMITS.outputBytes);
      assert.ok(stdout.length < DEFAULT_LIMITS.outputBytes + 200);
    }),
);

Deno.test("runCommand() sends signals if closing stdin does not end the command (K16)", () =>
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

interface Shell {
  readonly name: string;
  /** A shell under one name, used as login shell and as /bin/sh. */
  readonly path: string;
}

const SHELLS = [
  { name: "dash", path: "/bin/dash" },
  { name: "bash", path: "/bin/bash" },
  { name: "busybox ash", path: "ash" },
].filter(({ path }) => path === "ash" ? exists("/bin/busybox") : exists(path));

function exists(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch {
    return false;
  }
}

interface Ended {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
}

/** A session as sshd creates it: the login shell is the leader, and stdin is a pipe that stays open. */
class Session {
  readonly ended: Promise<Ended>;
  readonly #child;

  constructor({ path }: Shell, text: string) {
    this.#child = spawn(path, ["-c", text], { detached: true, stdio: ["pipe", "pipe", "pipe"] });
    const output = { stdout: "", stderr: "" };
    for (const name of ["stdout", "stderr"] as const) {
      this.#child[name].setEncoding("utf8").on("data", (chunk: string) => output[name] += chunk);
    }
    this.ended = new Promise((resolve) => {
      this.#child.on("close", (code, signal) => {
        resolve({ code: code ?? 128 + SIGNALS.indexOf(signal ?? ""), ...output });
      });
    });
  }

  get id(): number {
    return this.#child.pid ?? 0;
  }

  /** Closes stdin, as a lost connection does. */
  disconnect(): void {
    this.#child.stdin.end();
  }

  send(text: string): void {
    this.#child.stdin.write(text);
  }
}

const SIGNALS = ["", "SIGHUP", "SIGINT", "SIGQUIT", "", "", "SIGABRT", "", "", "SIGKILL", "", "SIGSEGV"];
SIGNALS[13] = "SIGPIPE";
SIGNALS[15] = "SIGTERM";

/** Passes a correctly started shell and a directory to a test. */
async function withShell(shell: Shell, test: (shell: Shell, dir: string) => Promise<void>): Promise<void> {
  await using dir = await createFolder();
  if (shell.path !== "ash") return await test(shell, dir.path);
  const path = `${dir.path}/ash`;
  await Deno.symlink("/bin/busybox", path);
  await test({ ...shell, path }, dir.path);
}

function start(shell: Shell, command: string): Session {
  return new Session(shell, stopOnDisconnect("", command).replaceAll("/bin/sh", shell.path));
}

Deno.test.each(SHELLS)(
  "stopOnDisconnect() returns exit code and output of the command ($name)",
  (shell) =>
    withShell(shell, async (shell) => {
      const commands = [
        ...[0, 1, 42, 126, 127, 128, 143, 255].map((code) => `exit ${code}`),
        ...["HUP", "INT", "QUIT", "ABRT", "KILL", "SEGV", "PIPE", "TERM"].map((name) => `kill -${name} $$`),
        "no-such-program",
        "printf 'a\\0\\377b' | cat; echo e >&2",
        "true # a comment at its end",
        "(exit 3) | true",
        "echo 'it''s'; echo \"$1 $0 $#\" | wc -w",
        "cat",
        "ls /proc/self/fd | wc -l",
        "if",
        "-x",
        "",
      ];
      for (const command of commands) {
        const wrapped = await start(shell, command).ended;
        // The same under a plain shell that does not wait and has no input.
        const plain = await new Session(
          shell,
          `exec </dev/null; exec "${shell.path}" -c -- ${quote(command)}`,
        ).ended;
        assert.deepEqual(wrapped, plain, command);
      }
    }),
);

function quote(text: string): string {
  return `'${text.replaceAll("'", "'\\''")}'`;
}

const RUNNING = [
  ...ENDLESS,
  { name: "a command that catches TERM", command: "trap 'echo caught' TERM; while :; do sleep 1; done" },
  { name: "a command that writes without end", command: "while :; do echo x; done >/dev/null" },
];

Deno.test("stopOnDisconnect() ends every command when the connection closes, in every shell (K16)", async () => {
  await Promise.all(
    SHELLS.flatMap((shell) =>
      RUNNING.map(({ name, command }) =>
        withShell(shell, async (shell, dir) => {
          const session = start(shell, `echo $$ > ${dir}/pid; ${command}`);
          await readPid(`${dir}/pid`);
          session.send("what is sent\nis not read");
          assert.ok((await processesOf(session.id)).length > 1, name);
          session.disconnect();
          await session.ended;
          await nothingRuns(session.id, `${name} of ${shell.name}`);
        })
      )
    ),
  );
});

Deno.test.each(SHELLS)(
  "stopOnDisconnect() leaves no watcher and keeps background processes ($name)",
  (shell) =>
    withShell(shell, async (shell, dir) => {
      const session = start(shell, `sleep 1000 >/dev/null 2>&1 & echo $! > ${dir}/pid; echo started`);
      assert.deepEqual(await session.ended, { code: 0, stdout: "started\n", stderr: "" });
      const pid = await readPid(`${dir}/pid`);
      let left = await processesOf(session.id);
      // Between fork and exec, the process still has the name of the shell.
      await poll(
        async () => (left = await processesOf(session.id)).every(({ command }) => command === "sleep"),
        {
          what: "sleep to start",
        },
      );
      assert.deepEqual(left, [{ pid, command: "sleep" }]);
      session.disconnect();
      Deno.kill(pid, "SIGKILL");
      await nothingRuns(session.id, "sleep");
    }),
);

Deno.test("stopOnDisconnect() leaves no process if a command signals its own group, in every shell", async () => {
  await Promise.all(
    SHELLS.flatMap((shell) =>
      ["TERM", "USR1", "HUP", "INT"].map((name) =>
        withShell(shell, async (shell) => {
          const session = start(shell, `trap 'echo caught' ${name}; kill -s ${name} 0; exit 7`);
          await session.ended;
          session.disconnect();
          await nothingRuns(session.id, `${name} in ${shell.name}`);
        })
      )
    ),
  );
});

Deno.test("stopOnDisconnect() ends a command on immediate disconnect, in every shell", async () => {
  await Promise.all(SHELLS.map((shell) =>
    withShell(shell, async (shell) => {
      const session = start(shell, "exec sleep 1000");
      session.disconnect();
      await session.ended;
      await nothingRuns(session.id, shell.name);
    })
  ));
});

Deno.test("stopOnDisconnect() waits for the command to end, in every shell (K16)", async () => {
  await Promise.all(SHELLS.map((shell) =>
    withShell(shell, async (shell, dir) => {
      // The process holds no stream of the session open.
      const stubborn = `(trap '' TERM; echo $$ > ${dir}/pid; exec sleep 1000) >/dev/null 2>&1`;
      const session = start(shell, stubborn);
      await readPid(`${dir}/pid`);
      const disconnectedAt = performance.now();
      session.disconnect();
      await session.ended;
      assert.ok(performance.now() - disconnectedAt > STOP_GRACE_SECONDS * 1000 - 100);
      await nothingRuns(session.id, shell.name);
    })
  ));
});
