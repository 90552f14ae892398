import assert from "node:assert/strict";
import { createHmac } from "node:crypto";
import { join } from "node:path";
import { findHostKey, listAliases } from "../../ctl/setup/import_ssh_config.ts";
import { createFolder, names, run } from "./ctl_fixture.ts";
import { createCertificateAuthority, issueLeaf } from "../../ctl/identities/x509.ts";
import { DatabaseSync } from "node:sqlite";
import { parse } from "jsonc-parser";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { LogFolder, SEED } from "./audit_fixture.ts";

const ED = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIIqI4910CfGV/VLbLTy6XXLKZwm/HZQSG/N0iAG0D29c";
const OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO0Gnb+kCpVhi8T8PX2F2Vhmcu0T9vqTZy9GlkSGn1JF";

function hashed(name: string): string {
  const salt = new Uint8Array(20).fill(3);
  return `|1|${salt.toBase64()}|${createHmac("sha1", salt).update(name).digest("base64")}`;
}

Deno.test.each<{ name: string; text: string; lookUp?: string; key: string | undefined }>([
  { name: "a name", text: `web01,10.0.0.5 ${ED} a comment`, key: ED },
  { name: "a name with another port", text: `[web01]:2222 ${ED}`, lookUp: "[web01]:2222", key: ED },
  { name: "a hashed name", text: `${hashed("web01")} ${ED}`, key: ED },
  { name: "a pattern", text: `*01,!web02 ${ED}`, key: ED },
  { name: "no name that a pattern excludes", text: `*,!web01 ${ED}`, key: undefined },
  { name: "no other name", text: `web011 ${ED}\n${hashed("web02")} ${ED}`, key: undefined },
  { name: "no key of an authority", text: `@cert-authority web01 ${ED}`, key: undefined },
  {
    name: "no revoked key, whatever the order",
    text: `web01 ${ED}\nweb01 ${OTHER}\n@revoked * ${ED}`,
    key: OTHER,
  },
  {
    name: "no key in a comment, and no invalid key",
    text: `# web01 ${ED}\nweb01 ssh-ed25519 AAAA\nweb01 junk`,
    key: undefined,
  },
])("findHostKey() finds the key of $name", async ({ text, lookUp = "web01", key }) => {
  await using folder = await createFolder();
  const file = join(folder.path, "known_hosts");
  await Deno.writeTextFile(file, `${text}\n`);
  assert.equal(await findHostKey([join(folder.path, "none"), file], lookUp), key);
});

Deno.test("listAliases() returns only concrete names that do not look like options", () => {
  const text =
    'Host web01 *.example !x\n  HostName a\nhost=db01\nHost -oProxyCommand=x "q01"\n#Host no\nHostname y\nHost web01';
  assert.deepEqual(listAliases(text), ["web01", "db01", "q01"]);
});

Deno.test("init --import-ssh-config imports hosts with known keys and reports why it skips others", async () => {
  await using folder = await createFolder();
  const known = join(folder.path, "known_hosts");
  await Deno.writeTextFile(known, `[10.0.0.5]:2222 ${ED}\n${hashed("10.0.0.6")} ${OTHER}\n10.0.0.9 ${ED}\n`);
  await Deno.writeTextFile(
    join(folder.path, "config"),
    `Host Web_01
  HostName 10.0.0.5
  Port 2222
  User deploy
Host db01 given
  HostName 10.0.0.6
  User dba
Host unknown
  HostName 10.0.0.7
Host behind
  HostName 10.0.0.9
  ProxyJump db01
Host *
  User nobody
  UserKnownHostsFile ${known}
  GlobalKnownHostsFile /dev/null
`,
  );
  const given = `given=10.9.9.9:22,user=ann,key=${ED}`;
  const { exit, out, err } = await run(
    folder.path,
    ...[
      "init",
      "--json",
      "--dir",
      join(folder.path, "gateway"),
      "--host",
      given,
      "--import-ssh-config",
      "config",
    ],
  );
  assert.equal(exit, 0, err);
  const json = JSON.parse(out);
  assert.deepEqual(json.hosts, ["given", "web_01", "db01"]);
  assert.match(
    json.left_out.join("\n"),
    /^unknown .*known_hosts; .*--scan\nbehind .*behind "db01"; .*--jump$/,
  );
  const listed = JSON.parse(
    (await run(folder.path, "host", "list", "--json", "--config", json.signer_config)).out,
  );
  assert.deepEqual([listed.web_01.addr, listed.web_01.user, listed.web_01.host_key], [
    "10.0.0.5:2222",
    "deploy",
    ED,
  ]);
  assert.deepEqual([listed.db01.addr, listed.db01.user, listed.db01.host_key], ["10.0.0.6:22", "dba", OTHER]);
  assert.equal(listed.given.addr, "10.9.9.9:22");
});

