import assert from "node:assert/strict";
import { approvalList, type ApprovalRecord } from "@gateway/shared/wire";
import { Agent } from "../demo/agent.ts";
import { outputOf } from "../demo/tool_output.ts";
import type { Api, KubernetesObject } from "../kubernetes/api.ts";
import { CLUSTER, enrollCluster, signRequest } from "../kubernetes/enroll.ts";
import { startCluster } from "../kubernetes/start.ts";
import { poll } from "../stage/poll.ts";
import { editConfig, post, runBrokerCtl, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { startHostile, type Treatment } from "../kubernetes/hostile.ts";

const RULES = [
  {
    verbs: ["get", "list", "logs"],
    resources: ["pods", "configmaps"],
    namespaces: ["<ns>"],
    effect: "allow",
  },
  { verbs: ["apply"], resources: ["configmaps"], namespaces: ["<ns>"], effect: "require_approval" },
] as const;

const LOG = "GET / 200\nGET /cart 500\n";

const settings = (replicas: string) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "settings" },
  data: { replicas },
});

Deno.test("an agent acts on a cluster through broker, control plane and signer until a freeze", () =>
  withStage({ controlPlane: true }, async (stage) => {
    await using cluster = await startCluster();
    const { namespace } = await enrollCluster(stage, cluster, { rules: RULES });
    await cluster.runPod({ namespace, name: "web-1", containers: { app: LOG } });
    const path = `/api/v1/namespaces/${namespace}/configmaps/settings`;
    await cluster.admin.must({ method: "PATCH", path: `${path}?fieldManager=gateway`, body: settings("2") });
    await stage.startSigner();
    await stage.startControlPlane();
    const mcp = await Agent.start(await stage.mcpCommand(), new AbortController().signal);
    stage.defer(() => mcp.close());
    const call = (tool: string, args: Record<string, unknown>) => mcp.callTool(`k8s_${tool}`, args);
    const there = { cluster: CLUSTER, namespace };
    const operator = await stage.signerClient("operator");
    const reload = async () => {
      const { status, text } = await post(operator, "/v1/reload");
      assert.equal(status, 200, text);
    };

    assert.equal((await call("list_clusters", {})).text, CLUSTER);
    const list = await call("list", { ...there, resource: "pods", output: "json" });
    assert.equal(list.isError, false, list.text);
    assert.deepEqual(
      JSON.parse(outputOf(list.text)).items.map(({ metadata }: KubernetesObject) => metadata?.name),
      [
        "web-1",
      ],
    );
    const got = await call("get", { ...there, resource: "configmaps", name: "settings" });
    assert.deepEqual(JSON.parse(outputOf(got.text)).data, { replicas: "2" });
    const log = await call("logs", { ...there, pod: "web-1", tail_lines: 1 });
    assert.equal(outputOf(log.text), "GET /cart 500\n");

    const refused = await call("delete", { ...there, resource: "pods", name: "web-1" });
    assert.equal(refused.isError, true);
    assert.match(refused.text, /signing rejected \(403\)/);

    const apply = (replicas: string) => {
      const answer = call("apply", {
        ...there,
        resource: "configmaps",
        name: "settings",
        manifest: JSON.stringify(settings(replicas)),
      });
      // A test that fails before it is awaited must not end in an unhandled rejection.
      answer.catch(() => {});
      return answer;
    };
    const approver = await stage.controlPlaneClient("approver");
    const pending = async () => {
      let found: ApprovalRecord | undefined;
      await poll(async () => {
        const { body } = await approver.request({ method: "GET", path: "/v1/approvals" });
        found = approvalList.parse(body).find(({ status }) => status === "pending");
        return found !== undefined;
      }, { what: "the apply to wait for approval" });
      return found;
    };
    const approve = async (record: ApprovalRecord | undefined) => {
      const path = `/v1/approvals/${record?.id}`;
      const { status, text } = await post(approver, path, { approve: true });
      assert.equal(status, 200, text);
    };
    const applied = apply("3");
    const record = await pending();
    assert.deepEqual(record?.k8s_diff, {
      kind: "changed",
      changes: [{ path: "data.replicas", before: '"2"', after: '"3"' }],
    });
    assert.deepEqual((await cluster.admin.must({ path })).data, { replicas: "2" });
    await approve(record);
    const { isError, text } = await applied;
    assert.equal(isError, false, text);
    assert.deepEqual((await cluster.admin.must({ path })).data, { replicas: "3" });

    // A cluster removed during the decision is not contacted, and the agent gets an error immediately.
    const late = apply("4");
    const asked = await pending();
    const config = await Deno.readTextFile(stage.init.signer_config);
    await editConfig(stage.init.signer_config, [{ path: ["kubernetes"] }]);
    await reload();
    await approve(asked);
    const gone = await late;
    assert.equal(gone.isError, true);
    assert.match(
      gone.text,
      /approval not granted \(502\): signing after approval failed: unknown cluster\nDo not retry in another form\./,
    );
    assert.deepEqual((await cluster.admin.must({ path })).data, { replicas: "3" });
    await Deno.writeTextFile(stage.init.signer_config, config);
    await reload();

    const freeze = ["freeze", "--caller", "broker-local", "--client-config", stage.init.client_config];
    assert.ok((await runBrokerCtl(freeze, stage.init.folder)).success);
    const frozen = await call("list", { ...there, resource: "pods", output: "json" });
    assert.match(frozen.text, /frozen/);
  }));

