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
