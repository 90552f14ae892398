import assert from "node:assert/strict";
import { isRunning, readPid } from "../ssh_target/running.ts";
import { availableKinds } from "../ssh_target/target.ts";
import { poll } from "../stage/poll.ts";
import { HOST, type Stage } from "../stage/stage.ts";
import { ENDLESS, withSessions } from "./session_scene.ts";

const ignore = !availableKinds().includes("openssh");
const PER_CALLER = 20;

/** How many connections the host's sshd has. */
async function connections({ init }: Stage): Promise<number> {
  const pid = (await Deno.readTextFile(`${init.folder}/../ssh/sshd.pid`)).trim();
  const { stdout } = await new Deno.Command("ps", { args: ["-o", "pid=", "--ppid", pid] }).output();
  return new TextDecoder().decode(stdout).split("\n").filter((line) => line.trim() !== "").length;
}

Deno.test({
  name: "200 sessions opened at once: as many as a caller may have, the others refused, none left behind",
  ignore,
  fn: () =>
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
    }),
});

Deno.test({
  name: "a client that goes away in mid-command takes its sessions with it, each with its record",
  ignore,
  fn: () =>
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
    }),
});
