import assert from "node:assert/strict";
import { failingStore, memoryStore } from "../testing/failing_store.ts";
import { answered } from "../testing/cluster_scene.ts";
import { FakeSecrets, startLeaseSigner } from "../testing/lease_scene.ts";
import { DISTINCT, post, snapshotOf } from "../testing/memory_signer.ts";
import { leaseName } from "./token_leases.ts";

const PLACE = { cluster: "prod", namespace: "gateway" };
const ALICE = leaseName(PLACE, { caller: "broker-1", endUser: "alice" });
const BOB = leaseName(PLACE, { caller: "broker-1", endUser: "bob" });
const VIA = { on_behalf_of: "broker-1" };

/** Runs all continuations that are ready. */
const settle = () => new Promise<void>((resolve) => setImmediate(resolve));

Deno.test("a token is bound to a Secret of its holder, which is created once", async () => {
  const signer = await startLeaseSigner();
  assert.equal((await signer.get("alice")).status, 200);
  assert.deepEqual(signer.asked.map(({ method, path, body }) => [method, path, body]), [
    ["POST", "/api/v1/namespaces/gateway/secrets", {
      apiVersion: "v1",
      kind: "Secret",
      metadata: { name: ALICE, labels: { "app.kubernetes.io/managed-by": "gateway" } },
      type: "Opaque",
      immutable: true,
    }],
    ["POST", "/api/v1/namespaces/gateway/serviceaccounts/agent/token", {
      apiVersion: "authentication.k8s.io/v1",
      kind: "TokenRequest",
      spec: {
        expirationSeconds: 600,
        boundObjectRef: { apiVersion: "v1", kind: "Secret", name: ALICE, uid: "uid-1" },
      },
    }],
  ]);
  signer.requests();
  await signer.get("alice");
  assert.deepEqual(signer.requests(), ["POST serviceaccounts"]);
  await Promise.all([signer.get("bob"), signer.get("bob"), signer.get("bob")]);
  assert.deepEqual([...signer.secrets.uids.keys()], [ALICE, BOB]);
});

Deno.test.each<{ name: string; kind: string; value: string; left: readonly string[] }>([
  { name: "the end user", kind: "end_user", value: "Alice", left: [BOB] },
  { name: "the caller", kind: "caller", value: "broker-1", left: [] },
  { name: "the forwarder", kind: "caller", value: "control-plane", left: [BOB] },
  { name: "another end user", kind: "end_user", value: "eve", left: [ALICE, BOB] },
])("a freeze of $name deletes only the Secrets of its tokens", async ({ kind, value, left }) => {
  const signer = await startLeaseSigner();
  await signer.get("alice", VIA, "control-plane");
  await signer.get("bob");
  await signer.freeze(kind, value);
  await settle();
  assert.deepEqual([...signer.secrets.uids.keys()], left);
});

Deno.test("a freeze of a serial revokes all tokens of its holder, who can request a new token", async () => {
  const signer = await startLeaseSigner({ randomBytes: DISTINCT });
  const { body } = await signer.get("alice");
  assert.equal((await signer.freeze("serial", "12345")).body["tokens_revoked"], 0);
  await settle();
  assert.equal(signer.secrets.uids.get(ALICE), "uid-1");
  await signer.get("alice");
  const frozen = await signer.freeze("serial", String(body.serial));
  assert.equal(frozen.body["tokens_revoked"], 2, "both tokens of the holder");
  await settle();
  assert.deepEqual([...signer.secrets.uids.keys()], []);
  assert.equal((await signer.get("alice")).status, 200);
  assert.equal(signer.secrets.uids.get(ALICE), "uid-2");
});

Deno.test("a freeze of an unknown serial revokes all tokens of earlier processes and no newer tokens", async () => {
  const store = memoryStore();
  const secrets = new FakeSecrets();
  await (await startLeaseSigner({ store, secrets })).get("alice");
  const next = await startLeaseSigner({ store, secrets, randomBytes: DISTINCT });
  const { body } = await next.get("bob");
  await next.freeze("serial", String(body.serial));
  await settle();
  assert.deepEqual([...secrets.uids.keys()], [ALICE], "a serial that is known stands for itself");
  await next.get("bob");
  await next.freeze("serial", "12345");
  await settle();
  assert.deepEqual([...secrets.uids.keys()], [BOB]);
  await next.get("alice");
  await next.freeze("serial", "12345");
  await settle();
  assert.deepEqual([...secrets.uids.keys()], [BOB, ALICE], "what was made since has serials that are known");
});

Deno.test("a freeze of an unknown serial revokes no token once earlier tokens have expired", async () => {
  const store = memoryStore();
  const secrets = new FakeSecrets();
  await (await startLeaseSigner({ store, secrets })).get("alice");
  const next = await startLeaseSigner({ store, secrets });
  for (let minute = 0; minute < 30; minute++) {
    await next.get("alice");
    await next.clock.advance(60_000);
    await next.leases.sweep();
  }
  await next.freeze("serial", "12345");
  await settle();
  assert.deepEqual([...secrets.uids.keys()], [ALICE]);
});

