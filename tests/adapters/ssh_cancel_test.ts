import assert from "node:assert/strict";
import type { SshLimits } from "../../broker/ssh/failures.ts";
import { isRunning, readPid } from "../ssh_target/running.ts";
import { poll } from "../stage/poll.ts";
import { endProcessTree } from "../ssh_target/process_tree.ts";
import { type SceneRequest, withTarget } from "../ssh_target/scene.ts";
import type { SshTarget } from "../ssh_target/ssh_target.ts";
import { terminalTest } from "../ssh_target/terminals.ts";
import { availableKinds } from "../ssh_target/target.ts";

const kinds = availableKinds();
const CANCELED = { code: "canceled", message: "execution: canceled" };
const FORCED = (command: string): SceneRequest => ({
  fields: { criticalOptions: { "force-command": command } },
});
const GRACE: Partial<SshLimits> = { killGraceMs: 200 };

/** `echo` in a loop: it dies of SIGPIPE once nobody reads. */
const TALKS = "while :; do echo x; sleep 0.01; done";
const OBEYS_NOT_TERM = "trap '' TERM; while :; do sleep 0.01; done";

interface Row {
  readonly name: string;
  readonly kind: SshTarget["kind"];
  readonly command: string;
  readonly request?: SceneRequest;
}

// sshd obeys no signal for a forced command, and none for root, whose sessions have no privilege separation.
// What ends a command there is that nobody reads any more, or the loss of its terminal.
const rows: readonly Row[] = [
  ...kinds.map((kind) => ({ name: "that prints", kind, command: TALKS })),
  ...kinds.map((kind) => ({
    name: "with a terminal",
    kind,
    command: "exec sleep 1000",
    request: { pty: true },
  })),
  { name: "that is silent", kind: "embedded", command: "exec sleep 1000" },
  { name: "that ignores TERM", kind: "embedded", command: OBEYS_NOT_TERM },
  ...(kinds.includes("openssh") && Deno.uid() !== 0
    ? [
      { name: "that is silent", kind: "openssh", command: "exec sleep 1000" },
      { name: "that ignores TERM", kind: "openssh", command: OBEYS_NOT_TERM },
    ] as const
    : []),
];

for (const forced of [false, true]) {
  const tested = rows.filter(({ kind, request, command }) =>
    !forced || kind === "embedded" || request?.pty || command === TALKS
  );
  for (const { name, kind, command, request } of tested) {
    const register = request?.pty && kind === "openssh" ? terminalTest : Deno.test;
    register(
      `runCommand() when canceled ends a ${forced ? "forced " : ""}command ${name} (${kind}) (K16)`,
      () =>
        withTarget(kind, async ({ run, dir }) => {
          const controller = new AbortController();
          const path = `${dir}/pid`;
          const whole = `echo $$ > ${path}; ${command}`;
          const running = run(whole, {
            ...request,
            ...(forced ? FORCED(whole) : {}),
            ...(request?.pty ? { fields: { ...FORCED(whole).fields, extensions: ["permit-pty"] } } : {}),
            limits: GRACE,
            signal: controller.signal,
          });
          const [pid] = await Promise.all([
            readPid(path).then(async (pid) => {
              assert.ok(await isRunning(pid));
              controller.abort(new Error("the client has gone"));
              return pid;
            }),
            assert.rejects(running, CANCELED),
          ]);
          await poll(async () => !await isRunning(pid), { what: "that the remote command is gone" });
        }),
    );
  }
}

Deno.test.each(kinds.map((kind) => ({ kind })))(
  "runCommand() ends a command at its time limit ($kind)",
  ({ kind }) =>
    withTarget(kind, async ({ run, dir }) => {
      const running = run(`echo $$ > ${dir}/pid; ${TALKS}`, { limits: { ...GRACE, commandMs: 300 } });
      await assert.rejects(running, {
        code: "upstream_failure",
        message: "execution: SSH execution timeout (limit: 300ms)",
      });
      // The time can be over before the shell has written anything.
      const pid = Number(await Deno.readTextFile(`${dir}/pid`).catch(() => ""));
      await poll(async () => pid === 0 || !await isRunning(pid), { what: "that the remote command is gone" });
    }),
);

Deno.test.each(kinds.map((kind) => ({ kind })))(
  "runCommand() stops a flood when canceled ($kind)",
  ({ kind }) =>
    withTarget(kind, async ({ run, dir }) => {
      const controller = new AbortController();
      const running = run(`echo $$ > ${dir}/pid; exec yes`, { limits: GRACE, signal: controller.signal });
      const [pid] = await Promise.all([
        readPid(`${dir}/pid`).finally(() => controller.abort()),
        assert.rejects(running, CANCELED),
      ]);
      await poll(async () => !await isRunning(pid), { what: "that the remote command is gone" });
    }),
);

Deno.test({
  name: "runCommand() reports that sshd was killed in mid-command",
  ignore: !kinds.includes("openssh"),
  fn: () =>
    withTarget("openssh", async ({ run, dir }) => {
      await Promise.all([
        readPid(`${dir}/pid`).then(async () => {
          endProcessTree(Number(await Deno.readTextFile(`${dir}/sshd.pid`)));
        }),
        assert.rejects(run(`echo $$ > ${dir}/pid; ${TALKS}`), {
          code: "upstream_failure",
          message: "execution: connection lost: remote command exited without exit status or exit signal",
        }),
      ]);
    }),
});