Deno.test("init --import-ssh-config writes nothing if the SSH config or HOME is missing", async () => {
  await using folder = await createFolder();
  const init = (...more: string[]) => run(folder.path, "init", "--dir", join(folder.path, "g"), ...more);
  assert.match((await init("--import-ssh-config", "nothing")).err, /Cannot read ssh config .*: no such file/);
  assert.match((await init("--import-ssh-config")).err, /HOME is not set/);
  await assert.rejects(Deno.stat(join(folder.path, "g")));
});

async function openssl(...args: string[]) {
  const { success, stdout } = await new Deno.Command("openssl", { args, stderr: "null" }).output();
  return { success, text: new TextDecoder().decode(stdout) };
}

const ignore = !(await openssl("version").then(({ success }) => success, () => false));

Deno.test({ name: "init makes a bundle with the approver's pair, as openssl reads it", ignore }, async () => {
  await using folder = await createFolder();
  const { approver, approver_bundle: bundle, approver_bundle_password: password } = JSON.parse(
    (await run(folder.path, "init", "--dir=.", "--json")).out,
  );
  const read = (password: string) =>
    openssl("pkcs12", "-in", bundle, "-passin", `pass:${password}`, "-nodes");
  assert.match(password, /^[\w-]{20}$/);
  const { text } = await read(password);
  for (const path of [approver.cert, approver.key]) {
    assert.ok(text.includes((await Deno.readTextFile(path)).trim()), path);
  }
  for (const other of ["gateway", ""]) assert.equal((await read(other)).success, false);
});

Deno.test({ name: "init makes a CA that can vouch for this machine alone", ignore }, async () => {
  await using folder = await createFolder();
  const at = (name: string) => join(folder.path, name);
  const authority = await createCertificateAuthority({ commonName: "CA", localOnly: true });
  await Deno.writeTextFile(at("ca.crt"), authority.certPem);
  const verify = async (...subjectAltNames: string[]) => {
    const { certPem } = await issueLeaf(authority, {
      subject: "CN=localhost",
      usage: "server",
      subjectAltNames,
    });
    await Deno.writeTextFile(at("leaf.crt"), certPem);
    return (await openssl("verify", "-CAfile", at("ca.crt"), "-purpose", "sslserver", at("leaf.crt")))
      .success;
  };
  for (const name of ["localhost", "127.0.0.1", "127.9.9.9", "::1"]) assert.ok(await verify(name), name);
  for (const name of ["example.org", "10.0.0.1", "::2", "localhost.example.org"]) {
    assert.equal(await verify("localhost", name), false, name);
  }
});

Deno.test(
  "identity add --p12 creates a bundle with the given password that openssl can open",
  { ignore },
  async () => {
    await using folder = await createFolder();
    await run(folder.path, "init", "--dir=.");
    const at = (name: string) => join(folder.path, name);
    await Deno.writeTextFile(at("password"), "correct horse battery\n");
    const add = (name: string, ...flags: string[]) =>
      run(folder.path, "identity", "add", "approver", name, "--p12", "--json", ...flags);
    const open = async (name: string, password: string) =>
      (await openssl("pkcs12", "-in", at(`pki/${name}.p12`), "-passin", `pass:${password}`, "-nodes"))
        .success;
    assert.equal((await add("ann", "--password-file", "password")).exit, 0);
    assert.deepEqual([await open("ann", "correct horse battery"), await open("ann", "gateway")], [
      true,
      false,
    ]);
    const { password } = JSON.parse((await add("ben")).out);
    assert.deepEqual([password.length, await open("ben", password)], [20, true]);
    await Deno.writeTextFile(at("password"), "short\n");
    assert.match((await add("cy", "--password-file", "password")).err, /12 or more/);
  },
);

