import assert from "node:assert/strict";
import { PAGERDUTY } from "../alerts/testing/payloads.ts";
import { FixedTool, SHORT_SCRIPT } from "../testing/debate_fixture.ts";
import { call, never, ScriptedModel } from "../testing/scripted_model.ts";
import {
  GUARDED_TOOL,
  settleAlerts,
  WebFixture,
  type WebFixtureOptions,
  withTool,
} from "../testing/web_fixture.ts";

const SECRET = "a-secret-of-alertmanager";
const ENV = {
  ALERT_SECRET: SECRET,
  ALERT_ANSWER_URL: "https://chat.example/hooks/T0/hidden-path",
  ALERT_APPROVALS: "true",
  TOOL_APPROVAL_REQUIRED: "false",
};

const PASSWORD = "page-password";
const basic = (password: string) => `Basic ${btoa(`ann:${password}`)}`;

const AGAIN = { toolCalls: [call(GUARDED_TOOL, { args: ["get", "pods"] })] };

/** A debate that does not end after its call. */
const pausing = () => new ScriptedModel({ ...SHORT_SCRIPT, diagnostic_agent: [AGAIN, () => never()] });

/** A server on which the run of an alert waits for an approval. */
async function openWaiting(options: WebFixtureOptions = {}, statuses: readonly number[] = []) {
  const tool = new FixedTool(GUARDED_TOOL);
  const web = await WebFixture.open({
    model: withTool(),
    tools: [tool],
    ...options,
    env: { ...ENV, ...options.env },
  });
  web.chat.statuses.push(...statuses);
  web.headers.authorization = basic(PASSWORD);
  const headers = { "content-type": "application/json", "x-alert-secret": SECRET };
  await web.send("POST", "/api/alerts", { headers, body: JSON.stringify(PAGERDUTY) });
  await settleAlerts(web);
  const run_id = web.alerts.list()[0]?.run_id ?? "";
  const [asked] = await web.eventsOf(run_id, "tool_approval_request");
  return { web, tool, path: `/api/runs/${run_id}/approval`, asked, run_id };
}

const textsOf = ({ chat }: WebFixture): readonly string[] =>
  chat.sent.map((message) => JSON.parse(message).text);

Deno.test("the chat gets a request, and only a signed-in person decides, only on the call of this run", async () => {
  const { web, tool, path, asked, run_id } = await openWaiting({
    model: pausing(),
    env: { WEB_USERNAME: "ann", WEB_PASSWORD: PASSWORD },
  });
  assert.deepEqual(textsOf(web).map((text) => text.split("\n")), [[
    "Approval needed: A little bump in the road (P1)",
    '$ kubectl {"args":["get","pods"]}',
    "Reason: the agent states none",
    `Expires: ${new Date(web.clock.now() + 300_000).toISOString().replace(/\.\d+/, "")}`,
    `http://127.0.0.1:8000/#/runs/${run_id}`,
  ]]);
  const decide = (path: string, authorization: string) =>
    web.send("POST", path, {
      headers: { "content-type": "application/json", authorization, "x-alert-secret": SECRET },
      body: JSON.stringify({ call_id: asked.call_id, approved: true }),
    });
  for (const authorization of ["", `Bearer ${SECRET}`, basic(SECRET), basic("wrong")]) {
    assert.equal((await decide(path, authorization)).status, 401, authorization);
  }
  for (const id of [await web.start(), "0".repeat(32)]) {
    assert.equal((await decide(`/api/runs/${id}/approval`, basic(PASSWORD))).status, 404);
  }
  assert.deepEqual(tool.runs, []);
  assert.equal((await decide(path, basic(PASSWORD))).status, 200);
  await settleAlerts(web);
  assert.equal(tool.runs.length, 1);
  assert.match(textsOf(web)[1] ?? "", /^Approved: \$ kubectl /);
});

Deno.test("after a request that nobody answers, the run waits for no other", async () => {
  const model = new ScriptedModel({
    ...SHORT_SCRIPT,
    diagnostic_agent: [AGAIN, AGAIN, "### HYPOTHESIS-1\nText: a"],
  });
  const { web, tool, run_id } = await openWaiting({ model });
  await web.clock.advance(300_000);
  await settleAlerts(web);
  const [first, second] = await web.eventsOf(run_id, "tool_approval_resolved");
  assert.deepEqual([first.resolution, second.resolution], ["timeout", "timeout"]);
  assert.equal((await web.eventsOf(run_id, "tool_approval_request")).length, 1);
  assert.deepEqual(tool.runs, []);
  assert.equal(web.alerts.list()[0]?.answer, "sent");
});

Deno.test("a request that cannot be delivered is repeated, stays on the page, and expires", async () => {
  const env = { ALERT_ANSWER_FORMAT: "webhook" };
  const { web, tool, asked, run_id } = await openWaiting({ model: pausing(), env }, [503, 503, 503]);
  const { approval, ...body } = JSON.parse(web.chat.sent[0] ?? "");
  const { timestamp, call_id: id, tool_name } = asked;
  const expires_at = new Date(Date.parse(timestamp) + 300_000).toISOString();
  assert.deepEqual(approval, { call_id: id, tool_name, expires_at, state: "waiting" });
  const names = "alert_id is_open lines run_id severity since source title url";
  assert.equal(Object.keys(body).toSorted().join(" "), names);
  assert.equal((await (await web.get("/api/runs")).json()).runs[0].waits_for, "approval");
  await web.clock.advance(5_000);
  await settleAlerts(web);
  assert.deepEqual([web.chat.sent.length, web.warnings.length], [2, 2]);
  assert.match(
    web.warnings[1] ?? "",
    /^cannot send approval \w+ \(waiting\) of alert \w+: the receiver answered 503/,
  );
  await web.clock.advance(295_000);
  for (let turns = 0; turns < 3; turns++) await settleAlerts(web);
  const [{ call_id, resolution }] = await web.eventsOf(run_id, "tool_approval_resolved");
  assert.deepEqual([call_id, resolution, tool.runs.length], [asked.call_id, "timeout", 0]);
  // The chat never got the request, so it does not get its end.
  assert.equal(web.chat.sent.length, 2);
});

Deno.test("without a chat, the request is on the page only", async () => {
  const { web, path, asked, tool } = await openWaiting({ env: { ALERT_ANSWER_URL: "" } });
  assert.deepEqual(web.chat.sent, []);
  assert.equal((await web.post(path, { call_id: asked.call_id, approved: true })).status, 200);
  await settleAlerts(web);
  assert.equal(tool.runs.length, 1);
});
