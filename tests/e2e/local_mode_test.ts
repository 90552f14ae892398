import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { JsonClient } from "@gateway/shared/http";
import { issueLeaf } from "../../ctl/identities/x509.ts";
import { PRINCIPAL } from "../ssh_target/certificates.ts";
import { ServiceProcess } from "../stage/service_process.ts";
import { editConfig, post } from "../stage/stage.ts";
import { BrokerScene } from "./broker_scene.ts";
import { LocalScene } from "./local_scene.ts";
import { McpProcess } from "./mcp_process.ts";
import { isAgentMissing, startAgent } from "../stage/ssh_agent.ts";
import { Agent } from "../demo/agent.ts";
import { outputOf } from "../demo/tool_output.ts";
import { startCluster } from "../kubernetes/start.ts";

const ALLOWLIST = {
  command_policy: { mode: "allowlist", allow: ["^echo "], require_approval: ["^echo careful"] },
};

Deno.test("a broker in local mode starts only if its policy_tests pass", async () => {
  await using scene = await LocalScene.create(ALLOWLIST);
  const tests = `${scene.dir}/tests.jsonc`;
  await editConfig(scene.configPath, [{ path: ["policy_tests"], value: tests }]);
  const write = (expect: string) =>
    Deno.writeTextFile(tests, JSON.stringify({ cases: [{ host: "web01", command: "echo a", expect }] }));
  await write("allow");
  {
    await using mcp = await McpProcess.start(await scene.command("serve-mcp"));
    assert.equal(await mcp.end(), 0);
  }
  await write("deny");
  const mcp = new McpProcess(await scene.command("serve-mcp"));
  assert.equal(await mcp.end(), 1);
  assert.match(mcp.log, /1 of 1 cases of ".*tests\.jsonc" fail/);
});

Deno.test("a broker in local mode runs allowed commands over MCP on stdio without a signer", async () => {
  await using scene = await LocalScene.create(ALLOWLIST);
  await using mcp = await McpProcess.start(await scene.command("serve-mcp"));
  const list = await mcp.call("ssh_list_servers", {});
  assert.equal(list.content[0].text, "web01 (sudo=false pty=false file_transfer=false)\n");

  const ran = await mcp.call("ssh_execute", { server: "web01", command: "echo hello" });
  assert.equal(ran.structuredContent?.stdout, "hello\n", ran.content[0].text);
  const denied = await mcp.call("ssh_execute", { server: "web01", command: "id" });
  assert.equal(denied.isError, true);
  assert.match(denied.content[0].text, /^signing cert for "web01": signing rejected \(403\): /);
  const gated = await mcp.call("ssh_execute", { server: "web01", command: "echo careful" });
  assert.equal(gated.isError, true);
  assert.match(gated.content[0].text, /requires human approval \(require_approval:\^echo careful\)/);
  const preview = await mcp.call("ssh_execute", { server: "web01", command: "echo hello", dry_run: true });
  assert.deepEqual(preview.structuredContent.decision, {
    allowed: true,
    reason_code: "allowed",
    matched_rule: "allow:^echo ",
    enforcement: "enforce",
    force_command: "echo hello",
    ttl_seconds: 300,
  });

  assert.equal(await mcp.end(), 0);
  assert.match(mcp.log, /mcp-broker \(stdio\) ready; 1 host configured/);
  assert.match(mcp.log, /Lab use only/);
  const addr = `127.0.0.1:${scene.target.port}`;
  const records = await scene.records("caller", "outcome", "host", "principal", "ttl");
  assert.deepEqual(records, [
    ["local", "issued", addr, PRINCIPAL, "300s"],
    ["mcp-stdio", "executed", addr, "", ""],
    ["mcp-stdio", "error", addr, "", ""],
    ["mcp-stdio", "error", addr, "", ""],
    ["mcp-stdio", "dry_run_allowed", addr, "", ""],
  ]);
  const [[issued] = [], [executed] = []] = await scene.records("serial");
  assert.equal(issued, executed, "the certificate and what ran with it have one serial");
  const [[command, ext] = []] = await scene.records("command", "ext");
  assert.equal(command, "role=target purpose=oneshot user=mcp-stdio");
  const { command_line, host_name } = ext as Record<string, unknown>;
  assert.deepEqual([command_line, host_name], ["echo hello", "web01"]);
});

