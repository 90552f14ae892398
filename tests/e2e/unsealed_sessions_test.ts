import assert from "node:assert/strict";
import { availableKinds } from "../ssh_target/target.ts";
import { recordsOf } from "../stage/audit.ts";
import { withStage } from "../stage/with_stage.ts";
import { decideAll } from "./decide_all.ts";
import { McpProcess } from "./mcp_process.ts";
import { hostKeys } from "./sealed_stage.ts";
import { SessionClient } from "./session_client.ts";
import { OPEN_POLICY, withSessions } from "./session_scene.ts";
import { Thief } from "./thief.ts";

const ignore = !availableKinds().includes("openssh");
const RULES = {
  mode: "allowlist",
  allow: ["^echo ", "^id$", "^pwd$", "^cd /tmp$"],
  require_approval: ["^id$"],
};
const RULED = hostKeys({ command_policy: RULES, allow_pty: true });
const STEPWISE = [...RULED, ...hostKeys({ unsealed_sessions: false })];

Deno.test(
  "an attacker with a broker's key gets a shell past the rules only where unsealed_sessions is absent",
  { ignore },
  async () => {
    await withSessions({ targetKind: "openssh", signer: RULED }, async ({ stage }) => {
      const thief = await Thief.create(stage);
      assert.equal(thief.forceCommand, "");
      const { stdout } = await thief.ssh("cat /etc/passwd");
      assert.match(stdout, /^root:/);
    });
    await withSessions({ targetKind: "openssh", signer: STEPWISE }, async ({ stage }) => {
      await assert.rejects(
        Thief.create(stage),
        /unsealed_sessions=false: no certificate for a session; use one-shot/,
      );
      for (const mode of ["shell", "pty"]) {
        await assert.rejects(Thief.create(stage, { mode }), /has command_policy: sessions require mode=/);
      }
    });
  },
);

Deno.test(
  "where unsealed_sessions is false an exec session runs each command with a certificate of its own",
  { ignore },
  () =>
    withStage(
      { controlPlane: true, targetKind: "openssh", signer: [...OPEN_POLICY, ...STEPWISE] },
      async (stage) => {
        await stage.startSigner();
        await stage.startControlPlane();
        await using mcp = new McpProcess(await stage.mcpCommand());
        await mcp.initialize();
        const client = new SessionClient(mcp);
        const id = await client.open();
        const home = await client.exec(id, "pwd");
        assert.equal((await client.exec(id, "cd /tmp")).isError, false);
        assert.equal((await client.exec(id, "pwd")).structured["stdout"], home.structured["stdout"]);
        const together = await Promise.all([1, 2, 3].map((n) => client.exec(id, `echo ${n}`)));
        assert.deepEqual(together.map(({ structured }) => structured["stdout"]), ["1\n", "2\n", "3\n"]);
        const denied = await client.exec(id, "cat /etc/shadow");
        assert.equal(denied.isError, true);
        assert.match(denied.text, /session command: .*command not allowed .*allowlist:no-match/);
        const gated = client.exec(id, "id");
        await decideAll(stage, gated, true);
        assert.match(String((await gated).structured["stdout"]), /^uid=/);
        assert.equal((await client.call("ssh_session_close", { session_id: id })).isError, false);
        assert.equal((await client.exec(id, "echo late")).isError, true);
        assert.equal(await mcp.end(), 0);
        const records = (await recordsOf(stage.init.mcp_audit_log))
          .filter(({ session_id }) => session_id === id);
        assert.deepEqual(records.map(({ outcome }) => outcome), [
          "session_open",
          ...Array.from({ length: 6 }, () => "session_exec"),
          "session_exec_denied",
          "session_exec",
          "session_close",
        ]);
        const ran = records.filter(({ outcome }) => outcome === "session_exec");
        assert.equal(new Set(ran.map(({ serial }) => serial)).size, 7);
      },
    ),
);
