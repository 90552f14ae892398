import assert from "node:assert/strict";
import { Agent } from "../demo/agent.ts";
import { outputOf } from "../demo/tool_output.ts";
import { startCluster } from "../kubernetes/start.ts";
import { LocalScene } from "./local_scene.ts";

Deno.test("a broker in local mode acts on a cluster with a token made for it, and refuses what its rules do", async () => {
  await using cluster = await startCluster();
  const [namespace, home] = [await cluster.createNamespace("shop"), await cluster.createNamespace("gateway")];
  const agent = await cluster.createAccount(home, "agent");
  const rule = { apiGroups: [""], resources: ["configmaps", "secrets", "pods"], verbs: ["get", "list"] };
  await cluster.grantRole(agent, [rule], namespace);
  await cluster.create(`/api/v1/namespaces/${namespace}/configmaps`, {
    apiVersion: "v1",
    kind: "ConfigMap",
    metadata: { name: "settings" },
    data: { replicas: "2" },
  });
  const folder = await Deno.makeTempDir({ prefix: "local-cluster-" });
  await using cleaning = new AsyncDisposableStack();
  cleaning.defer(() => Deno.remove(folder, { recursive: true }));
  const files = await cluster.writeFiles(folder, await cluster.createMinter(home, [agent]));
  await using scene = await LocalScene.create({}, {
    kubernetes: {
      clusters: {
        prod: {
          ...files,
          sa_bindings: [{ namespace: home, service_account: "agent" }],
          rules: [
            { verbs: ["get"], resources: ["configmaps"], namespaces: [namespace], effect: "allow" },
            { verbs: ["list"], resources: ["configmaps"], effect: "require_approval" },
            { verbs: ["list"], resources: ["pods"], namespaces: [namespace], effect: "allow" },
          ],
        },
      },
    },
  });
  const mcp = await Agent.start(await scene.command("serve-mcp"), new AbortController().signal);
  cleaning.defer(() => mcp.close());
  const there = { cluster: "prod", namespace, resource: "configmaps" };

  const got = await mcp.callTool("k8s_get", { ...there, name: "settings" });
  assert.deepEqual(JSON.parse(outputOf(got.text)).data, { replicas: "2" }, got.text);
  const refused = await mcp.callTool("k8s_get", { ...there, resource: "secrets", name: "settings" });
  assert.deepEqual([refused.isError, /signing rejected \(403\)/.test(refused.text)], [true, true]);
  const gated = await mcp.callTool("k8s_list", there);
  assert.equal(gated.isError, true);
  assert.match(gated.text, /requires human approval/);

  const names = Array.from({ length: 101 }, (_, index) => `web-${1000 + index}`);
  for (const name of names) {
    await cluster.create(`/api/v1/namespaces/${namespace}/pods`, {
      apiVersion: "v1",
      kind: "Pod",
      metadata: { name, annotations: { note: "x".repeat(2_000) } },
      spec: { containers: [{ name: "app", image: "registry.example/app:1" }] },
    });
  }
  const pods = { ...there, resource: "pods" };
  const asJson = await mcp.callTool("k8s_list", { ...pods, output: "json" });
  assert.equal(asJson.isError, false, asJson.text);
  // The text of so long a list has whole items at both ends, and says how many lines it leaves out.
  const [, start = "", left = "", end = ""] =
    /"items":\[\n([^]*)\n\[cut \w+: about \d+ bytes in (\d+) lines [^\n]*\n([^]*)\n\]\}\n\[end /.exec(
      asJson.text,
    ) ?? [];
  const items = [...start.split("\n"), ...end.split("\n")].map((line) => JSON.parse(line.replace(/,$/, "")));
  assert.equal(items.length + Number(left), names.length);
  assert.ok(
    items.every(({ metadata }) => metadata.managedFields === undefined && metadata.name !== undefined),
  );
  if (cluster.kind === "real") {
    const table = outputOf((await mcp.callTool("k8s_list", pods)).text).trimEnd().split("\n");
    assert.equal(table[0], "NAME\tREADY\tSTATUS\tRESTARTS\tAGE");
    assert.deepEqual(table.slice(1).map((line) => line.split("\t")[0]), names);
  }

  await mcp.close();
  const records = await scene.records("caller", "outcome", "target_type");
  assert.deepEqual(records, [
    ["local", "issued", "k8s"],
    ["mcp-stdio", "executed", "k8s"],
    ["mcp-stdio", "denied", "k8s"],
    ["mcp-stdio", "denied", "k8s"],
    ...Array.from({ length: cluster.kind === "real" ? 2 : 1 }, () => [
      ["local", "issued", "k8s"],
      ["mcp-stdio", "executed", "k8s"],
    ]).flat(),
  ]);
});
