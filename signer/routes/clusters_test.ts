import assert from "node:assert/strict";
import { sampleCluster } from "@gateway/shared/testing";
import { clustersResponse } from "@gateway/shared/wire";
import { get, post, startSigner } from "../testing/memory_signer.ts";

const CA = "-----BEGIN CERTIFICATE-----\n";
const EXTRA = { resource: "widgets", group: "a.example", version: "v1", kind: "Widget", namespaced: true };
const CLUSTERS = {
  clusters: {
    prod: sampleCluster({
      groups: ["web"],
      token_ttl_seconds: 900,
      extra_resources: [EXTRA],
      token_binding: { namespace: "gateway" },
    }),
    db: sampleCluster({ groups: ["db"] }),
    mine: sampleCluster({ groups: ["web"], allowed_callers: ["broker-1"] }),
  },
};
const WORDS = [
  "get, list, logs: any resource in namespace web",
  "apply, delete: any resource in namespace web; a human has to approve",
  "some of this is denied; denied actions are not shown",
];
const SEEN = {
  prod: {
    api_server: "https://10.0.0.5:6443",
    ca_cert_pem: CA,
    groups: ["web"],
    extra_resources: [EXTRA],
    policy: WORDS,
  },
  mine: { api_server: "https://10.0.0.5:6443", ca_cert_pem: "", groups: ["web"], policy: WORDS },
};

const start = () => startSigner({ kubernetes: CLUSTERS });

Deno.test("GET /v1/clusters shows nothing of the rules unless policy=true requests them in words", async () => {
  const signer = await start();
  const { body: plain } = await signer.send(get("/v1/clusters"));
  const withoutRules = Object.entries(SEEN).map(([name, { policy: _, ...info }]) => [name, info]);
  assert.deepEqual(plain, Object.fromEntries(withoutRules));
  const { status, body } = await signer.send(get("/v1/clusters?policy=true"));
  assert.equal(status, 200);
  assert.deepEqual(body, SEEN);
  clustersResponse.parse(body);
});

Deno.test.each<{ name: string; config: Record<string, unknown> }>([
  { name: "without kubernetes", config: {} },
  { name: "without clusters", config: { kubernetes: {} } },
])("GET /v1/clusters $name is an empty object", async ({ config }) => {
  const { status, body } = await (await startSigner(config)).send(get("/v1/clusters"));
  assert.deepEqual([status, body], [200, {}]);
});

Deno.test.each<[name: string, caller: string, seen: readonly string[], more: { onBehalfOf?: string }]>([
  ["a caller in no group", "stranger", [], {}],
  ["a caller that allowed_callers lacks", "approver-broker", ["prod"], {}],
  ["the broker that a forwarder names", "control-plane", ["mine", "prod"], { onBehalfOf: "broker-1" }],
  ["a forwarder as itself", "control-plane", [], { onBehalfOf: "" }],
])("GET /v1/clusters is that of %s", async (_name, caller, seen, { onBehalfOf }) => {
  const headers: Record<string, string> = onBehalfOf === undefined ? {} : { "x-on-behalf-of": onBehalfOf };
  const { body } = await (await start()).send(get("/v1/clusters", headers), caller);
  assert.deepEqual(Object.keys(body), seen);
});

Deno.test("GET /v1/clusters shows every cluster where there is no callers table", async () => {
  const { body } = await (await startSigner({ kubernetes: CLUSTERS, callers: {} })).send(get("/v1/clusters"));
  assert.deepEqual(Object.keys(body), ["db", "mine", "prod"]);
});

Deno.test("GET /v1/clusters refuses an X-On-Behalf-Of from others, and who is frozen", async () => {
  const signer = await start();
  const headers = { "x-on-behalf-of": "broker-1" };
  assert.equal((await signer.send(get("/v1/clusters", headers), "approver-broker")).status, 403);
  const freeze = { kind: "caller", value: "broker-1", allow_volatile: true };
  assert.equal((await signer.send(post("/v1/freeze", freeze), "operator")).status, 200);
  const frozen = await signer.send(get("/v1/clusters"));
  assert.deepEqual([frozen.status, frozen.body.code], [403, "frozen"]);
  assert.equal((await signer.send(get("/v1/clusters", headers), "control-plane")).status, 403);
});
