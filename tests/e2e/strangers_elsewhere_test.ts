import assert from "node:assert/strict";
import { HOST, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { withControlPlane } from "./control_plane_scene.ts";
import { AGENTS, McpHttpScene } from "./mcp_http_scene.ts";
import { portOf, STRANGERS, Strangers, WAYS } from "./strangers.ts";

/** The two that a listener has to end by itself, with an answer and without: the signer's test has all. */
const HELD = WAYS.filter(({ name }) => /after a 401|do not end/.test(name));
assert.equal(HELD.length, 2);

const strangersTo = async ({ init }: Stage, config: string) =>
  new Strangers(await portOf(config), await Deno.readTextFile(init.mtls_ca));

Deno.test.each(HELD)(
  `${STRANGERS} strangers at the control plane that hold $name keep nobody from asking, deciding and collecting`,
  (way) =>
    withControlPlane({}, async (scene) => {
      await scene.stage.startSigner();
      await scene.stage.startControlPlane();
      using strangers = await strangersTo(scene.stage, scene.stage.init.control_plane_config);
      await strangers.hold(way);
      const id = await scene.park();
      assert.equal((await scene.decide(id, { approve: true })).status, 200);
      const { status, text } = await scene.poll(id);
      assert.equal(status, 200, text);
      const approvals = await scene.get("approver", "/v1/approvals");
      assert.equal(approvals.status, 200, approvals.text);
    }),
);

Deno.test.each(HELD)(
  `${STRANGERS} strangers at the broker that hold $name keep no agent from its command`,
  (way) =>
    withStage({}, async (stage) => {
      await stage.startSigner();
      await stage.startBroker();
      using strangers = await strangersTo(stage, stage.init.broker_config);
      await strangers.hold(way);
      const agent = await stage.brokerClient();
      const { status, text } = await agent.request({
        method: "POST",
        path: "/v1/ssh_run",
        body: { host: HOST, command: "uptime" },
      });
      assert.equal(status, 200, text);
    }),
);

Deno.test.each(HELD)(
  `${STRANGERS} strangers at the broker for MCP over HTTPS that hold $name keep no agent from its session`,
  async (way) => {
    await using scene = await McpHttpScene.create();
    const before = await scene.connect(AGENTS[0]);
    const port = Number(new URL(scene.url).port);
    using strangers = new Strangers(port, scene.scene.pki.certPem);
    await strangers.hold(way);
    const after = await scene.connect(AGENTS[1]);
    for (const agent of [before, after]) {
      const { isError } = await agent.callTool({ name: "ssh_list_servers", arguments: {} });
      assert.notEqual(isError, true);
      await agent.close();
    }
  },
);
