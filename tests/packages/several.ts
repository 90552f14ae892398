import assert from "node:assert/strict";
import { writeAllSync } from "@gateway/shared/text";
import { poll } from "../stage/poll.ts";
import { Deployment, type Instance } from "./instances.ts";
import { mustRun } from "./machine.ts";

const FROZEN = /"code":"frozen".* 403$/s;
const SIGNED = /^\{"certificate":.* 200$/s;
const LOST = /"code":"answer_lost".* 502$/s;
const ALL: readonly Instance[] = ["signer-1", "signer-2", "control-plane-1", "control-plane-2"];

/** Tests the failures of docs/guides/several-instances.md in containers. Each step continues after the previous one. */
export async function tryInstances(t: Deno.TestContext, folder: string): Promise<void> {
  await using deployment = await Deployment.bringUp(folder);
  const clean = () =>
    poll(async () => (await deployment.status()).code === 0, {
      ...{ what: "a clean status", intervalMs: 500, timeoutMs: 180_000 },
    });
  const freeze = async (signer: "signer-1" | "signer-2", agent: string) => {
    const { code, stdout, stderr } = await deployment.operates(signer, "freeze", "--end-user", agent);
    assert.equal(code, 0, stdout + stderr);
  };
  const allSay = async (agent: string, answer: RegExp) => {
    for (const name of ALL) assert.match(await deployment.sign(name, agent), answer, `${name} of ${agent}`);
  };
  const step = async (name: string, action: () => Promise<void>) => {
    if (!await t.step(name, action)) throw new Error(`failed in: ${name}`);
  };

  await step("all instances start and status reports no problem", async () => {
    await clean();
    const { stdout } = await deployment.status();
    for (const name of ALL) assert.match(stdout, new RegExp(`${name} .* yes .* db1:5432 primary`));
    await allSay("agent-1", SIGNED);
  });
  await step("a freeze at one signer takes effect at the other, and through each control plane", async () => {
    await freeze("signer-1", "agent-2");
    await allSay("agent-2", FROZEN);
    await allSay("agent-1", SIGNED);
  });
  await step(
    "no request of a broker is lost if a signer is killed, and the signer restarts",
    async () => {
      const answers: string[] = [];
      const working = new AbortController();
      const ask = async (name: Instance) => {
        while (!working.signal.aborted) {
          let answer = await deployment.sign(name, "agent-1");
          // A broker retries a request whose response was lost. The signer may have signed the first one.
          for (let again = 0; again < 2 && LOST.test(answer); again++) {
            answer = await deployment.sign(
              name,
              "agent-1",
            );
          }
          answers.push(answer);
        }
      };
      const asking = [ask("control-plane-1"), ask("control-plane-2")];
      try {
        await poll(() => answers.length > 4, { what: "answers" });
        const pid = (await mustRun("podman", "inspect", "--format={{.State.Pid}}", "gateway_signer-1_1"))
          .trim();
        await mustRun("kill", "-9", pid);
        const before = answers.length;
        await poll(() => answers.length > before + 10, { what: "answers after the kill" });
        await clean();
      } finally {
        working.abort();
        await Promise.all(asking);
      }
      assert.deepEqual(answers.filter((text) => !SIGNED.test(text)), [], `of ${answers.length}`);
      assert.match(await deployment.sign("signer-1", "agent-2"), FROZEN, "the freeze is still in force");
    },
  );
  await step(
    "no signer signs without the database; after the promotion all sign, and freezes are in force",
    async () => {
      await mustRun("podman", "kill", "gateway_db1_1");
      for (const name of ["signer-1", "signer-2"] as const) {
        await poll(async () => / 503$/.test(await deployment.sign(name, "agent-1")), {
          what: `${name} to reject requests`,
        });
      }
      await mustRun("podman", "exec", "gateway_db2_1", "pg_ctl", "promote");
      const promoted = performance.now();
      for (const name of ALL) {
        const signs = async () => SIGNED.test(await deployment.sign(name, "agent-1"));
        await poll(signs, { what: `a certificate of ${name}` });
      }
      const line = `all sign again ${Math.round(performance.now() - promoted)} ms after the promotion\n`;
      writeAllSync(Deno.stdout, line);
      await allSay("agent-2", FROZEN);
      await freeze("signer-2", "agent-3");
      await allSay("agent-3", FROZEN);
      await clean();
      assert.match((await deployment.status()).stdout, /signer-1 .* db2:5432 primary/);
    },
  );
}
