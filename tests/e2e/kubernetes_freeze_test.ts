import assert from "node:assert/strict";
import type { Api } from "../kubernetes/api.ts";
import { enrolCluster, signRequest } from "../kubernetes/enrol.ts";
import { startHostile, type Treatment } from "../kubernetes/hostile.ts";
import { startCluster } from "../kubernetes/start.ts";
import { poll } from "../stage/poll.ts";
import type { Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

const RULES = [{ verbs: ["list"], resources: ["pods"], namespaces: ["<ns>"], effect: "allow" }] as const;

/** A token as the broker gets it, which shows it to nobody. */
async function mint(stage: Stage, namespace: string): Promise<string> {
  const broker = await stage.signerClient("broker");
  const { status, text, body } = await broker.request({
    method: "POST",
    path: "/v1/sign",
    body: signRequest({ verb: "list", resource: "pods", namespace }),
  });
  assert.equal(status, 200, text);
  return (body as { readonly k8s_token: string }).k8s_token;
}

async function freeze(stage: Stage, action: "freeze" | "unfreeze"): Promise<void> {
  const operator = await stage.signerClient("operator");
  const { status, text } = await operator.request({
    method: "POST",
    path: `/v1/${action}`,
    body: { kind: "caller", value: "broker-local" },
  });
  assert.equal(status, 200, text);
}

async function listPods(api: Api, namespace: string): Promise<number> {
  return (await api.ask({ path: `/api/v1/namespaces/${namespace}/pods` })).status;
}

Deno.test("a freeze takes back tokens that were issued, used or not, and those of later are good again", () =>
  withStage({}, async (stage) => {
    await using cluster = await startCluster();
    const { namespace, agent } = await enrolCluster(stage, cluster, { rules: RULES });
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
    // It remembers for 10 s which tokens were good.
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

Deno.test("a signer that is killed between Secret and token leaves nothing for ever", () =>
  withStage({}, async (stage) => {
    await using cluster = await startCluster();
    let treatment: (path: string) => Treatment = () => ({ kind: "pass" });
    await using server = await startHostile({ behind: cluster, treat: ({ path }) => treatment(path) });
    const { apiServer, caPem } = server;
    const { namespace, agent } = await enrolCluster(stage, cluster, { rules: RULES, apiServer, caPem });
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
    // Its uid was not stored: whatever is bound to it must not live on under a new token.
    const api = cluster.connect({ token: await mint(stage, namespace) });
    assert.equal(await listPods(api, namespace), 200);
    assert.equal((await secrets()).length, 1);
    await freeze(stage, "freeze");
    await poll(async () => (await secrets()).length === 0, { what: "the Secret to be gone" });
  }));
