import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { stopOnDisconnect } from "@gateway/shared/policy";
import { createExecLink } from "../../broker/sessions/connect_session.ts";
import { connectRoute } from "../../broker/ssh/connect.ts";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { PATIENT_LIMITS } from "../ssh_target/patient_limits.ts";
import { readPid } from "../ssh_target/running.ts";
import { poll } from "../stage/poll.ts";
import { type Scene, withTarget } from "../ssh_target/scene.ts";
import { processesOf, sessionOf } from "../ssh_target/session_processes.ts";
import { availableKinds } from "../ssh_target/target.ts";

const ignore = !availableKinds().includes("openssh");

/** The link of a session in the mode `exec`, under a certificate that forces nothing. */
async function openLink({ target, certify }: Scene) {
  const key = createEphemeralKey();
  const { port, hostKeyLine, user } = target;
  const hop = { name: "target", addr: `127.0.0.1:${port}`, hostKey: hostKeyLine, user, key };
  const certificate = await certify(key.publicKeyLine);
  const { signal } = new AbortController();
  const bounds = { clock: systemClock, limits: PATIENT_LIMITS, signal };
  return createExecLink(await connectRoute([{ ...hop, certificate }], bounds), systemClock);
}

Deno.test.each([
  { name: "a silent command", command: "exec sleep 1000" },
  { name: "a command that ignores TERM", command: "trap '' TERM; while :; do sleep 1; done" },
  { name: "a pipeline", command: "sleep 1000 | cat" },
])(
  "$name of an exec session ends on sshd when the session is killed, where stop_on_disconnect holds (K16)",
  { ignore },
  ({ command }) =>
    withTarget("openssh", async (scene) => {
      const link = await openLink(scene);
      const path = `${scene.dir}/pid`;
      const killed = new AbortController();
      const running = link.run(stopOnDisconnect("", `echo $$ > ${path}; ${command}`), {
        signal: killed.signal,
        stopsAtStdinEnd: true,
      });
      running.catch(() => {});
      const session = await sessionOf(await readPid(path));
      killed.abort(new Error("killed"));
      await link.close();
      await poll(async () => (await processesOf(session)).length === 0, {
        what: "that nothing of the session runs",
      });
      await assert.rejects(running);
    }),
);

Deno.test({
  name: "commands of an exec session where stop_on_disconnect holds overlap, and give status and output",
  ignore,
  fn: () =>
    withTarget("openssh", async (scene) => {
      const link = await openLink(scene);
      const { signal } = new AbortController();
      const run = (command: string) =>
        link.run(stopOnDisconnect("", command), { signal, stopsAtStdinEnd: true });
      const results = await Promise.all([1, 2, 3].map((code) => run(`echo ${code}; cat; exit ${code}`)));
      const shown = results.map(({ stdout, exitCode }) => [new TextDecoder().decode(stdout.head), exitCode]);
      assert.deepEqual(shown, [["1\n", 1], ["2\n", 2], ["3\n", 3]]);
      await link.close();
    }),
});
