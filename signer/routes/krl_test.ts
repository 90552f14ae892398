import assert from "node:assert/strict";
import { createPublicKey, verify } from "node:crypto";
import { createEnvelopeKey } from "@gateway/shared/envelope";
import { get, post, startSigner } from "../testing/memory_signer.ts";
import { sampleCluster } from "@gateway/shared/testing";
import { clustersResponse } from "@gateway/shared/wire";

const KEY = createEnvelopeKey(new Uint8Array(32).fill(5));
const KRL_CALLERS = { "web01.krl": ["web01"], "db.krl": ["db01", "db02"] };
const NEVER = "9007199254740991";

const start = (changes: object = {}, envelopeKey: typeof KEY | undefined = KEY) =>
  startSigner({ envelope_key: "seed", krl_callers: KRL_CALLERS, ...changes }, { parts: { envelopeKey } });

type Signer = Awaited<ReturnType<typeof startSigner>>;

const fetchList = (signer: Signer, query = "", cn = "web01.krl") => signer.fetch(get(`/v1/krl${query}`), cn);

/** Freezes a caller, which also revokes the broker's certificates. */
const freeze = async (signer: Signer, value = "broker-1") => (await signer.freeze("caller", value)).body;

Deno.test("GET /v1/krl returns the list, its version, and an Ed25519 signature over domain, NUL, list", async () => {
  const signer = await start();
  const response = await fetchList(signer);
  assert.equal(response.status, 200);
  assert.equal(response.headers.get("x-krl-version"), String(signer.krl.current.version));
  const list = new Uint8Array(await response.arrayBuffer());
  assert.deepEqual(list, signer.krl.current.bytes);
  const signed = new Uint8Array([...new TextEncoder().encode("gateway-krl-v1\0"), ...list]);
  const x = KEY.publicKey.toBase64({ alphabet: "base64url", omitPadding: true });
  const publicKey = createPublicKey({ format: "jwk", key: { kty: "OKP", crv: "Ed25519", x } });
  const signature = Uint8Array.fromBase64(response.headers.get("x-krl-signature") ?? "");
  assert.ok(verify(null, signed, publicKey, signature));
});

Deno.test("GET /v1/krl returns the list once a freeze revokes a certificate, and 304 after 25 s without changes", async () => {
  const signer = await start();
  const { version } = signer.krl.current;
  const { serial } = (await signer.sign({})).body;
  const waiting = fetchList(signer, `?after=${version}`);
  const { certificates_revoked, krl_version } = await freeze(signer);
  assert.deepEqual([certificates_revoked, krl_version], [1, signer.krl.current.version]);
  const news = await waiting;
  assert.equal(news.headers.get("x-krl-version"), String(krl_version));
  const list = new Uint8Array(await news.arrayBuffer());
  assert.ok(list.toHex().includes(serial?.toString(16).padStart(16, "0") ?? "none"));
  const later = fetchList(signer, `?after=${krl_version}`);
  await signer.clock.advance(25_000);
  const none = await later;
  assert.deepEqual([none.status, await none.text()], [304, ""]);
});

Deno.test("POST /v1/freeze without envelope_key returns no list version and revokes certificates", async () => {
  const signer = await startSigner();
  await signer.sign({});
  assert.deepEqual(Object.keys(await freeze(signer)), ["status", "newly_frozen", "grants_revoked"]);
  const { revoked } = await signer.krl.revoke([{ kind: "caller", value: "broker-1" }]);
  assert.equal(revoked, 0, "listed already");
});

Deno.test("a frozen forwarder's certificates are revoked for all brokers, and an unfreeze restores none", async () => {
  const signer = await start();
  await signer.sign({ on_behalf_of: "broker-1" }, "control-plane");
  assert.equal((await freeze(signer, "control-plane"))["certificates_revoked"], 1);
  const { bytes } = signer.krl.current;
  await signer.send(post("/v1/unfreeze", { kind: "caller", value: "control-plane" }), "operator");
  assert.equal(signer.krl.current.bytes, bytes);
});

