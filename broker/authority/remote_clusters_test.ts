import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { connect, replying, ScriptedSigner } from "../testing/scripted_signer.ts";

const { signal } = new AbortController();
const options = { signal };
const tokenRequest = {
  host: "prod",
  role: "target",
  purpose: "oneshot",
  command: "get pods prod/web-1",
  target_type: "k8s",
  end_user_groups: null,
} as const;

Deno.test("RemoteAuthority.token() posts the request as it is and gives the token", async () => {
  const decision = { allowed: true, matched_rule: "allow:x", reveal: true };
  const { signer, authority } = replying(200, { k8s_token: "t", k8s_token_expiry: "x", serial: 7, decision });
  assert.deepEqual(await authority.token(tokenRequest, options), {
    kind: "issued",
    token: "t",
    serial: 7n,
    decision,
    waited: false,
  });
  assert.deepEqual(signer.requests, [{ method: "POST", path: "/v1/sign", body: tokenRequest, signal }]);
});

Deno.test.each([
  { name: "no token", body: { serial: 7, decision: { allowed: true } }, message: /returned no token$/ },
  { name: "a certificate", body: { certificate: "c", serial: 7 }, message: /returned no token$/ },
  { name: "a token without a serial", body: { k8s_token: "t" }, message: /returned no token$/ },
  { name: "an empty token", body: { k8s_token: "", serial: 7 }, message: /a token that is not one$/ },
  {
    name: "a token that would begin another header",
    body: { k8s_token: "t\r\nx: y", serial: 7 },
    message: /a token that is not one$/,
  },
  {
    name: "a denial with a token",
    body: { k8s_token: "t", serial: 7, decision: { allowed: false } },
    message: /returned a denial as an answer$/,
  },
])("RemoteAuthority.token() fails on $name", async ({ body, message }) => {
  const { authority } = replying(200, body);
  await assert.rejects(authority.token(tokenRequest, options), message);
});

Deno.test("RemoteAuthority.token() gives the decision of a dry run, and no token with it", async () => {
  const { authority } = replying(200, { decision: { allowed: true }, k8s_token: "t", serial: 7 });
  const answer = await authority.token({ ...tokenRequest, dry_run: true }, options);
  assert.deepEqual(answer, { kind: "decided", decision: { allowed: true } });
});

Deno.test("RemoteAuthority.token() waits for a human without naming a key", async () => {
  const signer = new ScriptedSigner((count) =>
    count === 0
      ? { status: 202, body: { approval_id: "id-1" }, text: "" }
      : { status: 200, body: { k8s_token: "t", serial: 7 }, text: "" }
  );
  const answer = await connect(signer, 60).token(tokenRequest, options);
  assert.deepEqual(answer, { kind: "issued", token: "t", serial: 7n, decision: undefined, waited: true });
  assert.equal(signer.requests[1]?.path, "/v1/sign/result/id-1?wait=8");
});

Deno.test("RemoteAuthority.clusters() gives the list, and the very same while it is the same", async () => {
  const cluster = { api_server: "https://10.0.0.5:6443", ca_cert_pem: "PEM" };
  const { authority } = replying(200, { prod: cluster });
  const clusters = await authority.clusters();
  assert.deepEqual(clusters, { prod: cluster });
  assert.equal(await authority.clusters(), clusters);
});

Deno.test("RemoteAuthority.clusters() has none of a signer that knows none, and refuses what is no list", async () => {
  assert.deepEqual(await replying(404, { detail: "not found" }).authority.clusters(), {});
  assert.deepEqual(await replying(200, {}).authority.clusters(), {});
  await assert.rejects(replying(200, { prod: {} }).authority.clusters(), /not a cluster list$/);
  await assert.rejects(
    replying(403, { code: "frozen", detail: "subject is frozen" }).authority.clusters(),
    (error) => error instanceof AppError && error.code === "frozen",
  );
});