/** The signer's tables as the reference creates them, version 2. */
const REFERENCE_STATE = `
  CREATE TABLE grants (id TEXT PRIMARY KEY, host TEXT NOT NULL, allow TEXT NOT NULL DEFAULT '[]',
    waive_approval TEXT NOT NULL DEFAULT '[]', caller TEXT NOT NULL DEFAULT '', end_user TEXT NOT NULL DEFAULT '',
    sudo INTEGER NOT NULL DEFAULT 0, sudo_user TEXT NOT NULL DEFAULT '', approver TEXT NOT NULL DEFAULT '',
    approval_id TEXT NOT NULL DEFAULT '', granted_at INTEGER NOT NULL, expires_at INTEGER NOT NULL);
  CREATE INDEX grants_expires ON grants (expires_at);
  CREATE TABLE freezes (kind TEXT NOT NULL, value TEXT NOT NULL, reason TEXT NOT NULL DEFAULT '',
    frozen_by TEXT NOT NULL DEFAULT '', frozen_at INTEGER NOT NULL, PRIMARY KEY (kind, value));
  INSERT INTO freezes VALUES ('end_user', 'mallory', 'INC-7', 'broker-local', 1767323045);
  PRAGMA user_version = 2;`;

const HOST = `"addr": "10.0.0.5:22", "user": "deploy", "host_key": "${SAMPLE_HOST_KEY}", "groups": ["local"]`;

const SIGNER = `{
  // Paths of the reference are relative.
  "listen": ":9443", "server_cert": "./pki/signer.crt", "server_key": "pki/signer.key", "client_ca": "pki/mtls_ca.crt",
  "ca_key": "pki/ssh_ca", "envelope_key": "pki/envelope.seed",
  "audit_log": "./audit.log", "audit_key": "pki/signer_audit.seed", "state_db": "signer.db",
  "reload_callers": ["broker-local"], "callers": { "broker-local": { "allowed_groups": ["local"] } },
  "hosts": {
    "web01": { ${HOST}, "principal": "host:web01", "sealed_exec": true }, // sealed
    "web02": { ${HOST}, "principal": "host:web02" }
  }
}
`;

const PLANE =
  `{ "listen": ":7443", "server_cert": "pki/control-plane.crt", "server_key": "pki/control-plane.key",
  "client_ca": "pki/mtls_ca.crt", "sign_callers": ["broker-local"], "approval": { "callers": ["broker-admin"] },
  "signer": { "url": "https://127.0.0.1:9443", "client_cert": "pki/broker.crt", "client_key": "pki/broker.key",
    "ca": "pki/mtls_ca.crt" },
  "audit_log": "cp-audit.log", "audit_key": "pki/control_plane_audit.seed", "state_db": "cp.db" }
`;

