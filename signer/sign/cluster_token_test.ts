import assert from "node:assert/strict";
import type { ApiAnswer } from "@gateway/shared/kubernetes";
import { answered, EXPIRY, startClusterSigner, TOKEN } from "../testing/cluster_scene.ts";

const GET = "get pods web/web-1";

Deno.test.each<{ name: string; reply: ApiAnswer; status: number; detail: RegExp }>([
  {
    name: "401",
    reply: answered(401, { kind: "Status", message: "Unauthorized" }),
    status: 403,
    detail: /: the API server refuses the credential in token_file; renew it$/,
  },
  {
    name: "403",
    reply: answered(403, { kind: "Status", message: 'serviceaccounts "agent" is forbidden: no create' }),
    status: 403,
    detail: /: 403 serviceaccounts "agent" is forbidden: no create$/,
  },
  {
    name: "a message with addresses and controls",
    reply: answered(422, {
      kind: "Status",
      message: "webhook https://10.1.2.3:443/x at 10.1.2.3:443, [::1]:8443\x1b",
    }),
    status: 403,
    detail: /: 422 webhook \[address\] at \[address\], \[address\]\\x1b$/,
  },
  { name: "500 in HTML", reply: answered(500, "<h1>10.1.2.3</h1>"), status: 502, detail: /: 500$/ },
  { name: "429", reply: answered(429, ""), status: 502, detail: /: 429$/ },
  { name: "a redirect", reply: answered(302, ""), status: 502, detail: /: 302$/ },
  { name: "HTML", reply: answered(200, "<h1>"), status: 502, detail: /answer is not JSON$/ },
  { name: "no token", reply: answered(200, { status: {} }), status: 502, detail: /there is no token/ },
  {
    name: "an empty token",
    reply: answered(201, { status: { token: "", expirationTimestamp: EXPIRY } }),
    status: 502,
    detail: /there is no token/,
  },
  {
    name: "a token of two lines",
    reply: answered(201, { status: { token: "a\r\nb", expirationTimestamp: EXPIRY } }),
    status: 502,
    detail: /there is no token/,
  },
  {
    name: "an expiry that is no time",
    reply: answered(201, { status: { token: TOKEN, expirationTimestamp: "soon" } }),
    status: 502,
    detail: /there is no token/,
  },
  { name: "nothing in time", reply: { kind: "timed_out" }, status: 502, detail: /did not answer in time$/ },
  { name: "too much", reply: { kind: "too_large" }, status: 502, detail: /answer is too large$/ },
  {
    name: "no connection",
    reply: { kind: "unreachable", cause: new Error("connect ECONNREFUSED 10.0.0.5:6443") },
    status: 502,
    detail: /: could not reach the API server$/,
  },
  {
    name: "a foreign certificate",
    reply: { kind: "untrusted", cause: new Error("x") },
    status: 502,
    detail: /certificate does not come from ca_cert$/,
  },
  {
    name: "no credential of our own",
    reply: { kind: "no_credential", cause: new Error("/etc/gateway/x: no such file") },
    status: 502,
    detail: /: the signer can't read its token_file$/,
  },
])("a token that the API server answers with $name for is refused, named and recorded", async (row) => {
  const signer = await startClusterSigner({ reply: () => row.reply });
  const { status, body } = await signer.act(GET);
  assert.equal(status, row.status);
  assert.match(String(body.detail), row.detail);
  assert.match(String(body.detail), /^minting token for gateway\/agent on "prod": /);
  assert.deepEqual(signer.log.entries.map(({ outcome, err }) => [outcome, err]), [["denied", body.detail]]);
});

Deno.test("a token without an id is issued, and its record has none", async () => {
  const reply = () => answered(201, { status: { token: "opaque", expirationTimestamp: EXPIRY } });
  const signer = await startClusterSigner({ reply });
  assert.equal((await signer.act(GET)).body["k8s_token"], "opaque");
  assert.doesNotMatch(String(signer.log.entries[0]?.command), /jti/);
});
