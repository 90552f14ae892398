import assert from "node:assert/strict";
import { get, HOST_KEY, startSigner } from "../testing/memory_signer.ts";

Deno.test("GET /v1/hosts shows what the caller may use and nothing of the policy", async () => {
  const { status, body } = await (await startSigner()).send(get("/v1/hosts"));
  assert.equal(status, 200);
  assert.deepEqual(body, {
    web01: { addr: "10.0.0.1:22", user: "deploy", host_key: HOST_KEY, allow_sudo: true, groups: ["web"] },
    open01: { addr: "10.0.0.2:22", user: "deploy", host_key: HOST_KEY, groups: ["web"] },
  });
});

Deno.test("GET /v1/hosts leaves out hosts whose allowed_callers lack the caller (I4)", async () => {
  const { body } = await (await startSigner()).send(get("/v1/hosts"), "approver-broker");
  assert.deepEqual(Object.keys(body), ["web01"]);
});

Deno.test("GET /v1/hosts honours X-On-Behalf-Of from a trusted forwarder alone", async () => {
  const signer = await startSigner();
  const headers = { "x-on-behalf-of": "broker-1" };
  assert.deepEqual(Object.keys((await signer.send(get("/v1/hosts", headers), "control-plane")).body), [
    "open01",
    "web01",
  ]);
  assert.equal((await signer.send(get("/v1/hosts", headers), "approver-broker")).status, 403);
  assert.deepEqual(
    (await signer.send(get("/v1/hosts"), "control-plane")).body,
    {},
    "a forwarder as itself sees its own",
  );
});

Deno.test("a caller with only_via gets neither hosts nor certificates directly, and both through its forwarder", async () => {
  const callers = {
    "broker-1": { allowed_groups: ["web"], only_via: ["control-plane"], self_approve: true },
  };
  const signer = await startSigner({ callers, trusted_forwarders: ["control-plane", "other"] });
  const headers = { "x-on-behalf-of": "broker-1" };
  const via = { on_behalf_of: "broker-1" };
  for (const dry_run of [false, true]) {
    assert.equal((await signer.sign({ dry_run, approved: true })).status, 403);
    assert.equal((await signer.sign({ ...via, dry_run }, "other")).status, 403, "another forwarder");
    assert.equal((await signer.sign({ ...via, dry_run }, "control-plane")).status, 200);
  }
  assert.equal(
    (await signer.send(get("/v1/hosts"))).body.detail,
    "direct requests not allowed for this caller",
  );
  assert.equal((await signer.send(get("/v1/hosts", headers), "other")).status, 403);
  assert.equal((await signer.send(get("/v1/hosts", headers), "control-plane")).status, 200);
  const denied = signer.log.entries.filter(({ outcome }) => outcome === "denied");
  assert.equal(denied.length, 6, "each is recorded");
});
