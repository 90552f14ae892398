import assert from "node:assert/strict";
import type { ClustersResponse } from "@gateway/shared/wire";
import { BrokerFixture } from "../testing/broker_fixture.ts";
import { CLUSTER, ClusterFixture } from "../testing/cluster_fixture.ts";
import { LIST, McpHttpFixture, statelessHeaders, statelessRpc } from "../testing/mcp_http_fixture.ts";
import { RawMcpClient } from "../testing/raw_mcp_client.ts";
import { SessionFixture } from "../testing/session_fixture.ts";
import { createToolset } from "../tools/toolset.ts";

const K8S_TOOLS = ["k8s_apply", "k8s_delete", "k8s_get", "k8s_list", "k8s_list_clusters", "k8s_logs"];
const { sessions } = new SessionFixture();

/** A broker's tools, and what sets the clusters that it knows. */
function scene() {
  const fixture = new ClusterFixture();
  fixture.authority.clusterList = () => ({});
  const { clusters, currentClusters, runAction } = fixture;
  const tools = createToolset(
    Object.assign(new BrokerFixture(), { sessions, clusters, currentClusters, runAction }),
  );
  const know = async (...names: readonly string[]) => {
    fixture.authority.clusterList = () => Object.fromEntries(names.map((name) => [name, CLUSTER]));
    await clusters.inventory.refresh();
  };
  return { tools, know, authority: fixture.authority };
}

const k8sOf = ({ result }: { result: { tools: readonly { name: string }[] } }) =>
  result.tools.map(({ name }) => name).filter((name) => name.startsWith("k8s_"));

Deno.test("MCP over stdio has the six tools while there is a cluster, and says when that changes", async () => {
  const { tools, know } = scene();
  const client = await RawMcpClient.connect("2025-11-25", { tools });
  assert.deepEqual(k8sOf(await client.request("tools/list")), []);
  const { error } = await client.request("tools/call", { name: "k8s_get", arguments: {} });
  assert.equal(error.message, 'unknown tool "k8s_get"');
  await know("a");
  assert.equal((await client.message()).method, "notifications/tools/list_changed");
  assert.deepEqual(k8sOf(await client.request("tools/list")), K8S_TOOLS);
  await know("a", "b");
  assert.deepEqual((await client.call("k8s_list_clusters")).structuredContent, {
    clusters: [{ name: "a" }, { name: "b" }],
  });
  await know();
  assert.equal((await client.message()).method, "notifications/tools/list_changed");
  assert.deepEqual(k8sOf(await client.request("tools/list")), []);
  await client.end();
});

Deno.test("MCP over stdio answers a client that asks at once when it knows the clusters", async () => {
  const { tools, authority } = scene();
  const list = Promise.withResolvers<ClustersResponse>();
  authority.clusterList = () => list.promise;
  const client = await RawMcpClient.connect("2025-11-25", { tools });
  const listed = await client.start("tools/list");
  const called = await client.start("tools/call", { name: "k8s_list_clusters", arguments: {} });
  list.resolve({ a: CLUSTER });
  const messages = [await client.message(), await client.message(), await client.message()];
  const answerTo = (wanted: number) => messages.find(({ id }) => id === wanted);
  assert.deepEqual(k8sOf(answerTo(listed)), K8S_TOOLS);
  assert.deepEqual(answerTo(called).result.structuredContent, { clusters: [{ name: "a" }] });
  await client.end();
});

Deno.test("MCP over stdio of the stateless generation has them too", async () => {
  const { tools, know } = scene();
  const client = await RawMcpClient.connect("2026-07-28", { tools });
  assert.deepEqual(k8sOf(await client.request("tools/list")), []);
  await know("a");
  assert.deepEqual(k8sOf(await client.request("tools/list")), K8S_TOOLS);
  await client.end();
});

Deno.test("MCP over HTTP has them, and says when that changes on the stream of a session", async () => {
  const { tools: toolset, know } = scene();
  await using frontend = new McpHttpFixture({ toolset });
  const list = async (session: string) => {
    const text = await (await frontend.send({ token: "alice", session, body: LIST })).text();
    return k8sOf(JSON.parse(/^data: (\{.*)$/m.exec(text)?.[1] ?? ""));
  };
  const session = await frontend.open("alice");
  assert.deepEqual(await list(session), []);
  const stream = await frontend.send({ token: "alice", session });
  const reader = stream.body?.pipeThrough(new TextDecoderStream()).getReader();
  assert.ok(reader);
  await know("a");
  let heard = "";
  while (!heard.includes("notifications/tools/list_changed")) {
    const { value, done } = await reader.read();
    assert.ok(!done, heard);
    heard += value;
  }
  await reader.cancel();
  assert.deepEqual(await list(session), K8S_TOOLS);
});

Deno.test("MCP over HTTP of the stateless generation has them too", async () => {
  const { tools: toolset, know } = scene();
  await using frontend = new McpHttpFixture({ toolset });
  const list = async () => {
    const response = await frontend.send({
      token: "alice",
      headers: statelessHeaders("tools/list"),
      body: statelessRpc(1, "tools/list"),
    });
    const text = await response.text();
    return k8sOf(JSON.parse(text.startsWith("{") ? text : /^data: (\{.*)$/m.exec(text)?.[1] ?? ""));
  };
  assert.deepEqual(await list(), []);
  await know("a");
  assert.deepEqual(await list(), K8S_TOOLS);
});