Deno.test("a broker in local mode serves agents with certificates over HTTPS", async () => {
  await using scene = await LocalScene.create();
  await using broker = await ServiceProcess.start(await scene.command("serve-http"));
  const { certPem: cert, keyPem: key } = await issueLeaf(scene.pki, {
    subject: "CN=agent-1",
    usage: "client",
  });
  const baseUrl = `https://${scene.listen}`;
  using client = new JsonClient({
    clock: systemClock,
    baseUrl,
    cert,
    key,
    ca: scene.pki.certPem,
    timeoutMs: 30_000,
  });
  const run = (body: object) => post(client, "/v1/ssh_run", body);
  const { status, body } = await run({ host: "web01", command: "echo out; exit 4" });
  assert.equal(status, 200);
  const { stdout, exit_code } = body as Record<string, unknown>;
  assert.deepEqual({ stdout, exit_code }, { stdout: "out\n", exit_code: 4 });
  assert.equal((await run({ host: "other", command: "id" })).status, 404);
  assert.equal((await run({ host: "web01", command: "id", sudo: true })).status, 403);
  assert.equal((await broker.stop()).code, 0);
  assert.deepEqual((await scene.records("caller", "outcome")).slice(0, 2), [
    ["local", "issued"],
    ["agent-1", "executed"],
  ]);
});

Deno.test("a broker in local mode runs a command that the user of the MCP client approves, and has no other approvers", async () => {
  await using scene = await LocalScene.create(ALLOWLIST, { approval_via_elicitation: true });
  await using mcp = new McpProcess(await scene.command("serve-mcp"));
  await mcp.initialize({ elicitation: {} });
  const ask = async (approve: boolean) => {
    await mcp.start("tools/call", {
      name: "ssh_execute",
      arguments: { server: "web01", command: "echo careful" },
    });
    const { id, method } = JSON.parse(await mcp.line());
    assert.equal(method, "elicitation/create");
    await mcp.respond(id, { action: "accept", content: { approve } });
    return JSON.parse(await mcp.line()).result;
  };
  const declined = await ask(false);
  assert.match(declined.content[0].text, /^approval declined: /);
  const approved = await ask(true);
  assert.equal(approved.structuredContent?.stdout, "careful\n", approved.content[0].text);
  assert.equal(await mcp.end(), 0);
  assert.deepEqual(await scene.records("outcome", "approved_via"), [
    ["error", undefined],
    ["approval_declined", "elicitation"],
    ["error", undefined],
    ["approval_granted", "elicitation"],
    ["issued", undefined],
    ["executed", "elicitation"],
  ]);
});

Deno.test({
  name: "a broker in local mode whose CA key is in ssh-agent never reads a private key",
  ignore: isAgentMissing,
}, async () => {
  await using scene = await LocalScene.create();
  const { dir } = scene;
  await using agent = await startAgent(`${dir}/agent.sock`);
  await agent.add(`${dir}/ssh_ca`);
  await Deno.remove(`${dir}/ssh_ca`);
  const key = { type: "agent", socket: agent.socket, public_key_path: `${dir}/ssh_ca.pub` };
  await editConfig(scene.configPath, [
    { path: ["ca_key"], value: undefined },
    { path: ["ca_keys"], value: { _default: key } },
  ]);
  await using mcp = await McpProcess.start(await scene.command("serve-mcp"));
  const run = () => mcp.call("ssh_execute", { server: "web01", command: "echo hello" });
  const ran = await run();
  assert.equal(ran.structuredContent?.stdout, "hello\n", ran.content[0].text);
  assert.doesNotMatch(mcp.log, /Lab use only/);
  await agent[Symbol.asyncDispose]();
  const refused = await run();
  assert.equal(
    refused.content[0].text,
    'upstream failure: signing cert for "web01": the CA key could not sign',
  );
  assert.equal(await mcp.end(), 0);
});

Deno.test("a broker in remote mode logs the ignored keys of local mode in one line and reads no file that they name", async () => {
  await using scene = await BrokerScene.create();
  await editConfig(scene.configPath, [
    { path: ["ca_key"], value: `${scene.dir}/no-such-key` },
    { path: ["networks"] },
    // The config has another address for web01, but the process connects to the signer's address.
    { path: ["hosts"], value: { web01: { addr: "192.0.2.1:22", allow_sudo: true } } },
  ]);
  await using mcp = await McpProcess.start(await scene.command("serve-mcp"));
  const ran = await mcp.call("ssh_execute", { server: "web01", command: "echo remote" });
  assert.equal(ran.structuredContent?.stdout, "remote\n", ran.content[0].text);
  const sudo = await mcp.call("ssh_list_servers", {});
  assert.match(sudo.content[0].text, /sudo=false/, "the signer's policy counts, not the config's");
  assert.equal(await mcp.end(), 0);
  const line = "warning: remote mode (signer block set): ignoring local-mode config — ca_key, hosts; " +
    "policy fields on 1 host(s) (web01: allow_sudo). Host inventory and policy come from the signer.";
  assert.equal(mcp.log.split(line).length, 2, mcp.log);
});

Deno.test("a broker in local mode acts on a cluster with a token issued for it and denies what its rules deny", async () => {
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
  // A list of this length is shown with complete items at both ends and the number of omitted lines.
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
