import assert from "node:assert/strict";
import { createIssuerKey, createTokenIssuer, type IssuerKey } from "@gateway/shared/testing";
import { signBody } from "../bench/sign_request.ts";
import { poll } from "../stage/poll.ts";
import { signerCommand } from "../stage/service_command.ts";
import { ServiceProcess } from "../stage/service_process.ts";
import { HOST, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

const AUDIENCE = "https://mcp.example";

/** An OpenID provider over HTTP on loopback. */
function startProvider(keys: readonly IssuerKey[]) {
  let answer: (request: Request) => Response | Promise<Response> = () => new Response();
  const options = { hostname: "127.0.0.1", port: 0, onListen: () => {} };
  const server = Deno.serve(options, (request) => answer(request));
  const provider = createTokenIssuer(`http://127.0.0.1:${server.addr.port}/realm`, keys);
  answer = (request) => provider.fetch(request);
  const token = (key: IssuerKey, claims: object = {}) => {
    const exp = Math.floor(Date.now() / 1000) + 600;
    return provider.sign({ iss: provider.issuer, aud: AUDIENCE, sub: "alice", exp, ...claims }, key);
  };
  let isUp = true;
  const stop = async () => {
    if (isUp) await server.shutdown();
    isUp = false;
  };
  return { provider, token, stop, [Symbol.asyncDispose]: stop };
}

/** The signer's config for a caller whose end users are verified. */
function verifiedBy(issuer: string) {
  const gated = { allowed_groups: ["local"], require_verified_end_user: true };
  return [
    { path: ["command_policies", "starter"], value: { mode: "off" } },
    { path: ["callers", "broker-local"], value: gated },
    { path: ["end_user_oidc"], value: { issuer, audience: AUDIENCE } },
  ];
}

/** Asks for a certificate with a token. */
async function signStatus(stage: Stage, token?: string): Promise<number> {
  const client = await stage.signerClient("broker");
  const body = { ...JSON.parse(signBody(HOST)), end_user: "mallory", ...(token && { bearer_token: token }) };
  return (await client.request({ method: "POST", path: "/v1/sign", body })).status;
}

Deno.test("the signer issues for the end user of the token, whatever the caller says, and for no other token", async () => {
  const [key, foreign] = [await createIssuerKey("k1"), await createIssuerKey("k1")];
  await using served = startProvider([key]);
  await withStage({ signer: verifiedBy(served.provider.issuer) }, async (stage) => {
    await stage.startSigner();
    assert.equal(await signStatus(stage, await served.token(key)), 200);
    const refused = [
      undefined,
      "not a token",
      await served.token(foreign),
      await served.token(key, { aud: "https://other.example" }),
      await served.token(key, { exp: 1 }),
    ];
    for (const token of refused) assert.equal(await signStatus(stage, token), 403);
    const records = (await Deno.readTextFile(stage.init.signer_audit_log)).trimEnd().split("\n");
    assert.match(records[0] ?? "", /user=alice".*"outcome":"issued"/);
    assert.equal(
      records.filter((line) => /"outcome":"end_user_unverified"/.test(line)).length,
      refused.length,
    );
    assert.doesNotMatch(records.join("\n"), /mallory|eyJ[\w-]+\./, "neither the caller's claim nor a token");
  });
});

Deno.test("the signer takes the keys of a provider that changes them, and does without one that is down", async () => {
  const [old, next] = [await createIssuerKey("k1"), await createIssuerKey("k2")];
  await using served = startProvider([old]);
  await withStage({ signer: verifiedBy(served.provider.issuer) }, async (stage) => {
    const signer = await stage.startSigner();
    served.provider.published = [next.jwk];
    const status = async (key: IssuerKey) => await signStatus(stage, await served.token(key));
    await poll(async () => await status(next) === 200, {
      what: "the new key to be fetched",
      intervalMs: 200,
    });
    assert.equal(await status(old), 403, "the old key was taken back");
    await served.stop();
    assert.equal(await status(next), 200, "keys are kept for some minutes");
    assert.equal(await status(await createIssuerKey("k3")), 403, "a key that can't be looked up");
    await signer.stop();
    const started = ServiceProcess.spawn(await signerCommand(stage.init.signer_config));
    assert.notEqual((await started.status).code, 0, "no start without the provider");
    await started[Symbol.asyncDispose]();
    assert.match(started.log, /Cannot load end_user_oidc/);
  });
});