Deno.test("a freeze during an API server outage succeeds, and the Secret is deleted later", async () => {
  const signer = await startLeaseSigner();
  await signer.get("alice");
  signer.secrets.outage = { kind: "unreachable", cause: "down" };
  await signer.freeze("end_user", "alice");
  await settle();
  assert.deepEqual([...signer.secrets.uids.keys()], [ALICE]);
  signer.secrets.outage = undefined;
  await signer.leases.sweep();
  assert.deepEqual([...signer.secrets.uids.keys()], []);
  signer.requests();
  await signer.leases.sweep();
  assert.deepEqual(signer.requests(), [], "and is then forgotten");
});

Deno.test("a late deletion does not remove a newer Secret of the same subject", async () => {
  const signer = await startLeaseSigner();
  await signer.get("alice");
  signer.secrets.outage = { kind: "timed_out" };
  await signer.freeze("end_user", "alice");
  await settle();
  signer.secrets.outage = undefined;
  await signer.send(post("/v1/unfreeze", { kind: "end_user", value: "alice" }), "operator");
  assert.equal((await signer.get("alice")).status, 200);
  assert.equal(signer.secrets.uids.get(ALICE), "uid-2", "what was frozen is gone, and a new one is there");
  await signer.leases.sweep();
  assert.equal(signer.secrets.uids.get(ALICE), "uid-2");
});

Deno.test("a Secret that was recreated under the same name is not deleted", async () => {
  const signer = await startLeaseSigner();
  await signer.get("alice");
  signer.secrets.uids.set(ALICE, "another");
  await signer.freeze("end_user", "alice");
  await settle();
  assert.equal(signer.secrets.uids.get(ALICE), "another");
  signer.requests();
  await signer.leases.sweep();
  assert.deepEqual(signer.requests(), [], "ours is gone, and forgotten");
});

Deno.test("a freeze during the creation of a Secret deletes it, and no token is returned", async () => {
  const signer = await startLeaseSigner();
  const { promise, resolve } = Promise.withResolvers<void>();
  signer.secrets.held.set("POST secrets", promise);
  const asked = signer.get("alice");
  await settle();
  await signer.freeze("end_user", "alice");
  resolve();
  assert.equal((await asked).status, 403);
  await signer.leases.sweep();
  await settle();
  assert.deepEqual([...signer.secrets.uids.keys()], []);
});

Deno.test("a freeze of a serial takes effect while the store extends the lease of its Secret", async () => {
  const store = failingStore();
  const signer = await startLeaseSigner({ store, randomBytes: DISTINCT });
  const { body: { serial } } = await signer.get("alice");
  await signer.clock.advance(601_000);
  const { promise, resolve } = Promise.withResolvers<void>();
  store.held.set("putLease", promise);
  const asked = signer.get("alice");
  await settle();
  const frozen = signer.freeze("serial", String(serial));
  await settle();
  resolve();
  await Promise.all([asked, frozen]);
  await settle();
  assert.notEqual(signer.secrets.uids.get(ALICE), "uid-1");
});

Deno.test("an existing Secret of the same name is replaced before a token is issued", async () => {
  const signer = await startLeaseSigner();
  signer.secrets.uids.set(ALICE, "old");
  assert.equal((await signer.get("alice")).status, 200);
  const requests = ["POST secrets", "DELETE secrets", "POST secrets", "POST serviceaccounts"];
  assert.deepEqual(signer.requests(), requests);
});

Deno.test("a Secret that was deleted or replaced is created again", async () => {
  const signer = await startLeaseSigner();
  await signer.get("alice");
  for (const uid of [undefined, "another"]) {
    if (uid === undefined) signer.secrets.uids.delete(ALICE);
    else signer.secrets.uids.set(ALICE, uid);
    assert.equal((await signer.get("alice")).status, 200);
  }
});

Deno.test("a missing ServiceAccount is reported after one retry", async () => {
  const secrets = new FakeSecrets();
  const signer = await startLeaseSigner({ secrets });
  await signer.get("alice");
  secrets.outage = answered(404, { kind: "Status", message: "no agent" });
  const { status, body } = await signer.get("alice");
  assert.deepEqual([status, body.detail], [403, 'minting token for gateway/agent on "prod": 404 no agent']);
});

