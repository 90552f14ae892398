import assert from "node:assert/strict";
import { createIssuerKey, createTokenIssuer, escapeKey, type IssuerKey } from "@gateway/shared/testing";
import { signBody } from "../bench/sign_request.ts";
import { poll } from "../stage/poll.ts";
import { signerCommand } from "../stage/service_command.ts";
import { ServiceProcess } from "../stage/service_process.ts";
import { HOST, runBrokerCtl, type Stage, type StageIdentity } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { LocalScene } from "./local_scene.ts";

const AUDIENCE = "https://mcp.example";

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

/** The signer's config for a caller whose end users must have a verified token. */
function verifiedBy(issuer: string) {
  const gated = { allowed_groups: ["local"], require_verified_end_user: true };
  return [
    { path: ["command_policies", "starter"], value: { mode: "off" } },
    { path: ["callers", "broker-local"], value: gated },
    { path: ["end_user_oidc"], value: { issuer, audience: AUDIENCE } },
  ];
}

async function signStatus(stage: Stage, token?: string): Promise<number> {
  const client = await stage.signerClient("broker");
  const body = { ...JSON.parse(signBody(HOST)), end_user: "mallory", ...(token && { bearer_token: token }) };
  return (await client.request({ method: "POST", path: "/v1/sign", body })).status;
}

Deno.test("the signer issues for the end user of a valid token, whatever the caller claims, and denies other tokens", async () => {
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

Deno.test("the signer fetches rotated keys of a provider and keeps working with one that is down", async () => {
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

const SIGNER = [{ path: ["command_policies", "starter"], value: { mode: "off" } }];

type Service = "signer" | "control_plane" | "broker";

async function post(stage: Stage, service: Service, path: string, texts: readonly Sent[]): Promise<number[]> {
  const config = await Deno.readTextFile(stage.init[`${service}_config`]);
  const url = `https://${/"listen": "([^"]+)"/.exec(config)?.[1]}${path}`;
  const caCerts = [await Deno.readTextFile(stage.init.mtls_ca)];
  const statuses: number[] = [];
  for (const { by, body } of texts) {
    const [cert, key] = [
      await Deno.readTextFile(stage.init[by].cert),
      await Deno.readTextFile(stage.init[by].key),
    ];
    using client = Deno.createHttpClient({ caCerts, cert, key, poolMaxIdlePerHost: 0 });
    const headers = { "content-type": "application/json" };
    const response = await fetch(url, { method: "POST", headers, body, client });
    await response.body?.cancel();
    statuses.push(response.status);
  }
  return statuses;
}

interface Sent {
  readonly by: StageIdentity;
  readonly body: string;
}

const NO_GROUPS = signBody(HOST).replace('"end_user_groups":null', '"end_user_groups":[]');
const ESCAPED = escapeKey(NO_GROUPS, "end_user_groups");

Deno.test("an earlier request never changes for whom the signer reads a later one", () =>
  withStage({ signer: SIGNER }, async (stage) => {
    await stage.startSigner();
    const statuses = await post(stage, "signer", "/v1/sign", [
      { by: "broker", body: signBody(HOST) },
      { by: "broker", body: NO_GROUPS },
      { by: "operator", body: ESCAPED.before },
      { by: "broker", body: ESCAPED.before },
      { by: "broker", body: ESCAPED.text },
    ]);
    assert.deepEqual(statuses, [200, 403, 403, 200, 403]);
  }));

/** The keys that a service warned about, and the access of other accounts. */
function exposed({ log }: { readonly log: string }): readonly string[] {
  return [...log.matchAll(/([\w.]+|the config) \\?"[^"]*": other users may ([a-z ]+) it/g)]
    .map(([, key, may]) => `${key}: ${may}`).sort();
}

async function startAll(stage: Stage) {
  const signer = await stage.startSigner();
  const controlPlane = await stage.startControlPlane();
  const broker = await stage.startBroker();
  return { signer, controlPlane, broker };
}

Deno.test("services of a new installation log no warning about file modes", () =>
  withStage({ controlPlane: true }, async (stage) => {
    for (const service of Object.values(await startAll(stage))) {
      assert.deepEqual(exposed(service), []);
      assert.doesNotMatch(service.log, /other users/);
    }
  }));

Deno.test("services warn at the start about each secret and config that other users can read or write", () =>
  withStage({ controlPlane: true }, async (stage) => {
    const { folder } = stage.init;
    const modes = {
      "signer.json": 0o644,
      "control-plane.json": 0o660,
      "config.json": 0o666,
      "pki/ssh_ca": 0o604,
      "pki/signer.key": 0o644,
      "pki/signer_audit.seed": 0o622,
      "pki/control-plane.key": 0o606,
      "pki/control-plane-client.key": 0o644,
      "pki/control_plane_audit.seed": 0o644,
      "pki/broker-server.key": 0o644,
      "pki/broker.key": 0o620,
      "pki/broker_audit.seed": 0o644,
      "pki/mtls_ca.crt": 0o646,
    };
    for (const [path, mode] of Object.entries(modes)) await Deno.chmod(`${folder}/${path}`, mode);
    const { signer, controlPlane, broker } = await startAll(stage);
    assert.deepEqual(exposed(signer), [
      "audit_key: write",
      "ca_key: read",
      "client_ca: write",
      "server_key: read",
      "the config: read",
    ]);
    assert.deepEqual(exposed(controlPlane), [
      "audit_key: read",
      "client_ca: write",
      "server_key: read and write",
      "signer.ca: write",
      "signer.client_key: read",
      "the config: write",
    ]);
    assert.deepEqual(exposed(broker), [
      "audit_key: read",
      "client_ca: write",
      "server_key: read",
      "signer.ca: write",
      "signer.client_key: write",
      "the config: read and write",
    ]);
  }));

const REFUSED =
  /Cannot use ca_key ".*\/ssh_ca": other users may write to it \(mode 0620\); check that the key is yours, then chmod 600/;

Deno.test("a signer neither starts nor reloads with a CA key that other users can write to", () =>
  withStage({}, async (stage) => {
    const { folder, ssh_ca: caKey, signer_config, client_config } = stage.init;
    await stage.startSigner();
    await Deno.chmod(caKey, 0o620);
    const reload = await runBrokerCtl(["reload", "--client-config", client_config], folder);
    assert.equal(reload.success, false);
    assert.match(new TextDecoder().decode(reload.stderr), /Cannot use ca_key/);
    const second = ServiceProcess.spawn(await signerCommand(signer_config));
    const { code } = await second.status;
    await second.stop();
    assert.equal(code, 1);
    assert.match(second.log, REFUSED);
  }));

Deno.test("a broker in local mode does not start if other users can write to its CA key", async () => {
  await using scene = await LocalScene.create();
  await Deno.chmod(`${scene.dir}/ssh_ca`, 0o620);
  const broker = ServiceProcess.spawn(await scene.command("serve-http"));
  const { code } = await broker.status;
  await broker.stop();
  assert.equal(code, 1);
  assert.match(broker.log, REFUSED);
});
