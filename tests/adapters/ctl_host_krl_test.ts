import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { join } from "node:path";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { createCertificateAuthority } from "../../ctl/identities/x509.ts";
import { createFolder, names, run } from "./ctl_fixture.ts";

const authority = await createCertificateAuthority({ commonName: "test CA" });
const other = await createCertificateAuthority({ commonName: "test CA" });
const URL_ARGS = ["--url", "https://signer.example:9443"];
const KEY_ARGS = ["--ca-key", "ca.key"];

async function createSetUp() {
  const folder = await createFolder();
  const config = {
    server_cert: "x",
    server_key: "x",
    client_ca: "ca.crt",
    ca_key: "x",
    audit_log: "x",
    audit_key: "x",
    envelope_key: "seed",
    hosts: { web01: { addr: "10.0.0.1:22", user: "a", host_key: SAMPLE_HOST_KEY, principal: "host:web01" } },
  };
  const write = (name: string, text: string) => Deno.writeTextFile(join(folder.path, name), text);
  await write("signer.json", `// by hand\n${JSON.stringify(config)}`);
  await write("ca.crt", authority.certPem);
  await write("ca.key", authority.keyPem);
  await write("other.key", other.keyPem);
  await Deno.writeFile(join(folder.path, "seed"), new Uint8Array(32).fill(5));
  return folder;
}

Deno.test("host krl makes an identity for one host, and names it in the config", async () => {
  await using folder = await createSetUp();
  const { out, err, exit } = await run(folder.path, "host", "krl", "web01", ...URL_ARGS, ...KEY_ARGS);
  assert.deepEqual([err, exit], ["", 0]);
  assert.match(out, /^web01\.krl may fetch the revocation list for web01/);
  const at = join(folder.path, "krl-web01");
  // As shim/KRL.md has it.
  const [, reload, copy, install, keep] = out.trimEnd().split("\n");
  assert.match(reload ?? "", /broker-ctl reload$/);
  assert.match(copy ?? "", / scp -r (?<folder>\S+)\/krl-web01 \/usr\/share\/gateway\/krl\/\* root@web01:$/);
  assert.match(install ?? "", / ssh root@web01 \.\/install-gateway-krl krl-web01$/);
  assert.match(keep ?? "", / ssh root@web01 \.\/install-gateway-krl --keep$/);
  assert.deepEqual(await names(at), ["ca.crt", "client.crt", "client.key", "krl_signers", "signer.env"]);
  const text = (name: string) => Deno.readTextFile(join(at, name));
  const certificate = new X509Certificate(await text("client.crt"));
  assert.equal(certificate.subject, "CN=web01.krl");
  assert.ok(certificate.verify(new X509Certificate(authority.certPem).publicKey));
  assert.match(await text("krl_signers"), /^signer namespaces="gateway-krl-v1" ssh-ed25519 \S+\n$/);
  assert.equal(await text("signer.env"), "GATEWAY_KRL_SIGNER=https://signer.example:9443\n");
  assert.equal(((await Deno.stat(join(at, "client.key"))).mode ?? 0) & 0o777, 0o600);
  const config = await Deno.readTextFile(join(folder.path, "signer.json"));
  assert.match(config, /^\/\/ by hand\n.*"krl_callers": \{\s*"web01\.krl": \[\s*"web01"\s*\]/s);
});

Deno.test.each<{ name: string; args: string[]; text: RegExp }>([
  { name: "an unknown host", args: ["db01", ...URL_ARGS, ...KEY_ARGS], text: /unknown host: "db01"/ },
  {
    name: "another CA's key",
    args: ["web01", ...URL_ARGS, "--ca-key", "other.key"],
    text: /does not belong to its certificate/,
  },
  {
    name: "a file that is no key",
    args: ["web01", ...URL_ARGS, "--ca-key", "ca.crt"],
    text: /is not ECDSA P-256 in PEM/,
  },
  {
    name: "http",
    args: ["web01", "--url", "http://signer:9443", ...KEY_ARGS],
    text: /expected https:\/\/name:port/,
  },
  {
    name: "a URL that a shell takes apart",
    args: ["web01", "--url", "https://a:1/$(id)", ...KEY_ARGS],
    text: /expected https/,
  },
  {
    name: "a folder that exists",
    args: ["web01", ...URL_ARGS, ...KEY_ARGS, "--out", "."],
    text: /it exists; name another/,
  },
])("host krl refuses $name, and changes nothing", async ({ args, text }) => {
  await using folder = await createSetUp();
  const before = await Deno.readTextFile(join(folder.path, "signer.json"));
  const { err, exit } = await run(folder.path, "host", "krl", ...args);
  assert.match(err, text);
  assert.notEqual(exit, 0);
  assert.equal(await Deno.readTextFile(join(folder.path, "signer.json")), before);
  assert.deepEqual(await names(folder.path), ["ca.crt", "ca.key", "other.key", "seed", "signer.json"]);
});