Deno.test.each(["", "-1", "1.0", "1e3", "0x10", "1&after=2", "99999999999999999", "%20"])(
  "GET /v1/krl?after=%s returns 400",
  async (after) => {
    assert.equal((await fetchList(await start(), `?after=${after}`)).status, 400);
  },
);

Deno.test.each<[path: string, name: string, status: number, cn: string]>([
  ["/v1/krl", "a broker", 403, "broker-1"],
  ["/v1/krl.sig?version=1", "a broker, for the signature", 403, "broker-1"],
  ["/v1/krl", "a forwarder", 403, "control-plane"],
  ["/v1/krl", "an admin", 200, "operator"],
  ["/v1/krl/hosts", "a reader, for who else reads", 403, "web01.krl"],
  ["/v1/krl/hosts", "a broker, for who reads", 403, "broker-1"],
  ["/v1/krl/hosts", "an admin, for who reads", 200, "operator"],
  ["/v1/hosts", "a reader, for the hosts", 403, "web01.krl"],
  ["/v1/revocations", "a reader, for what is frozen", 403, "web01.krl"],
  ["/v1/krl/../hosts", "a reader, for a path that only looks like the list's", 403, "web01.krl"],
])("GET of %s by %s: status %s", async (path, _name, status, cn) => {
  const signer = await start();
  assert.equal((await signer.fetch(get(path), cn)).status, status);
});

Deno.test("a host identity gets no certificate even if callers are not restricted", async () => {
  const signer = await start({ callers: {} });
  assert.equal((await signer.sign({ host: "open01" }, "web01.krl")).status, 403);
  assert.equal((await signer.sign({ host: "db01" }, "somebody")).status, 200, "everybody else would");
});

Deno.test("a frozen reader still gets the list", async () => {
  const signer = await start();
  await freeze(signer, "web01.krl");
  assert.equal((await fetchList(signer)).status, 200);
});

Deno.test("a .krl identity that is not in krl_callers is denied as a caller", async () => {
  const signer = await start({ krl_callers: {}, callers: {} });
  assert.equal((await signer.sign({ host: "web01" }, "web02.krl")).status, 403);
  for (const path of ["/v1/hosts", "/v1/krl", "/v1/revocations"]) {
    assert.equal((await signer.send(get(path), "web02.krl")).status, 403, path);
  }
  assert.equal((await signer.send(get("/v1/hosts"), "web02.krlx")).status, 200);
});

Deno.test.each([{ name: "web01.krl" }, { name: "web02.krl" }, { name: "reader" }])(
  "$name, a host identity, is denied as a caller named by a forwarder",
  async ({ name }) => {
    const signer = await start({ krl_callers: { "web01.krl": ["web01"], reader: ["db01"] }, callers: {} });
    const asked = await signer.sign({ host: "web01", on_behalf_of: name }, "control-plane");
    assert.equal(asked.status, 403);
    const record = signer.log.entries.at(-1);
    assert.deepEqual([record?.caller, record?.outcome], [name, "denied"]);
    for (const path of ["/v1/hosts", "/v1/clusters"]) {
      const request = new Request(get(path), { headers: { "x-on-behalf-of": name } });
      assert.equal((await signer.send(request, "control-plane")).status, 403, path);
    }
    const broker = await signer.sign({ host: "web01", on_behalf_of: "broker-1" }, "control-plane");
    assert.equal(broker.status, 200);
  },
);

Deno.test("without envelope_key, the list returns 409 and the missing key", async () => {
  const signer = await startSigner({ envelope_key: "seed", krl_callers: KRL_CALLERS });
  const { status, body } = await signer.send(get("/v1/krl"), "web01.krl");
  assert.equal(status, 409);
  assert.equal(body.detail, "The revocation list is not signed: the signer has no envelope_key");
});

Deno.test("GET /v1/krl.sig returns the SSHSIG of a known version, 410 for another and 400 without one", async () => {
  const signer = await start();
  const { version } = signer.krl.current;
  const signature = await signer.fetch(get(`/v1/krl.sig?version=${version}`), "web01.krl");
  assert.match(await signature.text(), /^-----BEGIN SSH SIGNATURE-----\n/);
  await signer.sign({});
  await freeze(signer);
  assert.equal((await signer.fetch(get(`/v1/krl.sig?version=${version}`), "web01.krl")).status, 200);
  assert.equal((await signer.fetch(get(`/v1/krl.sig?version=${NEVER}`), "web01.krl")).status, 410);
  assert.equal((await signer.fetch(get("/v1/krl.sig"), "web01.krl")).status, 400);
});

