import assert from "node:assert/strict";
import { createEphemeralKey } from "../../broker/ssh/login.ts";
import { FORMATS, InstalledShim } from "../shim/installed_shim.ts";
import { availableKinds } from "../ssh_target/target.ts";
import { editConfig, HOST, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { decideAll } from "./decide_all.ts";
import { McpProcess } from "./mcp_process.ts";
import { hostKeys, sealedBy, trustSigner } from "./sealed_stage.ts";
import { SessionClient } from "./session_client.ts";
import { OPEN_POLICY } from "./session_scene.ts";

const ignore = !availableKinds().includes("openssh");
const BEHAVIOR = { path: ["behavior"], value: { mode: "enforce" } };
const GATED = hostKeys({ command_policy: { mode: "off", require_approval: ["^reboot"] } });

/** A sealed host of a real sshd, behind a control plane that asks a human about all that is new. */
async function withEnforced(
  test: (
    scene: { readonly stage: Stage; readonly client: SessionClient; readonly shim: InstalledShim },
  ) => Promise<void>,
): Promise<void> {
  await using shim = await InstalledShim.create(FORMATS.v2);
  await withStage({
    controlPlane: true,
    targetKind: "openssh",
    signer: [...OPEN_POLICY, ...sealedBy(shim), ...GATED],
    controlPlaneConfig: [BEHAVIOR],
  }, async (stage) => {
    await trustSigner(shim, stage);
    await editConfig(stage.init.mcp_config, [{ path: ["signer", "approval_wait_seconds"], value: 60 }]);
    await stage.startSigner();
    await stage.startControlPlane();
    await using mcp = new McpProcess(await stage.mcpCommand());
    await mcp.initialize();
    const client = new SessionClient(mcp);
    // Until something is usual, nothing is new.
    assert.equal((await client.call("ssh_execute", { server: HOST, command: "uptime" })).isError, false);
    await test({ stage, client, shim });
    assert.equal(await mcp.end(), 0);
  });
}

/** Asks the control plane about a command of a session as a broker does that hides nothing of the answer. */
async function preflight(stage: Stage, command: string, fields: object = {}) {
  const broker = await stage.controlPlaneClient("broker");
  const { status, body } = await broker.request({
    method: "POST",
    path: "/v1/sign",
    body: {
      ...{ host: HOST, role: "target", purpose: "session", session_mode: "exec", command },
      ...{ public_key: createEphemeralKey().publicKeyLine, end_user: "mcp-stdio", end_user_groups: null },
      ...{ dry_run: true, preflight: true },
      ...fields,
    },
  });
  return { status, answer: body as Readonly<Record<string, unknown>> };
}

Deno.test(
  "in a sealed session what guardrails find unusual runs only when it is usual, and what a rule gates never does",
  { ignore },
  () =>
    withEnforced(async ({ stage, client, shim }) => {
      const id = await client.open();
      const usual = await client.exec(id, "uptime");
      assert.equal(usual.isError, false, usual.text);
      assert.equal(shim.claims().length, 1);

      const file = `${stage.init.folder}/made`;
      const unusual = client.exec(id, `touch ${file}`);
      assert.deepEqual(await decideAll(stage, unusual, true), [`${HOST} touch ${file}`]);
      assert.match(
        (await unusual).text,
        /the host is sealed: what a human has approved does not run in its sessions/,
      );
      assert.equal(shim.claims().length, 1, "an approval of a preflight brings no envelope");
      const denied = client.exec(id, `rm ${file}`);
      await decideAll(stage, denied, false);
      assert.match((await denied).text, /approval denied/);
      const gated = await client.exec(id, "reboot --dry");
      assert.match(gated.text, /requires human approval \(require_approval:\^reboot\); use ssh_execute/);
      assert.equal(shim.claims().length, 1);
      await assert.rejects(Deno.stat(file), Deno.errors.NotFound);

      const now = await client.exec(id, `touch ${file}`);
      assert.equal(now.isError, false, now.text);
      await Deno.stat(file);
      assert.equal(shim.claims().length, 2);
    }),
);

Deno.test("a control plane that enforces gives a broker no envelope of what a human is asked about", {
  ignore,
}, () =>
  withEnforced(async ({ stage, client }) => {
    await client.open();
    const usual = await preflight(stage, "uptime");
    assert.deepEqual([usual.status, typeof usual.answer["envelope"]], [200, "string"]);
    for (const fields of [{}, { approved: true }, { approved: true, learn_ttl_seconds: 60 }]) {
      const gated = await preflight(stage, "reboot now", fields);
      assert.deepEqual([gated.status, gated.answer["envelope"]], [200, undefined]);
      assert.equal((gated.answer["decision"] as { require_approval?: boolean }).require_approval, true);
    }
    const unusual = await preflight(stage, "touch x", { approved: true });
    assert.deepEqual([unusual.status, unusual.answer["envelope"]], [202, undefined]);
    const approver = await stage.controlPlaneClient("approver");
    const id = String(unusual.answer["approval_id"]);
    const path = `/v1/approvals/${id}`;
    assert.equal((await approver.request({ method: "POST", path, body: { approve: true } })).status, 200);
    const broker = await stage.controlPlaneClient("broker");
    const { status, body } = await broker.request({ method: "GET", path: `/v1/sign/result/${id}` });
    const result = body as Readonly<Record<string, unknown>>;
    assert.deepEqual([status, result["envelope"], result["certificate"]], [200, undefined, undefined]);
    // What nothing is judged of, no envelope comes of.
    const dryRun = await preflight(stage, "touch y", { preflight: false });
    assert.deepEqual([dryRun.status, dryRun.answer["envelope"]], [200, undefined]);
  }));
