import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { JsonClient } from "@gateway/shared/http";
import { createCertificateAuthority, issueLeaf, type LeafOptions } from "../../ctl/identities/x509.ts";
import { HOST, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";

const authority = await createCertificateAuthority({ commonName: "callers" });
const namesake = await createCertificateAuthority({ commonName: "callers" });

const client: LeafOptions = { subject: "CN=broker-local", usage: "client" };
const rows: readonly { name: string; leaf: LeafOptions; by?: typeof authority; status: number }[] = [
  { name: "a good certificate", leaf: client, status: 200 },
  { name: "a certificate of another CA of the same name", leaf: client, by: namesake, status: 401 },
  {
    name: "one with two CNs",
    leaf: { ...client, subject: "CN=broker-local,CN=operator-local" },
    status: 401,
  },
];

interface Route {
  readonly service: string;
  readonly listen: string;
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: unknown;
}

async function routes({ init }: Stage): Promise<readonly Route[]> {
  const listen = async (path: string) =>
    (await Deno.readTextFile(path)).match(/"listen": "([^"]+)"/)?.[1] ?? "";
  const run = { method: "POST" as const, path: "/v1/ssh_run", body: { host: HOST, command: "uptime" } };
  return [
    { service: "signer", listen: await listen(init.signer_config), method: "GET", path: "/v1/hosts" },
    { service: "broker", listen: await listen(init.broker_config), ...run },
  ];
}

Deno.test("signer and broker answer 401 to whoever does not prove one name", async () => {
  const caPath = await Deno.makeTempFile({ suffix: ".crt" });
  await Deno.writeTextFile(caPath, authority.certPem);
  try {
    // The signer must still trust the broker of the set-up: both CAs, one bundle.
    const broker = [
      { path: ["client_ca"], value: caPath },
      { path: ["run_callers"], value: ["broker-local"] },
    ];
    await withStage({ broker }, async (stage) => {
      const bundle = `${authority.certPem}\n${await Deno.readTextFile(stage.init.mtls_ca)}`;
      await Deno.writeTextFile(`${stage.init.folder}/pki/mtls_ca_bundle.crt`, bundle);
      await Deno.writeTextFile(
        stage.init.signer_config,
        (await Deno.readTextFile(stage.init.signer_config)).replace("mtls_ca.crt", "mtls_ca_bundle.crt"),
      );
      await stage.startSigner();
      await stage.startBroker();
      const serverCa = await Deno.readTextFile(stage.init.mtls_ca);
      for (const { service, listen, ...request } of await routes(stage)) {
        for (const { name, leaf, by = authority, status } of rows) {
          const { certPem: cert, keyPem: key } = await issueLeaf(by, leaf);
          const caller = new JsonClient({
            clock: systemClock,
            what: service,
            baseUrl: `https://${listen}`,
            cert,
            key,
            ca: serverCa,
          });
          try {
            const answer = await caller.request(request);
            assert.equal(answer.status, status, `${service}: ${name}: ${answer.text}`);
          } finally {
            caller.close();
          }
        }
      }
    });
  } finally {
    await Deno.remove(caPath);
  }
});
