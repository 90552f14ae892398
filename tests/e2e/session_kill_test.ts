import assert from "node:assert/strict";
import { isRunning, readPid } from "../ssh_target/running.ts";
import { poll } from "../stage/poll.ts";
import { HOST } from "../stage/stage.ts";
import { ENDLESS, type SessionScene, withSessions } from "./session_scene.ts";

const POLL = { path: ["revocation_poll_seconds"], value: 1 };

async function freeze({ stage }: SessionScene, kind: string, value: string): Promise<void> {
  const operator = await stage.signerClient("operator");
  const body = { kind, value };
  const { status, text } = await operator.request({ method: "POST", path: "/v1/freeze", body });
  assert.equal(status, 200, text);
}

for (const mode of ["exec", "shell"]) {
  Deno.test.each<{ kind: string; value: (open: { id: string; serial: string }) => string }>([
    { kind: "end_user", value: () => "mcp-stdio" },
    { kind: "session_id", value: ({ id }) => id },
    { kind: "serial", value: ({ serial }) => serial },
    { kind: "caller", value: () => "broker-local" },
  ])(
    `a freeze by $kind kills a busy session in mode ${mode}`,
    ({ kind, value }) =>
      withSessions({ broker: [POLL] }, async (scene) => {
        const { client, records, stage } = scene;
        const opened = await client.call("ssh_session_open", { server: HOST, mode });
        const id = String(opened.structured["session_id"]);
        const serial = String(opened.structured["serial"]);
        const file = `${stage.init.folder}/pid`;
        const running = client.exec(id, `sh -c 'echo $$ > ${file}; ${ENDLESS}'`);
        const pid = await readPid(file);
        await freeze(scene, kind, value({ id, serial }));
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
        await poll(async () => (await records()).some(({ outcome }) => outcome === "session_killed"), {
          what: "the record",
        });
        const record = (await records()).find(({ outcome }) => outcome === "session_killed");
        assert.deepEqual([record?.["err"], record?.["session_id"]], ["frozen (kill switch)", id]);
        assert.equal((await client.exec(id, "true")).text, `unknown or expired session: "${id}"`);
      }),
  );
}

Deno.test("a freeze of another's session, serial or caller leaves a session alone", () =>
  withSessions({ broker: [POLL] }, async (scene) => {
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