const RULES_FREEZE = [{
  verbs: ["list"],
  resources: ["pods"],
  namespaces: ["<ns>"],
  effect: "allow",
}] as const;

/** A token as received by the broker, which passes it to no client. */
async function mint(stage: Stage, namespace: string): Promise<string> {
  const broker = await stage.signerClient("broker");
  const { status, text, body } = await post(
    broker,
    "/v1/sign",
    signRequest({ verb: "list", resource: "pods", namespace }),
  );
  assert.equal(status, 200, text);
  return (body as { readonly k8s_token: string }).k8s_token;
}

async function freeze(stage: Stage, action: "freeze" | "unfreeze"): Promise<void> {
  const operator = await stage.signerClient("operator");
  const { status, text } = await post(operator, `/v1/${action}`, { kind: "caller", value: "broker-local" });
  assert.equal(status, 200, text);
}

async function listPods(api: Api, namespace: string): Promise<number> {
  return (await api.ask({ path: `/api/v1/namespaces/${namespace}/pods` })).status;
}

Deno.test("a freeze revokes issued tokens, used or unused, and tokens issued after it is lifted work", () =>
  withStage({}, async (stage) => {
    await using cluster = await startCluster();
    const { namespace, agent } = await enrollCluster(stage, cluster, { rules: RULES_FREEZE });
    await stage.startSigner();
    const leases = async () => {
      const { items } = await cluster.admin.must({ path: `/api/v1/namespaces/${agent.namespace}/secrets` });
      return (items as readonly unknown[]).length;
    };
    const [used, unused] = [
      cluster.connect({ token: await mint(stage, namespace) }),
      cluster.connect({ token: await mint(stage, namespace) }),
    ];
    assert.equal(await listPods(used, namespace), 200);
    assert.equal(await leases(), 1);

    await freeze(stage, "freeze");
    await poll(async () => await listPods(unused, namespace) === 401, {
      what: "the API server to refuse the token that was not used",
      intervalMs: 50,
    });
    // The API server caches valid tokens for 10 s.
    await poll(async () => await listPods(used, namespace) === 401, {
      what: "the API server to refuse the token that was used",
      intervalMs: 100,
    });
    assert.equal(await leases(), 0);

    await freeze(stage, "unfreeze");
    const later = cluster.connect({ token: await mint(stage, namespace) });
    assert.equal(await listPods(later, namespace), 200);
    assert.equal(await listPods(used, namespace), 401);
  }));

Deno.test("a signer killed between Secret and token leaves no permanent objects behind", () =>
  withStage({}, async (stage) => {
    await using cluster = await startCluster();
    let treatment: (path: string) => Treatment = () => ({ kind: "pass" });
    await using server = await startHostile({ behind: cluster, treat: ({ path }) => treatment(path) });
    const { apiServer, caPem } = server;
    const { namespace, agent } = await enrollCluster(stage, cluster, {
      rules: RULES_FREEZE,
      apiServer,
      caPem,
    });
    const secrets = async () => {
      const { items } = await cluster.admin.must({ path: `/api/v1/namespaces/${agent.namespace}/secrets` });
      return (items as readonly { readonly metadata: { readonly uid: string } }[]).map(({ metadata }) =>
        metadata.uid
      );
    };
    const signer = await stage.startSigner();
    treatment = (path) => {
      if (!path.endsWith("/token")) return { kind: "pass" };
      signer.kill("SIGKILL");
      return { kind: "write", bytes: "", then: "hang" };
    };
    await assert.rejects(mint(stage, namespace));
    await signer.status;
    const [left] = await secrets();
    assert.ok(left);

    treatment = () => ({ kind: "pass" });
    await stage.startSigner();
    // The UID was not stored. Tokens bound to it must not stay valid because of a newer token.
    const api = cluster.connect({ token: await mint(stage, namespace) });
    assert.equal(await listPods(api, namespace), 200);
    assert.equal((await secrets()).length, 1);
    await freeze(stage, "freeze");
    await poll(async () => (await secrets()).length === 0, { what: "the Secret to be gone" });
  }));