Deno.test("GET /v1/krl/hosts returns the version that each reader has installed", async () => {
  const signer = await start();
  const { version } = signer.krl.current;
  const asking = fetchList(signer, `?after=${version}`);
  await fetchList(signer, `?after=0`, "operator");
  const { body } = await signer.send(get("/v1/krl/hosts"), "operator");
  const seen = { caller: "web01.krl", hosts: ["web01"], version, seen_at: "2023-11-14T22:13:20Z" };
  assert.deepEqual(body, { version, readers: [{ caller: "db.krl", hosts: ["db01", "db02"] }, seen] });
  await signer.clock.advance(25_000);
  await asking;
});

const CA = "-----BEGIN CERTIFICATE-----\n";
const EXTRA = { resource: "widgets", group: "a.example", version: "v1", kind: "Widget", namespaced: true };
const PROD = {
  ...{ groups: ["web"], token_ttl_seconds: 900, extra_resources: [EXTRA] },
  token_binding: { namespace: "gateway" },
};
const CLUSTERS = {
  clusters: {
    prod: sampleCluster(PROD),
    db: sampleCluster({ groups: ["db"] }),
    mine: sampleCluster({ groups: ["web"], allowed_callers: ["broker-1"] }),
  },
};
const WORDS = [
  "get, list, logs: any resource in namespace web",
  "apply, delete: any resource in namespace web; a human has to approve",
  "some of this is denied; denied actions are not shown",
];
const COMMON = { api_server: "https://10.0.0.5:6443", groups: ["web"], policy: WORDS };
const SEEN = {
  prod: { ...COMMON, ca_cert_pem: CA, extra_resources: [EXTRA] },
  mine: { ...COMMON, ca_cert_pem: "" },
};

const startClusters = () => startSigner({ kubernetes: CLUSTERS });

Deno.test("GET /v1/clusters returns rules only for policy=true", async () => {
  const signer = await startClusters();
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
])("GET /v1/clusters $name returns an empty object", async ({ config }) => {
  const { status, body } = await (await startSigner(config)).send(get("/v1/clusters"));
  assert.deepEqual([status, body], [200, {}]);
});

Deno.test.each<[name: string, caller: string, seen: readonly string[], headers: Record<string, string>]>([
  ["a caller in no group", "stranger", [], {}],
  ["a caller that allowed_callers lacks", "approver-broker", ["prod"], {}],
  ["the broker that a forwarder names", "control-plane", ["mine", "prod"], { "x-on-behalf-of": "broker-1" }],
  ["a forwarder as itself", "control-plane", [], { "x-on-behalf-of": "" }],
])("GET /v1/clusters returns the clusters of %s", async (_name, caller, seen, headers) => {
  const { body } = await (await startClusters()).send(get("/v1/clusters", headers), caller);
  assert.deepEqual(Object.keys(body), seen);
});

Deno.test("GET /v1/clusters returns every cluster if there is no callers table", async () => {
  const { body } = await (await startSigner({ kubernetes: CLUSTERS, callers: {} })).send(get("/v1/clusters"));
  assert.deepEqual(Object.keys(body), ["db", "mine", "prod"]);
});

Deno.test("GET /v1/clusters denies X-On-Behalf-Of from non-forwarders, and frozen callers", async () => {
  const signer = await startClusters();
  const headers = { "x-on-behalf-of": "broker-1" };
  assert.equal((await signer.send(get("/v1/clusters", headers), "approver-broker")).status, 403);
  await freeze(signer);
  const frozen = await signer.send(get("/v1/clusters"));
  assert.deepEqual([frozen.status, frozen.body.code], [403, "frozen"]);
  assert.equal((await signer.send(get("/v1/clusters", headers), "control-plane")).status, 403);
});
