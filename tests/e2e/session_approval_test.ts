import assert from "node:assert/strict";
import { recordsOf } from "../stage/audit.ts";
import { editConfig, HOST } from "../stage/stage.ts";
import { share } from "../stage/share.ts";
import { withStage } from "../stage/with_stage.ts";
import { addHostsToStage } from "./hosts_behind.ts";
import { McpProcess } from "./mcp_process.ts";
import { decideAll } from "./decide_all.ts";
import { SessionClient, type ToolAnswer } from "./session_client.ts";
import { OPEN_POLICY } from "./session_scene.ts";

const BEHAVIOR = { path: ["behavior"], value: { mode: "enforce" } };
/** A rule of the last host: what begins with `mkdir` needs a human, also in a session. */
const GATED = { mode: "off", require_approval: ["^mkdir"] };

/** A broker behind a control plane that asks a human about all that is new. */
interface ApprovalScene {
  readonly dir: string;
  readonly client: SessionClient;
  /** Decides what is asked while a call is under way, and gives the hosts and commands that were asked about. */
  decide(call: Promise<ToolAnswer>, approve: boolean): Promise<readonly string[]>;
  records(path: "mcp_audit_log" | "control_plane_audit_log"): Promise<readonly Record<string, unknown>[]>;
}

async function withApprovals(test: (scene: ApprovalScene) => Promise<void>): Promise<void> {
  const dir = await Deno.makeTempDir({ prefix: "approvals-" });
  try {
    await withStage(
      { controlPlane: true, signer: OPEN_POLICY, controlPlaneConfig: [BEHAVIOR] },
      async (stage) => {
        await addHostsToStage(stage, { dir, names: ["inner01", "db01"] });
        await editConfig(stage.init.signer_config, [{
          path: ["hosts", "db01", "command_policy"],
          value: GATED,
        }]);
        await editConfig(stage.init.mcp_config, [{ path: ["signer", "approval_wait_seconds"], value: 60 }]);
        await stage.startSigner();
        await stage.startControlPlane();
        await using mcp = new McpProcess(await stage.mcpCommand());
        await mcp.initialize();
        const client = new SessionClient(mcp);
        // Until something is usual, nothing is new.
        const usual = await client.call("ssh_execute", { server: HOST, command: "uptime" });
        assert.equal(usual.isError, false, usual.text);
        await test({
          dir,
          client,
          decide: (call, approve) => decideAll(stage, call, approve),
          records: (path) => recordsOf(stage.init[path]),
        });
        assert.equal(await mcp.end(), 0);
      },
    );
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

const withShared = share<ApprovalScene>(withApprovals);

Deno.test("a session whose opening a human denies is not there, and leaves no place taken", () =>
  withShared(async ({ client, decide, records }) => {
    // One more than there is room for.
    for (let attempt = 0; attempt <= 20; attempt++) {
      const opening = client.call("ssh_session_open", { server: "inner01" });
      assert.deepEqual(await decide(opening, false), ["inner01"]);
      assert.deepEqual(
        (await opening).text,
        'signing cert for "inner01": approval not granted (403): approval denied',
      );
    }
    const errors = (await records("mcp_audit_log")).filter(({ outcome }) => outcome === "error");
    assert.equal(errors.length, 21);
  }));

Deno.test("a session behind two bastions opens once a human has approved each hop that is new", () =>
  withShared(async ({ client, decide, records, dir }) => {
    const opening = client.call("ssh_session_open", { server: "db01" });
    assert.deepEqual(await decide(opening, true), ["inner01", "db01"]);
    const { isError, text, structured } = await opening;
    assert.equal(isError, false, text);
    const id = String(structured["session_id"]);

    const usual = client.exec(id, "uptime");
    assert.deepEqual(await decide(usual, true), []);
    assert.equal((await usual).isError, false);
    const unusual = client.exec(id, `touch ${dir}/approved`);
    assert.deepEqual(await decide(unusual, true), [`db01 touch ${dir}/approved`]);
    assert.equal((await unusual).isError, false);
    await Deno.stat(`${dir}/approved`);

    assert.equal((await client.call("ssh_session_close", { session_id: id })).text, "closed");
    assert.deepEqual((await records("mcp_audit_log")).slice(-4).map(({ outcome }) => outcome), [
      "session_open",
      "session_exec",
      "session_exec",
      "session_close",
    ]);
    const granted = (await records("control_plane_audit_log"))
      .filter(({ outcome }) => outcome === "approval-granted");
    assert.deepEqual(granted.map(({ host, anomaly, approved_by }) => [host, anomaly, approved_by]), [
      ["inner01", "new-host:inner01", "approver-local"],
      ["db01", "new-host:db01", "approver-local"],
      ["db01", "new-command:touch", "approver-local"],
    ]);
  }));

Deno.test("a command of a session that a human denies, or a rule gates, does not run, and the session stays open", () =>
  withShared(async ({ client, decide, records, dir }) => {
    const opening = client.call("ssh_session_open", { server: "db01" });
    await decide(opening, true);
    const id = String((await opening).structured["session_id"]);
    const denied = client.exec(id, `cp /dev/null ${dir}/denied`);
    assert.deepEqual(await decide(denied, false), [`db01 cp /dev/null ${dir}/denied`]);
    assert.equal(
      (await denied).text,
      "session command policy preflight: signing rejected (403): approval denied",
    );
    const gated = client.exec(id, `mkdir ${dir}/gated`);
    await decide(gated, true);
    assert.match((await gated).text, /^session command requires human approval \(require_approval:\^mkdir\)/);
    for (const name of ["denied", "gated"]) {
      await assert.rejects(Deno.stat(`${dir}/${name}`), Deno.errors.NotFound);
    }
    assert.equal((await client.exec(id, "uptime")).isError, false);
    assert.deepEqual((await records("mcp_audit_log")).map(({ outcome }) => outcome).slice(-3), [
      "session_exec_denied",
      "session_exec_denied",
      "session_exec",
    ]);
  }));
