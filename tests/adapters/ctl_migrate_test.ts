import assert from "node:assert/strict";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { parse } from "jsonc-parser";
import { SAMPLE_HOST_KEY } from "@gateway/shared/testing";
import { LogFolder, SEED } from "./audit_fixture.ts";
import { createFolder, names, run } from "./ctl_fixture.ts";

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

/** An installation as the reference has it: keys of init, flat files, a chain of two files and a freeze. */
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

Deno.test("migrate writes an installation that our services load, with CA, seeds, chain and freezes", async () => {
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

Deno.test("migrate changes nothing of the reference, never overwrites, and --dry-run writes nothing", async () => {
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
  assert.match(again.err, /^error: Cannot migrate to ".*new": it exists; name another with --to/);
  assert.deepEqual([again.exit, await read(), await it.names()], [1, before, [...there, "new"].sort()]);
});

Deno.test.each<{ name: string; change: (at: (path: string) => string) => Promise<unknown>; error: RegExp }>([
  {
    name: "a config that our signer would not load",
    change: (at) => Deno.writeTextFile(at("ref/signer.json"), SIGNER.replace('"ca_key"', '"ca_keyy"')),
    error: /unknown key "ca_keyy"/,
  },
  {
    name: "a directory without configs",
    change: async (at) => {
      for (const name of ["signer.json", "control-plane.json"]) await Deno.remove(at(`ref/${name}`));
    },
    error: /there is no config of a service/,
  },
  {
    name: "a state that is damaged",
    change: (at) => Deno.writeTextFile(at("ref/signer.db"), "x".repeat(5000)),
    error: /is damaged/,
  },
])("migrate rejects $name, and leaves nothing", async ({ change, error }) => {
  await using it = await createReference();
  await change(it.at);
  const there = await it.names();
  const result = await it.migrate("--to", "new");
  assert.match(result.err, error);
  assert.deepEqual([result.exit, await it.names()], [1, there]);
});
