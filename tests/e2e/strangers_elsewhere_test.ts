import assert from "node:assert/strict";
import { HOST, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { ControlPlaneScene, withControlPlane } from "./control_plane_scene.ts";
import { AGENTS, McpHttpScene } from "./mcp_http_scene.ts";
import { portOf, STRANGERS, Strangers, WAYS } from "./strangers.ts";

/** The two that a listener has to end by itself, with an answer and without: the signer's test has all. */
const HELD = WAYS.filter(({ name }) => /after a 401|do not end/.test(name));
assert.equal(HELD.length, 2);

/** Holds connections to a listener in one way after the other, and meanwhile does what it is for. */
async function meanwhile(
  t: Deno.TestContext,
  { port, ca }: { readonly port: number; readonly ca: string },
  work: () => Promise<void>,
): Promise<void> {
  for (const way of HELD) {
    await t.step(`that hold ${way.name}`, async () => {
      using strangers = new Strangers(port, ca);
      await strangers.hold(way);
      await work();
    });
  }
}

const listenerOf = async ({ init }: Stage, config: string) => ({
  port: await portOf(config),
  ca: await Deno.readTextFile(init.mtls_ca),
});

Deno.test(
  `${STRANGERS} strangers at the control plane keep nobody from asking, deciding and collecting`,
  (t) =>
    withControlPlane({}, async ({ stage }) => {
      await stage.startSigner();
      await stage.startControlPlane();
      await meanwhile(t, await listenerOf(stage, stage.init.control_plane_config), async () => {
        // All of them connect anew.
        const scene = new ControlPlaneScene(stage);
        const id = await scene.park();
        assert.equal((await scene.decide(id, { approve: true })).status, 200);
        const { status, text } = await scene.poll(id);
        assert.equal(status, 200, text);
        const approvals = await scene.get("approver", "/v1/approvals");
        assert.equal(approvals.status, 200, approvals.text);
      });
    }),
);

Deno.test(`${STRANGERS} strangers at the broker keep no agent from its command`, (t) =>
  withStage({}, async (stage) => {
    await stage.startSigner();
    await stage.startBroker();
    await meanwhile(t, await listenerOf(stage, stage.init.broker_config), async () => {
      const agent = await stage.brokerClient();
      const { status, text } = await agent.request({
        method: "POST",
        path: "/v1/ssh_run",
        body: { host: HOST, command: "uptime" },
      });
      assert.equal(status, 200, text);
    });
  }));

Deno.test(
  `${STRANGERS} strangers at the broker for MCP over HTTPS keep no agent from its session`,
  async (t) => {
    await using scene = await McpHttpScene.create();
    const before = await scene.connect(AGENTS[0]);
    const listener = { port: Number(new URL(scene.url).port), ca: scene.scene.pki.certPem };
    await meanwhile(t, listener, async () => {
      const after = await scene.connect(AGENTS[1]);
      for (const agent of [before, after]) {
        const { isError } = await agent.callTool({ name: "ssh_list_servers", arguments: {} });
        assert.notEqual(isError, true);
      }
      await after.close();
    });
    await before.close();
  },
);
