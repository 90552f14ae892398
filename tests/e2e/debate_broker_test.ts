import assert from "node:assert/strict";
import { createFolder } from "../stage/folder.ts";
import { HOST } from "../stage/stage.ts";
import { DebateProcess, sceneEnv } from "./debate_scene.ts";
import { withVerifiedAgent } from "./mcp_http_scene.ts";
import { SCOPE } from "./open_id_server.ts";

const TOOL = "gateway__ssh_execute";
const DECISION = {
  status: "final_diagnosis",
  confidence: 0.9,
  leading_hypothesis: "H-1: the pool is exhausted",
  risk_level: "low",
};

/** A script that runs a command through the broker and quotes its output. */
const scenario = (command: string) => ({
  rounds: [{
    diagnostic_agent: [
      {
        text: "I look.",
        tool_calls: [{
          name: TOOL,
          arguments: { server: HOST, command },
        }],
      },
      {
        text:
          `### HYPOTHESIS-H-1 [P=0.9]\nText: The pool is exhausted\n- [tool:${TOOL}#1] "20 of 20 connections in use": measured`,
      },
    ],
    skeptic_agent: [{ text: "[hypothesis:H-1] needs_evidence [P=0.9]" }],
    diagnostic_rebuttal_agent: [{ text: "The pool is exhausted." }],
    moderator_agent: [{ text: JSON.stringify(DECISION) }],
  }],
});

Deno.test("a debate runs a command on a host through the broker, without a key, and quotes its output", () =>
  withVerifiedAgent(async ({ stage, provider, url, agent }) => {
    await using home = await createFolder();
    await Deno.mkdir(`${home.path}/project`);
    const log = `${home.path}/pool.log`;
    await Deno.writeTextFile(log, "20 of 20 connections in use\n");
    await Deno.writeTextFile(`${home.path}/broken.json`, JSON.stringify(scenario(`cat ${log}`)));
    const oauth = {
      issuer: provider.issuer,
      client_id: agent.id,
      client_secret: "${MCP_SECRET}",
      scope: SCOPE,
    };
    const mcpServers = {
      gateway: { url, oauth, tools: ["ssh_execute", "ssh_list_servers"], no_approval: ["ssh_list_servers"] },
      gone: { url: "https://127.0.0.1:9/mcp", tools: ["x"] },
    };
    await Deno.writeTextFile(`${home.path}/mcp.json`, JSON.stringify({ mcpServers }));
    const model = "replay/broken";
    const env = sceneEnv(home.path, {
      ...{ DIAGNOSTIC_MODEL: model, SKEPTIC_MODEL: model, MODERATOR_MODEL: model, REPLAY_DIR: home.path },
      ...{ MCP_SERVERS_FILE: `${home.path}/mcp.json`, REQUESTS_CA_BUNDLE: stage.init.mtls_ca },
    });
    await using debate = await DebateProcess.start({ ...env, MCP_SECRET: agent.secret });
    const { tools } = await debate.json("/api/settings");
    const told = tools.filter(({ name }: { name: string }) => name.includes("__"))
      .map(({ name, why, needs_approval }: Record<string, unknown>) => [name, why, needs_approval]);
    assert.deepEqual(told, [
      [TOOL, null, true],
      ["gateway__ssh_list_servers", null, false],
      ["gone__x", "gone failed: 127.0.0.1:9 does not respond: connection refused", true],
    ]);

    const runId = await debate.run({ topic: "The API is down" });
    const asked = await debate.event(runId, "tool_approval_request");
    await debate.post(`/api/runs/${runId}/approval`, { call_id: asked?.call_id, approved: true });
    await debate.event(runId, "run_finished");
    const { events, hypotheses } = await debate.json(`/api/runs/${runId}`);
    const call = events.find(({ type }: { type: string }) => type === "tool_call");
    assert.deepEqual([call.tool_name, call.error, call.approval], [TOOL, false, "approved"], call.result);
    assert.match(call.result, /20 of 20 connections in use/);
    assert.equal(hypotheses[0].evidence[0].status, "grounded", JSON.stringify(hypotheses));
    const signed = await Deno.readTextFile(stage.init.signer_audit_log);
    assert.match(signed, new RegExp(`${agent.id}.*"outcome":"issued"`));

    await debate.stop();
    const files = await new Deno.Command("grep", {
      args: ["-rlE", `PRIVATE KEY|eyJ|${agent.secret}`, home.path],
    }).output();
    assert.equal(new TextDecoder().decode(files.stdout), "", "no key, no token and no secret is stored");
    assert.doesNotMatch(debate.log, new RegExp(`eyJ|${agent.secret}`));
  }));
