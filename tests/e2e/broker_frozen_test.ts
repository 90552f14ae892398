import assert from "node:assert/strict";
import { HOST } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { McpProcess } from "./mcp_process.ts";

Deno.test("agents of a frozen broker are told so: 403 over HTTPS, the same text over MCP", () =>
  withStage({}, async (stage) => {
    await stage.startSigner();
    await stage.startBroker();
    await using mcp = new McpProcess(await stage.mcpCommand());
    await mcp.initialize();
    const client = await stage.brokerClient();
    const run = () =>
      client.request({ method: "POST", path: "/v1/ssh_run", body: { host: HOST, command: "uptime" } });
    assert.equal((await run()).status, 200);
    const operator = await stage.signerClient("operator");
    const frozen = await operator.request({
      method: "POST",
      path: "/v1/freeze",
      body: { kind: "caller", value: "broker-local" },
    });
    assert.equal(frozen.status, 200, frozen.text);

    const { status, body } = await run();
    const { code, detail } = body as { readonly code: string; readonly detail: string };
    assert.deepEqual([status, code], [403, "frozen"]);
    assert.match(detail, /^refreshing host list: host list refused \(403\): .*frozen/);
    const called = await mcp.call("ssh_execute", { server: HOST, command: "uptime" });
    assert.equal(called.isError, true);
    assert.equal(called.content[0].text, detail);
    assert.equal(await mcp.end(), 0);
  }));
