import assert from "node:assert/strict";
import { join } from "node:path";
import { FakeClock, SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { createFolder, names, run, runInTerminal, SIGNER_KEYS } from "./ctl_fixture.ts";
import { FakeService } from "./ctl_signer_fixture.ts";
import { X509Certificate } from "node:crypto";
import { createCertificateAuthority } from "../../ctl/identities/x509.ts";
import { runOverSsh, sshTo } from "../../ctl/kit/programs.ts";
import { poll } from "../stage/poll.ts";

const HOSTS = {
  web01: {
    addr: "10.0.0.1:22",
    user: "deploy",
    host_key: SAMPLE_HOST_KEY,
    principal: "host:web01",
    jump: "bastion",
    max_ttl_seconds: 120,
    source_address: "10.9.0.0/16",
    allow_sudo: true,
    allowed_sudo_users: ["www", "db"],
    allow_pty: true,
    allow_file_transfer: true,
    groups: ["web", "all"],
    allowed_callers: ["broker-1"],
    command_policy: { mode: "allowlist", enforcement: "audit", allow: ["^a$", "^b$"] },
  },
  bastion: {
    addr: "10.0.0.2:22",
    user: "jump",
    host_key: SAMPLE_HOST_KEY,
    principal: "",
    allow_as_bastion: true,
    groups: [],
    command_policy: {},
  },
};

const MANY = ["b1", "b2", "b3", "b4", "b5", "b6", "b7", "b8", "b9"];

const tableOf = (seal: string) =>
  [
    "NAME     ADDR         USER    GROUPS   POLICY                    SEALED  REVOCATION",
    "bastion  10.0.0.2:22  jump    —        —                         —       —",
    `web01    10.0.0.1:22  deploy  web,all  allowlist(2 allow) audit  ${seal}`,
    "",
  ].join("\n");
const TABLE = tableOf("—       —");

async function createConfig(hosts: unknown) {
  const folder = await createFolder();
  const text = `// what the operator wrote\n${JSON.stringify({ ...SIGNER_KEYS, hosts })}`;
  await Deno.writeTextFile(join(folder.path, "signer.json"), text);
  return folder;
}

Deno.test("host list --remote prints the revocation list version of each host that fetches it", async () => {
  const krl = { version: 9, age_seconds: 3, current: true };
  await using signer = await FakeService.start({
    web01: { ...HOSTS.web01, krl },
    web02: { ...HOSTS.web01, principal: "host:web02", krl: { ...krl, current: false } },
    web03: { ...HOSTS.web01, principal: "host:web03", krl: { current: false } },
    web04: { ...HOSTS.web01, principal: "host:web04" },
  });
  const { out } = await signer.run("host", "list", "--remote");
  assert.deepEqual(out.trimEnd().split("\n").map((line) => line.split(/ {2,}/).at(-1)), [
    ...["REVOCATION", "current", "OUTDATED", "not fetched", "—"],
  ]);
  const wide = await signer.run("host", "list", "--remote", "-o", "wide");
  assert.match(wide.out, / {2}OUTDATED, version 9, last request 3 s ago {2}host:web02 /);
});

Deno.test("host list fits a terminal, and prints all columns with -o wide", async () => {
  await using folder = await createConfig({ ...HOSTS, web01: { ...HOSTS.web01, allowed_callers: MANY } });
  const inTerminal = async (...args: string[]) =>
    (await runInTerminal({ workingFolder: folder.path, columns: 70 }, "host", "list", ...args)).out;
  for (const line of (await inTerminal()).split("\n")) assert.ok(line.length <= 70, line);
  assert.match(
    await inTerminal("-o", "wide"),
    /^NAME .*\nbastion .*\nweb01 .* host:web01 .*120s .*b1,b2,b3,b4,b5,b6,b7,b8,…\[first 8 of 9\]/,
  );
});

Deno.test("host list prints how to pass or create a config if there is none", async () => {
  await using folder = await createFolder();
  const { err, exit } = await run(folder.path, "host", "list");
  assert.match(
    err,
    /^error: Cannot load signer config "[^"]*signer\.json": no such file\nfix: pass --config, or create a config with broker-ctl init/,
  );
  assert.equal(exit, 1);
});

Deno.test("host list prints the hosts of the signer's config", async () => {
  await using folder = await createConfig(HOSTS);
  assert.deepEqual(await run(folder.path, "host", "list"), { out: TABLE, err: "", exit: 0 });
  const named = await run("/", "host", "list", "--config", join(folder.path, "signer.json"), "--json");
  assert.deepEqual([JSON.parse(named.out), named.exit], [HOSTS, 0]);
});

Deno.test("host list reports that there are no hosts", async () => {
  await using folder = await createConfig({});
  assert.equal((await run(folder.path, "host", "list")).out, "(no hosts configured)\n");
});

Deno.test("host list refuses a broken config", async () => {
  await using folder = await createConfig({ web01: { addr: "x" } });
  const broken = await run(folder.path, "host", "list");
  assert.match(broken.err, /hosts\.web01/);
  assert.equal(broken.exit, 1);
});

