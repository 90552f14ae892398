import assert from "node:assert/strict";
import { compileAllowList } from "../tools/net_guard.ts";
import { httpGet } from "../tools/http_tools.ts";
import { BARE_SETTINGS, FakePorts } from "../tools/testing/tool_bench.ts";
import { SHORT_SCRIPT } from "../testing/debate_fixture.ts";
import { call, ScriptedModel } from "../testing/scripted_model.ts";
import { openRun } from "../testing/web_fixture.ts";

const [FIRST, SECOND] = ["https://status.test/a", "https://evil.test/a"];

/** A run that requests URLs of hosts that are not in HTTP_ALLOWED_HOSTS. */
async function openAsking(urls: readonly string[], fields: Readonly<Record<string, string>> = {}) {
  const ports = new FakePorts();
  ports.addresses = { "status.test": [["93.184.216.34"]], "evil.test": [["93.184.216.35"]] };
  const tool = httpGet({ ports, settings: BARE_SETTINGS, allowed: compileAllowList([]) });
  const calls = urls.map((url) => ({ text: `I need ${url}`, toolCalls: [call("http_get", { url })] }));
  const model = new ScriptedModel({
    ...SHORT_SCRIPT,
    diagnostic_agent: [...calls, "### HYPOTHESIS-1\nText: a"],
  });
  const { web, runId } = await openRun({ model, tools: [tool] }, fields);
  const decide = async (answer: object) => {
    const { call_id } = (await web.eventsOf(runId, "tool_approval_request")).at(-1);
    assert.equal((await web.post(`/api/runs/${runId}/approval`, { call_id, ...answer })).status, 200);
    await web.settle();
  };
  return { web, runId, ports, decide, hosts: () => ports.requests.map(({ url }) => url.hostname) };
}

Deno.test("an unlisted host waits for an approval, without a lookup of its name", async () => {
  const { web, runId, ports, decide, hosts } = await openAsking([FIRST]);
  const [{ need, reason }] = await web.eventsOf(runId, "tool_approval_request");
  assert.deepEqual([need, reason], ["status.test:443 is not in HTTP_ALLOWED_HOSTS", `I need ${FIRST}`]);
  assert.deepEqual(ports.lookups, []);
  await decide({ approved: true });
  assert.deepEqual([hosts(), web.audited[0]?.approval], [["status.test"], "approved"]);
});

Deno.test("an approval for the whole run allows this URL only", async () => {
  const { decide, hosts, ports } = await openAsking([FIRST, SECOND]);
  await decide({ approved: true, for_run: true });
  assert.deepEqual([hosts(), ports.lookups], [["status.test"], ["status.test"]]);
  await decide({ approved: false });
  assert.deepEqual(hosts(), ["status.test"]);
});

Deno.test("a person who approves another URL allows that one", async () => {
  const { decide, hosts } = await openAsking([SECOND]);
  await decide({ approved: true, args: { url: FIRST } });
  assert.deepEqual(hosts(), ["status.test"]);
});

Deno.test("a run without approvals rejects the host, and turning approvals off approves nothing", async () => {
  const off = await openAsking([FIRST], { require_approval: "false" });
  assert.deepEqual(await off.web.eventsOf(off.runId, "tool_approval_request"), []);
  const { web, runId, ports, hosts } = await openAsking([FIRST]);
  await web.post(`/api/runs/${runId}/options`, { require_approval: false });
  await web.settle();
  const [resolved] = await web.eventsOf(runId, "tool_approval_resolved");
  assert.equal(resolved.resolution, "rejected");
  assert.deepEqual([hosts(), off.hosts(), ports.lookups, off.ports.lookups], [[], [], [], []]);
});