/** An installation of the reference: keys of init, flat files, a chain of two files and a freeze. */
async function createReference() {
  const folder = await createFolder();
  const at = (path: string) => join(folder.path, path);
  assert.equal((await run(folder.path, "init", "--dir", "made")).exit, 0);
  await Deno.mkdir(at("ref"));
  await Deno.rename(at("made/pki"), at("ref/pki"));
  await Deno.writeTextFile(at("ref/signer.json"), SIGNER);
  await Deno.writeTextFile(at("ref/control-plane.json"), PLANE);
  await Deno.writeTextFile(at("ref/signer.env"), "AZURE_CLIENT_SECRET=x\n");
  await Deno.writeFile(at("ref/pki/signer_audit.seed"), SEED);
  for (const name of ["cp.db", "cp-audit.log"]) await Deno.writeTextFile(at(`ref/${name}`), "");
  await using log = new LogFolder();
  await log.write("issued", "denied");
  await Deno.rename(log.path, at("ref/audit.log.20260102T030405Z"));
  await Deno.copyFile(at("ref/audit.log.20260102T030405Z"), `${log.path}.20260102T030405Z`);
  await log.write("issued");
  await Deno.copyFile(log.path, at("ref/audit.log"));
  using state = new DatabaseSync(at("ref/signer.db"));
  state.exec(REFERENCE_STATE);
  return {
    at,
    migrate: (...args: string[]) => run(folder.path, "migrate", "ref", ...args),
    ctl: (...args: string[]) => run(folder.path, ...args),
    names: () => names(folder.path),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
}

Deno.test("migrate writes an installation that the services load, with CA, seeds, audit chain and freezes", async () => {
  await using it = await createReference();
  const { out, err, exit } = await it.migrate("--to", "new");
  assert.deepEqual([err, exit], ["", 0]);
  const config = await Deno.readTextFile(it.at("new/signer.json"));
  assert.match(config, /\/\/ Paths of the reference are relative/);
  const { audit_log, state_db, hosts } = parse(config);
  assert.equal(audit_log, it.at("new/log/signer/audit.log"));
  assert.equal(state_db, it.at("new/state/signer/signer.db"));
  assert.deepEqual([hosts.web01.envelope, hosts.web02.envelope], ["v1", undefined]);
  for (const name of ["ssh_ca", "mtls_ca.key", "signer_audit.seed", "envelope.seed"]) {
    assert.deepEqual(
      await Deno.readFile(it.at(`new/pki/${name}`)),
      await Deno.readFile(it.at(`ref/pki/${name}`)),
    );
    assert.equal((await Deno.stat(it.at(`new/pki/${name}`))).mode! & 0o777, 0o600);
  }
  const key = it.at("new/pki/signer_audit.seed");
  const verified = await it.ctl("audit", "verify", "--all", "--log", audit_log, "--key", key);
  assert.match(verified.out, /3 entries, chain intact across all rotated segments/, verified.err);
  using state = new DatabaseSync(state_db);
  assert.equal(state.prepare("SELECT value FROM freezes").get()?.["value"], "mallory");
  const { out: checked } = await it.ctl("doctor", "--security", "--config", "new/signer.json");
  assert.doesNotMatch(checked, /does not take it|can't be used/);
  for (
    const line of [
      /^change: signer\.json: hosts\.web01\.envelope = "v1" \(the shim on the host reads only v1\)$/m,
      /^change: control-plane\.json: signer\.client_key = "\S+\/new\/pki\/broker\.key"$/m,
      /^decide: "broker-local" is a broker and in reload_callers: .*identity add operator/m,
      /^not carried over: approvals in \S+\/ref\/cp\.db: /m,
      /^not carried over: variables of a unit in \S+\/ref\/signer\.env$/m,
    ]
  ) assert.match(out, line);
});

Deno.test("migrate does not change the source or overwrite a target, and --dry-run writes nothing", async () => {
  await using it = await createReference();
  const read = async () =>
    JSON.stringify(
      await Promise.all(
        ["signer.json", "control-plane.json", "audit.log", "signer.db"].map(async (
          name,
        ) => [...await Deno.readFile(it.at(`ref/${name}`))]),
      ),
    );
  const [before, there] = [await read(), await it.names()];
  const dry = await it.migrate("--to", "new", "--dry-run");
  assert.match(dry.out, /^nothing was written \(--dry-run\)$/m);
  assert.deepEqual([dry.exit, await it.names()], [0, there]);
  assert.equal((await it.migrate("--to", "new")).exit, 0);
  const again = await it.migrate("--to", "new");
  assert.match(again.err, /^error: Cannot migrate to ".*new": it exists\nfix: pass another --to/);
  assert.deepEqual([again.exit, await read(), await it.names()], [1, before, [...there, "new"].sort()]);
});

Deno.test.each<{ name: string; change: (at: (path: string) => string) => Promise<unknown>; error: RegExp }>([
  {
    name: "a config that the signer rejects",
    change: (at) => Deno.writeTextFile(at("ref/signer.json"), SIGNER.replace('"ca_key"', '"ca_keyy"')),
    error: /unknown key "ca_keyy"/,
  },
  {
    name: "a directory without configs",
    change: async (at) => {
      for (const name of ["signer.json", "control-plane.json"]) await Deno.remove(at(`ref/${name}`));
    },
    error: /it contains no config of a service/,
  },
  {
    name: "a damaged state_db",
    change: (at) => Deno.writeTextFile(at("ref/signer.db"), "x".repeat(5000)),
    error: /is damaged/,
  },
])("migrate rejects $name and writes nothing", async ({ change, error }) => {
  await using it = await createReference();
  await change(it.at);
  const there = await it.names();
  const result = await it.migrate("--to", "new");
  assert.match(result.err, error);
  assert.deepEqual([result.exit, await it.names()], [1, there]);
});
