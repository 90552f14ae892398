import assert from "node:assert/strict";
import type { ClusterRule } from "@gateway/shared/policy";
import { type SignResponse, signResponse } from "@gateway/shared/wire";
import { poll } from "../stage/poll.ts";
import { post, Stage } from "../stage/stage.ts";
import { enrollCluster, type EnrolledCluster, signRequest } from "./enroll.ts";
import { availableKinds, startCluster } from "./start.ts";

const KINDS = availableKinds().map((kind) => ({ kind }));
const RULES: readonly ClusterRule[] = [
  { verbs: ["get", "list"], namespaces: ["<ns>"], resources: ["configmaps", "secrets"], effect: "allow" },
  {
    verbs: ["apply"],
    resources: ["configmaps", "secrets"],
    namespaces: ["<ns>"],
    effect: "require_approval",
  },
];
/** Servers cache a valid token for 10 s. */
const CACHED_MS = 10_000;

type Action = Parameters<typeof signRequest>[0];

class Scene implements AsyncDisposable {
  readonly stage: Stage;
  readonly enrolled: EnrolledCluster;
  readonly #resources: AsyncDisposableStack;

  private constructor(stage: Stage, enrolled: EnrolledCluster, resources: AsyncDisposableStack) {
    this.stage = stage;
    this.enrolled = enrolled;
    this.#resources = resources;
  }

  static async start(kind: "real" | "embedded"): Promise<Scene> {
    await using resources = new AsyncDisposableStack();
    const dir = await Deno.makeTempDir({ prefix: "k8s-signer-" });
    resources.defer(() => Deno.remove(dir, { recursive: true }));
    const cluster = resources.use(await startCluster(kind));
    const stage = resources.use(await Stage.create({ dir, targetKind: "embedded" }));
    const enrolled = await enrollCluster(stage, cluster, { rules: RULES });
    return new Scene(stage, enrolled, resources.move());
  }

  path(resource: string, name = ""): string {
    return `/api/v1/namespaces/${this.enrolled.namespace}/${resource}${name === "" ? "" : `/${name}`}`;
  }

  async sign(
    action: Action,
    changes: Readonly<Record<string, unknown>> = {},
    identity: "broker" | "control_plane_client" = "broker",
  ): Promise<{ readonly status: number; readonly body: SignResponse; readonly text: string }> {
    const client = await this.stage.signerClient(identity);
    const body = { ...signRequest({ namespace: this.enrolled.namespace, ...action }) as object, ...changes };
    const answer = await post(client, "/v1/sign", body);
    return {
      status: answer.status,
      text: answer.text,
      body: answer.status === 200 ? signResponse.parse(answer.body) : {},
    };
  }

  async freeze(kind: string, value: string): Promise<void> {
    const operator = await this.stage.signerClient("operator");
    const { status, text } = await post(operator, "/v1/freeze", { kind, value });
    assert.equal(status, 200, text);
  }

  /** The Secrets that tokens are bound to. */
  async leases(): Promise<readonly string[]> {
    const { cluster, minter } = this.enrolled;
    const list = await cluster.admin.must({ path: `/api/v1/namespaces/${minter.namespace}/secrets` });
    return (list["items"] as readonly { metadata: { name: string } }[]).map(({ metadata }) => metadata.name);
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#resources.disposeAsync();
  }
}

const GET: Action = { verb: "get", resource: "configmaps", name: "shop" };
const APPLY: Action = { verb: "apply", resource: "configmaps", name: "shop" };
const configMap = (data: Readonly<Record<string, string>>) => ({
  apiVersion: "v1",
  kind: "ConfigMap",
  metadata: { name: "shop" },
  data,
});

// The embedded server has no cache, so the delay occurs only on the real server.
Deno.test.each(KINDS.slice(0, 1))(
  "an agent's token has the rights of its account until a freeze of its end user ($kind)",
  async ({ kind }) => {
    await using scene = await Scene.start(kind);
    const { cluster } = scene.enrolled;
    await cluster.admin.must({ method: "POST", path: scene.path("configmaps"), body: configMap({ a: "1" }) });
    await scene.stage.startSigner();
    const { status, body, text } = await scene.sign(GET);
    assert.equal(status, 200, text);
    const minutes = (Date.parse(body.k8s_token_expiry ?? "") - Date.now()) / 60_000;
    assert.ok(minutes > 9 && minutes < 11, `${body.k8s_token_expiry}`);
    const agent = cluster.connect({ token: body.k8s_token ?? "" });
    assert.equal((await agent.ask({ path: scene.path("configmaps", "shop") })).status, 200);
    assert.equal((await agent.ask({ path: scene.path("pods") })).status, 403, "beyond the account's rights");
    const bob = await scene.sign(GET, { end_user: "bob" });
    const other = cluster.connect({ token: bob.body.k8s_token ?? "" });
    assert.equal((await scene.leases()).length, 2);

    const frozenAt = performance.now();
    await scene.freeze("end_user", "test");
    await poll(async () => (await agent.ask({ path: scene.path("configmaps", "shop") })).status === 401, {
      what: "the API server to refuse the token",
      intervalMs: 100,
    });
    const seconds = (performance.now() - frozenAt) / 1000;
    const told = `from the freeze to 401 on the ${kind} server: ${seconds.toFixed(1)} s\n`;
    Deno.stdout.writeSync(new TextEncoder().encode(told));
    // The lifetime of the cache, plus the same time for a busy machine.
    assert.ok(seconds * 1000 < 2 * CACHED_MS, `${seconds} s`);
    assert.equal(
      (await other.ask({ path: scene.path("configmaps", "shop") })).status,
      200,
      "bob is not frozen",
    );
    assert.equal((await scene.leases()).length, 1);
    assert.equal((await scene.sign(GET)).status, 403);
  },
);