Deno.test("host list --remote requests the policy from the signer", async () => {
  await using signer = await FakeService.start({
    ...HOSTS,
    web01: { ...HOSTS.web01, sealed_exec: true },
    bastion: { ...HOSTS.bastion, allowed_callers: null },
  });
  const table = tableOf("v2      —");
  assert.deepEqual(await signer.run("host", "list", "--remote"), { out: table, err: "", exit: 0 });
  assert.deepEqual(signer.requests.map(({ method, path }) => [method, path]), [["GET", "/v1/policy/hosts"]]);
  const { out } = await signer.run("host", "list", "--remote", "--json");
  assert.equal(JSON.parse(out).web01.sealed_exec, true);
});

Deno.test.each<{ status: number; detail: string; hint: RegExp }>([
  { status: 401, detail: "no certificate", hint: /client_ca/ },
  { status: 403, detail: "caller is not in reload_callers", hint: /must be in reload_callers/ },
  { status: 404, detail: "No such route", hint: /is this the signer/ },
  { status: 500, detail: "audit unavailable", hint: /see the signer's log/ },
])("host list --remote prints HTTP $status and sends no other request", async ({ status, detail, hint }) => {
  await using signer = await FakeService.refusing(status, detail);
  const { out, err, exit } = await signer.run("host", "list", "--remote");
  assert.deepEqual([out, exit, signer.requests.length], ["", 1, 1]);
  assert.equal(err.split("\n")[0], `error: host list failed (HTTP ${status}): ${detail}`);
  assert.match(err, hint);
});

Deno.test.each<{ name: string; flags: string[] }>([
  { name: "a URL", flags: ["--url", "127.0.0.1:1"] },
  { name: "a certificate", flags: ["--cert", "x"] },
])("host list ignores $name without --remote", async ({ flags }) => {
  await using folder = await createConfig(HOSTS);
  const listed = await run(folder.path, "host", "list");
  assert.deepEqual(await run(folder.path, "host", "ls", ...flags), { ...listed, err: "", exit: 0 });
});

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

Deno.test("host krl issues an identity for one host and adds it to the config", async () => {
  await using folder = await createSetUp();
  const { out, err, exit } = await run(folder.path, "host", "krl", "web01", ...URL_ARGS, ...KEY_ARGS);
  assert.deepEqual([err, exit], ["", 0]);
  assert.match(out, /^web01\.krl may fetch the revocation list for web01/);
  const at = join(folder.path, "krl-web01");
  // The example in docs/guides/revocation-lists.md.
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
  { name: "an unknown host", args: ["db01", ...URL_ARGS, ...KEY_ARGS], text: /Cannot find host "db01"/ },
  {
    name: "another CA's key",
    args: ["web01", ...URL_ARGS, "--ca-key", "other.key"],
    text: /does not belong to its certificate/,
  },
  {
    name: "a file that is not a key",
    args: ["web01", ...URL_ARGS, "--ca-key", "ca.crt"],
    text: /is not ECDSA P-256 in PEM/,
  },
  {
    name: "http",
    args: ["web01", "--url", "http://signer:9443", ...KEY_ARGS],
    text: /expected https:\/\/name:port/,
  },
  {
    name: "a URL with shell syntax",
    args: ["web01", "--url", "https://a:1/$(id)", ...KEY_ARGS],
    text: /expected https/,
  },
  {
    name: "a directory that exists",
    args: ["web01", ...URL_ARGS, ...KEY_ARGS, "--out", "."],
    text: /it exists\nfix: pass another --out/,
  },
])("host krl rejects $name and changes nothing", async ({ args, text }) => {
  await using folder = await createSetUp();
  const before = await Deno.readTextFile(join(folder.path, "signer.json"));
  const { err, exit } = await run(folder.path, "host", "krl", ...args);
  assert.match(err, text);
  assert.notEqual(exit, 0);
  assert.equal(await Deno.readTextFile(join(folder.path, "signer.json")), before);
  assert.deepEqual(await names(folder.path), ["ca.crt", "ca.key", "other.key", "seed", "signer.json"]);
});

const LOGIN = { login: "root", words: [], command: "true", input: "" };

Deno.test("sshTo() fails if a host does not respond for three minutes", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  const clock = new FakeClock();
  const host = { addr: `127.0.0.1:${port}`, host_key: SAMPLE_HOST_KEY };
  const asked = assert.rejects(
    sshTo("web01", host, { ...LOGIN, clock }),
    /The host did not respond within 180 seconds/,
  );
  using _connection = await listener.accept();
  await poll(() => Promise.resolve(clock.sleeping > 0), { what: "the wait" });
  await clock.advance(180_000);
  await asked;
});

Deno.test.each([
  { name: "an account that is an option", addr: "127.0.0.1:22", login: "-oProxyCommand=id" },
  { name: "an address that is an option", addr: "-oProxyCommand=id:22", login: "root" },
  { name: "an address with a token that ssh would expand", addr: "%h:22", login: "root" },
])("runOverSsh() rejects $name", async ({ addr, login }) => {
  await assert.rejects(
    runOverSsh("web01", { addr, host_key: SAMPLE_HOST_KEY }, { script: [""], login }),
    /Cannot log in/,
  );
});
