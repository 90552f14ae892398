import assert from "node:assert/strict";
import { respondToMonitor } from "@gateway/shared/http/monitor";
import { ALERTMANAGER } from "../alerts/testing/payloads.ts";
import { ModelError } from "../engine/ports.ts";
import { DIAGNOSIS, FixedTool, SHORT_SCRIPT } from "../testing/debate_fixture.ts";
import { call, ScriptedModel } from "../testing/scripted_model.ts";
import { GUARDED_TOOL, WebFixture } from "../testing/web_fixture.ts";

const USAGE = { usage: { input_tokens: 30, output_tokens: 4, total_tokens: 34 } };
const SECRET = "a-secret-of-alertmanager";

/** The series of these metrics, without buckets and sums. */
async function seriesOf(web: WebFixture): Promise<readonly string[]> {
  const request = new Request("http://127.0.0.1:9190/metrics");
  const response = await respondToMonitor(request, { isReady: () => true, metrics: web.metrics });
  return (await response.text()).split("\n").filter((line) =>
    /^debate/.test(line) && !/_(?:bucket|sum)\{/.test(line)
  );
}

Deno.test("the metrics count runs, model calls, tokens and tool calls without names that others choose", async () => {
  const asks = [
    call(GUARDED_TOOL, { a: 1 }, "c1"),
    call("run_of_a_model\n", {}, "c2"),
    call("http_get", {}, "c3"),
  ];
  const model = new ScriptedModel({
    ...SHORT_SCRIPT,
    diagnostic_agent: [{ toolCalls: asks, ...USAGE }, DIAGNOSIS],
    skeptic_agent: [new ModelError("auth", "no", USAGE)],
  });
  const tools = [new FixedTool(GUARDED_TOOL), new FixedTool("http_get", { ok: false, text: "no" })];
  const web = await WebFixture.open({ model, tools, env: { ALERT_SECRET: SECRET } });
  const runId = await web.start();
  await web.settle();
  const waiting = await seriesOf(web);
  assert.deepEqual(waiting.filter((line) => /progress|pending/.test(line)), [
    "debate_approvals_pending 1",
    "debate_runs_in_progress 1",
  ]);
  const [{ call_id }] = await web.eventsOf(runId, "tool_approval_request");
  await web.post(`/api/runs/${runId}/approval`, { call_id, approved: false });
  await web.end(runId);
  await web.send("POST", "/api/alerts", {
    headers: { "x-alert-secret": SECRET, "content-type": "application/json" },
    body: JSON.stringify(ALERTMANAGER),
  });
  assert.deepEqual(await seriesOf(web), [
    "debate_alert_failed_deliveries 0",
    'debate_alerts_open{answer="failed"} 0',
    'debate_alerts_open{answer="off"} 0',
    'debate_alerts_open{answer="sent"} 0',
    'debate_alerts_open{answer="waiting"} 1',
    "debate_approvals_pending 0",
    'debate_model_calls_total{provider="replay",outcome="auth"} 1',
    'debate_model_calls_total{provider="replay",outcome="ok"} 2',
    'debate_model_tokens_total{provider="replay",direction="input"} 60',
    'debate_model_tokens_total{provider="replay",direction="output"} 8',
    'debate_run_duration_seconds_count{result="error"} 1',
    "debate_runs_in_progress 0",
    'debate_tool_calls_total{tool="http_get",outcome="error"} 1',
    `debate_tool_calls_total{tool="${GUARDED_TOOL}",outcome="rejected"} 1`,
    'debate_tool_calls_total{tool="unknown",outcome="error"} 1',
  ]);
});

Deno.test("the port of the page has no metrics", async () => {
  const web = await WebFixture.open();
  assert.equal((await web.get("/metrics")).status, 404);
});