Deno.test.each(KINDS)(
  "an approver sees the changes of an apply but no values of a Secret ($kind)",
  async ({ kind }) => {
    await using scene = await Scene.start(kind);
    const { cluster } = scene.enrolled;
    await scene.stage.startSigner();
    const ask = async (
      manifest: unknown,
      changes: Readonly<Record<string, unknown>> = {},
      action = APPLY,
    ) => {
      const forwarded = { on_behalf_of: "broker-local", k8s_manifest: JSON.stringify(manifest), ...changes };
      const answer = await scene.sign(action, forwarded, "control_plane_client");
      assert.equal(answer.status, 200, answer.text);
      return answer.body;
    };
    const fresh = await ask(configMap({ a: "1" }));
    assert.deepEqual([fresh.k8s_diff, fresh.k8s_token, fresh.decision?.require_approval], [
      { kind: "created" },
      undefined,
      true,
    ]);
    const { k8s_token: token = "" } = await ask(configMap({ a: "1" }), { approved: true });
    const apply = (manifest: unknown) =>
      cluster.connect({ token }).ask({
        method: "PATCH",
        path: `${scene.path("configmaps", "shop")}?fieldManager=gateway`,
        body: manifest,
      });
    assert.equal((await apply(configMap({ a: "1" }))).status, 201);
    assert.deepEqual((await ask(configMap({ a: "1" }))).k8s_diff, { kind: "unchanged" });
    assert.deepEqual((await ask(configMap({ a: "2", b: "3" }))).k8s_diff, {
      kind: "changed",
      changes: [{ path: "data.a", before: '"1"', after: '"2"' }, { path: "data.b", after: '"3"' }],
    });
    const current = await cluster.admin.must({ path: scene.path("configmaps", "shop") });
    assert.deepEqual(current["data"], { a: "1" }, "looking has no effect");
    // Another manager owns a field: the agent gets an error, and no approver is asked.
    await cluster.apply({
      ...configMap({ a: "7" }),
      metadata: { name: "shop", namespace: scene.enrolled.namespace },
    });
    const manifest = { on_behalf_of: "broker-local", k8s_manifest: JSON.stringify(configMap({ a: "2" })) };
    const conflict = await scene.sign(APPLY, manifest, "control_plane_client");
    assert.equal(conflict.status, 400, conflict.text);
    assert.match(
      conflict.text,
      /409 Apply failed with 1 conflict: conflict with .*admin.*: \.data\.a; force_fields: \[.*\.data\.a/,
    );
    const forced = await ask(configMap({ a: "2" }), { k8s_force_fields: [".data.a"] });
    assert.deepEqual([forced.k8s_diff, forced.decision?.require_approval, forced.decision?.force], [
      { kind: "changed", changes: [{ path: "data.a", before: '"7"', after: '"2"' }] },
      true,
      true,
    ]);
    const wrong = (await ask({ ...configMap({}), metadata: { name: "other" } })).k8s_diff;
    assert.equal(wrong?.kind, "unknown");
    assert.match(wrong?.reason ?? "", /^the apply would fail: 400 /);

    const secret = (password: string) => ({
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: "db" },
      data: { password: btoa(password) },
    });
    await cluster.admin.must({
      method: "PATCH",
      path: `${scene.path("secrets", "db")}?fieldManager=gateway`,
      body: secret("hunter2"),
    });
    const masked = await ask(secret("hunter3"), {}, { verb: "apply", resource: "secrets", name: "db" });
    assert.deepEqual(masked.k8s_diff, {
      kind: "changed",
      changes: [{ path: "data.password", before: '"[masked: 7 bytes]"', after: '"[masked: 7 bytes]"' }],
    });
  },
);