Deno.test("a Secret of a killed process is swept by the next process after its lease expired", async () => {
  const store = memoryStore();
  const killed = await startLeaseSigner({ store });
  // Killed between Secret and token, so the UID was never stored.
  killed.secrets.held.set("POST serviceaccounts", new Promise(() => {}));
  void killed.get("alice");
  await settle();
  assert.deepEqual([...killed.secrets.uids.keys()], [ALICE]);
  const [kept] = await store.loadLeases();
  assert.ok(kept);
  for (const uid of [kept.uid, ""]) {
    await store.putLease({ ...kept, uid });
    const secrets = new FakeSecrets();
    secrets.uids.set(ALICE, "uid-1");
    const next = await startLeaseSigner({ store, secrets });
    await next.leases.sweep();
    assert.deepEqual([...secrets.uids.keys()], [ALICE], "a token may be in use");
    await next.clock.advance(1_200_000);
    await next.leases.sweep();
    assert.deepEqual([...secrets.uids.keys()], []);
    assert.deepEqual(await store.loadLeases(), []);
  }
});

Deno.test("a Secret in use is not swept, and one lease write is enough for ten minutes", async () => {
  const store = failingStore();
  const signer = await startLeaseSigner({ store });
  for (let minute = 0; minute < 30; minute++) {
    assert.equal((await signer.get("alice")).status, 200);
    await signer.clock.advance(60_000);
    await signer.leases.sweep();
    assert.equal(signer.secrets.uids.get(ALICE), "uid-1");
  }
  assert.equal(store.calls.filter((call) => call === "putLease").length, 4);
});

Deno.test("a freeze deletes a Secret after a restart if the deletion was not completed", async () => {
  const store = memoryStore();
  const secrets = new FakeSecrets();
  const signer = await startLeaseSigner({ store, secrets });
  await signer.get("alice");
  const [lease] = await store.loadLeases();
  assert.ok(lease);
  secrets.outage = { kind: "timed_out" };
  await signer.freeze("end_user", "alice");
  await settle();
  secrets.outage = undefined;
  // As if the process had been killed before it could store that.
  await store.putLease(lease);
  const next = await startLeaseSigner({ store, secrets });
  await next.leases.sweep();
  assert.deepEqual([...secrets.uids.keys()], []);
});

Deno.test("without a stored lease, neither a Secret nor a token is created", async () => {
  const store = failingStore();
  store.failing.add("putLease");
  const signer = await startLeaseSigner({ store });
  const { status, body } = await signer.get("alice");
  assert.deepEqual([status, body["k8s_token"]], [500, undefined]);
  assert.deepEqual(signer.requests(), []);
});

Deno.test("a freeze deletes the Secret even if the store write fails", async () => {
  const store = failingStore();
  const signer = await startLeaseSigner({ store });
  await signer.get("alice");
  store.failing.add("putLease").add("deleteLease");
  await signer.freeze("end_user", "alice");
  await settle();
  assert.deepEqual([...signer.secrets.uids.keys()], []);
});

Deno.test("a cluster that is removed from the config leaves no Secrets", async () => {
  const signer = await startLeaseSigner();
  await signer.get("alice");
  const { kubernetes: _, ...config } = signer.state.current.config;
  signer.setNext(() => Promise.resolve(snapshotOf(config)));
  await signer.state.reload("operator");
  assert.equal((await signer.get("alice")).status, 403);
  await signer.leases.sweep();
  assert.deepEqual([...signer.secrets.uids.keys()], []);
});

Deno.test("a binding in another namespace uses its own Secrets, and the old Secrets are swept", async () => {
  const signer = await startLeaseSigner();
  await signer.get("alice");
  const { config } = signer.state.current;
  const cluster = config.kubernetes?.clusters["prod"];
  assert.ok(cluster);
  const moved = {
    ...cluster,
    sa_bindings: [{ namespace: "elsewhere", service_account: "agent" }],
    token_binding: { namespace: "elsewhere" },
  };
  signer.setNext(() => Promise.resolve(snapshotOf({ ...config, kubernetes: { clusters: { prod: moved } } })));
  await signer.state.reload("operator");
  assert.equal((await signer.get("alice")).status, 200);
  assert.equal(signer.secrets.uids.size, 2);
  await signer.clock.advance(1_200_000);
  await signer.leases.sweep();
  assert.equal(signer.secrets.uids.size, 0);
  const deletions = signer.asked.filter(({ method }) => method === "DELETE");
  assert.deepEqual(deletions.map(({ path }) => path.split("/")[4]), ["gateway", "elsewhere"]);
});

Deno.test("a caller that invents end users can create at most 1,000 Secrets", async () => {
  const signer = await startLeaseSigner();
  for (let n = 0; n < 1_000; n++) assert.equal((await signer.get(`user-${n}`)).status, 200);
  const { status, body } = await signer.get("one-more");
  assert.deepEqual([status, body.detail], [429, "tokens of 1000 end users of this caller are in use"]);
  assert.equal((await signer.get("user-1")).status, 200);
});

Deno.test("a missing permission to create Secrets is reported", async () => {
  const secrets = new FakeSecrets();
  const message = "secrets is forbidden: cannot create";
  secrets.outage = answered(403, { kind: "Status", message });
  const signer = await startLeaseSigner({ secrets });
  const { status, body } = await signer.get("alice");
  assert.deepEqual([status, body.detail], [403, `minting token for gateway/agent on "prod": 403 ${message}`]);
});
