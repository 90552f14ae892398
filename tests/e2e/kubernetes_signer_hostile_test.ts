import assert from "node:assert/strict";
import { enrolCluster, signRequest } from "../kubernetes/enrol.ts";
import { startHostile, type Treatment, TREATMENTS } from "../kubernetes/hostile.ts";
import { startCluster } from "../kubernetes/start.ts";
import { withStage } from "../stage/with_stage.ts";

const MINTING = /^minting token for gateway-\w+\/agent on "prod": /;

/** What a signer tells of an API server that does not make a token: 403 where that refuses, else 502. */
const REFUSALS = {
  "closes without an answer": [502, /could not reach the API server$/],
  "closes in the body": [502, /could not reach the API server$/],
  "resets": [502, /could not reach the API server$/],
  "resets in a chunk": [502, /could not reach the API server$/],
  "speaks no HTTP": [502, /could not reach the API server$/],
  "has two lengths": [502, /could not reach the API server$/],
  "has a head without end": [502, /could not reach the API server$/],
  "sends no JSON": [502, /the API server's answer is not JSON$/],
  "sends nothing": [502, /the API server's answer is not JSON$/],
  "sends HTML": [502, /the API server's answer is not JSON$/],
  "sends HTML with a 502": [502, /: 502$/],
  "fails": [502, /: 500 etcdserver: request timed out, \[address\]$/],
  "knows no such credential": [403, /the API server refuses the credential in token_file; renew it$/],
  "forbids": [403, /: 403 pods is forbidden: User .* cannot list resource/],
  "is busy": [502, /: 429$/],
  "sends elsewhere": [502, /: 307$/],
  "floods": [502, /the API server's answer is too large$/],
} as const satisfies Partial<Record<keyof typeof TREATMENTS, readonly [number, RegExp]>>;

Deno.test("a signer makes no token of what is none, tells no address, and asks once", () =>
  withStage({}, async (stage) => {
    await using cluster = await startCluster("embedded");
    let treatment: Treatment = { kind: "pass" };
    await using server = await startHostile({ behind: cluster, treat: () => treatment });
    const { apiServer, caPem } = server;
    const { namespace } = await enrolCluster(stage, cluster, {
      apiServer,
      caPem,
      bindTokens: false,
      rules: [{ verbs: ["list"], resources: ["pods"], effect: "allow" }],
    });
    await stage.startSigner();
    const broker = await stage.signerClient("broker");
    const sign = async () => {
      const before = server.requests.length;
      const { status, text, body } = await broker.request({
        method: "POST",
        path: "/v1/sign",
        body: signRequest({ verb: "list", resource: "pods", namespace }),
      });
      return { status, text, body: body as Record<string, string>, asked: server.requests.length - before };
    };
    const { status, body, text } = await sign();
    assert.equal(status, 200, text);
    assert.ok(body.k8s_token);

    const log = await Deno.readTextFile(stage.init.signer_audit_log);
    for (const [name, [status, says]] of Object.entries(REFUSALS)) {
      treatment = TREATMENTS[name as keyof typeof REFUSALS];
      const refused = await sign();
      assert.equal(refused.status, status, `${name}: ${refused.text}`);
      assert.match(refused.body.detail ?? "", MINTING, name);
      assert.match(refused.body.detail ?? "", says, name);
      assert.doesNotMatch(refused.text, /127\.0\.0\.1|10\.0\.0\.7|proxy\.example|k8s_token/, name);
      assert.equal(refused.asked, 1, name);
    }
    const records = (await Deno.readTextFile(stage.init.signer_audit_log)).slice(log.length).trim().split(
      "\n",
    );
    assert.deepEqual(
      records.map((line) => JSON.parse(line).outcome),
      Object.keys(REFUSALS).map(() => "denied"),
    );

    treatment = { kind: "pass" };
    assert.equal((await sign()).status, 200);
  }));

Deno.test("a signer shows its credential to no API server whose certificate is wrong", () =>
  withStage({}, async (stage) => {
    await using cluster = await startCluster("embedded");
    await using server = await startHostile({
      certificate: "foreign CA",
      treat: () => TREATMENTS["sends nothing"],
    });
    const { apiServer, caPem } = server;
    const rules = [{ verbs: ["list"], resources: ["nodes"], effect: "allow" }] as const;
    await enrolCluster(stage, cluster, { apiServer, caPem, rules });
    await stage.startSigner();
    const broker = await stage.signerClient("broker");
    const { status, body } = await broker.request({
      method: "POST",
      path: "/v1/sign",
      body: signRequest({ verb: "list", resource: "nodes" }),
    });
    assert.equal(status, 502);
    assert.match(
      (body as Record<string, string>).detail ?? "",
      /: the API server's certificate does not come from ca_cert$/,
    );
    assert.deepEqual(server.requests, []);
  }));
