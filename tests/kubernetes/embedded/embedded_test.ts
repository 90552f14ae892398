import assert from "node:assert/strict";
import { Cluster } from "../cluster.ts";
import { startEmbedded } from "./embedded.ts";

/**
 * The contract covers the behavior of both servers. These are rules that the real server shows only after
 * seconds or minutes.
 */

Deno.test("a token of the embedded API server expires", async () => {
  let now = Date.parse("2026-01-01T00:00:00Z");
  await using cluster = new Cluster(await startEmbedded({ now: () => now }));
  const namespace = await cluster.createNamespace();
  const api = await cluster.connectAs(await cluster.createAccount(namespace, "agent"));
  const path = `/api/v1/namespaces/${namespace}/pods`;
  now += 599_000;
  assert.equal((await api.ask({ path })).status, 403);
  now += 1_000;
  assert.equal((await api.ask({ path })).status, 401);
});

Deno.test.each([
  { name: "the Secret that it is bound to", plural: "secrets", object: "lease" },
  { name: "its ServiceAccount", plural: "serviceaccounts", object: "agent" },
])(
  "a token of the embedded API server becomes invalid if $name is deleted, even if it is recreated",
  async ({ plural, object }) => {
    await using cluster = new Cluster(await startEmbedded());
    const namespace = await cluster.createNamespace();
    const agent = await cluster.createAccount(namespace, "agent");
    const secrets = `/api/v1/namespaces/${namespace}/secrets`;
    const lease = { apiVersion: "v1", kind: "Secret", metadata: { name: "lease" } };
    await cluster.create(secrets, lease);
    const boundObjectRef = { apiVersion: "v1", kind: "Secret", name: "lease" };
    const api = await cluster.connectAs(agent, { boundObjectRef });
    assert.equal((await api.ask({ path: secrets })).status, 403);
    await cluster.admin.must({
      method: "DELETE",
      path: `/api/v1/namespaces/${namespace}/${plural}/${object}`,
    });
    assert.equal((await api.ask({ path: secrets })).status, 401);
    await (plural === "secrets" ? cluster.create(secrets, lease) : cluster.createAccount(namespace, "agent"));
    assert.equal((await api.ask({ path: secrets })).status, 401);
  },
);

Deno.test("the embedded API server denies an administrator's certificate of another CA", async () => {
  await using cluster = new Cluster(await startEmbedded());
  await using foreign = await startEmbedded();
  const impostor = cluster.connect(foreign.admin);
  assert.equal((await impostor.ask({ path: "/api/v1/nodes" })).status, 403);
});
