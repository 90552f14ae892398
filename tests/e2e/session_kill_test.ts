import assert from "node:assert/strict";
import { isRunning, readPid } from "../ssh_target/running.ts";
import { poll } from "../stage/poll.ts";
import { share } from "../stage/share.ts";
import { HOST } from "../stage/stage.ts";
import { ENDLESS, type SessionScene, withSessions } from "./session_scene.ts";

const POLL = { path: ["revocation_poll_seconds"], value: 1 };

async function freeze({ stage }: SessionScene, kind: string, value: string): Promise<void> {
  const operator = await stage.signerClient("operator");
  const body = { kind, value };
  const { status, text } = await operator.request({ method: "POST", path: "/v1/freeze", body });
  assert.equal(status, 200, text);
}

const withBroker = (use: (scene: SessionScene) => Promise<void>) => withSessions({ broker: [POLL] }, use);
const withShared = share(withBroker);

/** Opens a session that runs a command. */
async function openBusy({ client, stage }: SessionScene, mode: string) {
  const opened = await client.call("ssh_session_open", { server: HOST, mode });
  const id = String(opened.structured["session_id"]);
  const file = `${stage.init.folder}/${id}`;
  const running = client.exec(id, `sh -c 'echo $$ > ${file}; ${ENDLESS}'`);
  return { id, serial: String(opened.structured["serial"]), pid: await readPid(file), running };
}

Deno.test("a freeze of another's session, serial or caller leaves a session alone", () =>
  withShared(async (scene) => {
    const { client } = scene;
    const opened = await client.call("ssh_session_open", { server: HOST });
    const id = String(opened.structured["session_id"]);
    await freeze(scene, "serial", String(BigInt(String(opened.structured["serial"])) ^ 1n));
    await freeze(scene, "caller", "broker-other");
    await freeze(scene, "session_id", id.replace(/^./, (digit) => digit === "0" ? "1" : "0"));
    const killed = await client.open();
    await freeze(scene, "session_id", killed);
    // The one that is killed shows that the list has been acted upon.
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
