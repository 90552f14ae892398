import assert from "node:assert/strict";
import type { PermissionSet } from "@gateway/shared/permissions";
import { sampleCluster } from "@gateway/shared/testing";
import { signerConfig } from "./config.ts";
import { signerPermissions } from "./permissions.ts";
import type { Clock } from "@gateway/shared/clock";
import { openConfigFile, type Snapshot } from "./snapshot.ts";
import { CONFIG, snapshotOf } from "../testing/memory_signer.ts";

const SIGNER = {
  listen: ":9443",
  server_cert: "/etc/gateway/pki/signer.crt",
  server_key: "/etc/gateway/pki/signer.key",
  client_ca: "/etc/gateway/pki/mtls_ca.crt",
  ca_key: "/etc/gateway/pki/ssh_ca",
  audit_log: "/var/log/signer/audit.log",
  audit_key: "/etc/gateway/audit.seed",
  monitor_listen: "127.0.0.1:9160",
};

const signer = (changes: object = {}, configPath = "/etc/gateway/signer.json") =>
  signerPermissions(signerConfig.parse({ ...SIGNER, ...changes }), { configPath, workingFolder: "/srv" });

const INVALID = { name: "AppError", code: "invalid_config" };

Deno.test("signerPermissions() grants the files of the config, its log directory and its listeners", () => {
  assert.deepEqual(signer(), {
    read: [
      "/etc/gateway/audit.seed",
      "/etc/gateway/pki/mtls_ca.crt",
      "/etc/gateway/pki/signer.crt",
      "/etc/gateway/pki/signer.key",
      "/etc/gateway/pki/ssh_ca",
      "/etc/gateway/signer.json",
      "/var/log/signer",
    ],
    write: ["/var/log/signer"],
    net: ["0.0.0.0:9443", "127.0.0.1:9160"],
    ignoreEnv: "all",
  });
});

Deno.test.each<{ name: string; changes: Partial<typeof SIGNER>; config?: string; expected: PermissionSet }>([
  {
    name: "resolves relative paths against the working directory",
    changes: { ca_key: "pki/ca", audit_log: "./log/../log/audit.log" },
    config: "signer.json",
    expected: { write: ["/srv/log"] },
  },
  {
    name: "keeps other files in the log directory read-only",
    changes: { audit_log: "/etc/gateway/audit.log" },
    expected: {
      write: ["/etc/gateway"],
      denyWrite: [
        "/etc/gateway/audit.seed",
        "/etc/gateway/pki/mtls_ca.crt",
        "/etc/gateway/pki/signer.crt",
        "/etc/gateway/pki/signer.key",
        "/etc/gateway/pki/ssh_ca",
        "/etc/gateway/signer.json",
      ],
    },
  },
  {
    name: "distinguishes directories whose names share a prefix",
    changes: { audit_log: "/etc/gate/audit.log" },
    expected: { write: ["/etc/gate"] },
  },
  {
    name: "grants no network for a disabled monitor",
    changes: { monitor_listen: "", listen: "[::1]:9443" },
    expected: { net: ["[::1]:9443"], write: ["/var/log/signer"] },
  },
])("signerPermissions() $name", ({ changes, config, expected }) => {
  const set = signer(changes, config);
  assert.deepEqual({ ...set, ...expected }, set);
  assert.equal(set.denyWrite?.length, expected.denyWrite?.length);
  for (const path of [...set.read ?? [], ...set.write ?? []]) assert.match(path, /^\/[^.]/);
});

Deno.test.each<{ name: string; changes: Partial<typeof SIGNER> }>([
  { name: "a log in the root directory", changes: { audit_log: "/audit.log" } },
  { name: "a CA key that is the log", changes: { ca_key: "/var/log/signer/audit.log" } },
  { name: "a certificate path that is the log's directory", changes: { server_cert: "/var/log/signer/" } },
  { name: "a listen address with a host name", changes: { listen: "signer.example:9443" } },
])("signerPermissions() rejects $name", ({ changes }) => {
  assert.throws(() => signer(changes), INVALID);
});

Deno.test("signerPermissions() requires an absolute working directory", () => {
  const config = signerConfig.parse(SIGNER);
  const options = { configPath: "signer.json", workingFolder: "." };
  assert.throws(() => signerPermissions(config, options), TypeError);
});

Deno.test("signerPermissions() lets a signer with admins write only its config and the .new file", () => {
  const { read, write } = signer({ reload_callers: ["operator"] });
  assert.deepEqual(write, ["/etc/gateway/signer.json", "/etc/gateway/signer.json.new", "/var/log/signer"]);
  assert.ok(!read?.includes("/etc/gateway"));
});

Deno.test("signerPermissions() grants only the state database and not its directory", () => {
  const { write } = signer({ state_db: "state/signer.db" });
  assert.deepEqual(write, ["/srv/state/signer.db", "/var/log/signer"]);
});

Deno.test.each<{ name: string; key: object; expected: Partial<PermissionSet> }>([
  {
    name: "an agent: the agent's socket and the public key",
    key: { type: "agent", socket: "/run/agent.sock", public_key_path: "/etc/gateway/ca.pub" },
    expected: { write: ["/run/agent.sock", "/var/log/signer"] },
  },
  {
    name: "a vault with a client secret: the vault, the sign-in host and one variable",
    key: {
      type: "akv",
      vault_url: "https://kv.example",
      key_name: "ca",
      tenant_id: "t",
      client_id: "c",
      client_secret_env: "CA_SECRET",
    },
    expected: { env: ["CA_SECRET"], sys: ["osRelease"] },
  },
])("signerPermissions() grants for a CA key in $name", ({ key, expected }) => {
  const set = signer({ ca_key: "", ca_keys: { _default: key } });
  assert.deepEqual({ ...set, ...expected }, set);
  assert.ok(!set.read?.includes("/etc/gateway/pki/ssh_ca"), "a key file that is not used is not readable");
});

Deno.test("signerPermissions() rejects an agent whose socket is set only in the environment", () => {
  const key = { type: "agent", public_key_path: "/etc/gateway/ca.pub" };
  assert.throws(() => signer({ ca_key: "", ca_keys: { _default: key } }), INVALID);
});

Deno.test("signerPermissions() grants the issuer of end users' tokens", () => {
  const { net } = signer({ end_user_oidc: { issuer: "https://id.example/realm", audience: "a" } });
  assert.ok(Array.isArray(net) && net.includes("id.example:443"));
});

Deno.test("signerPermissions() grants a cluster's API server, and read access to its CA and token file", () => {
  const files = { ca_cert: "/k8s/ca.crt", token_file: "/k8s/token" };
  const cluster = sampleCluster({ api_server: "https://k8s.example", ...files });
  const { net, read, write } = signer({ kubernetes: { clusters: { prod: cluster } } });
  assert.ok(Array.isArray(net) && net.includes("k8s.example:443"));
  assert.ok(Array.isArray(read) && read.includes("/k8s/ca.crt") && read.includes("/k8s/token"));
  assert.deepEqual(write, ["/var/log/signer"]);
});

Deno.test("signerPermissions() ignores an invalid API server URL, which the policy reports", () => {
  const clusters = { prod: sampleCluster({ api_server: "10.0.0.5" }) };
  assert.deepEqual(signer({ kubernetes: { clusters } }).net, signer().net);
});

Deno.test.each([
  {
    name: "hosts of a database",
    changes: { state_db: "postgres://a@db1,127.0.0.1:5433,[::1]/gateway", instance: "a" },
    expected: { net: ["db1:5432", "127.0.0.1:5433", "[::1]:5432"], read: [], write: [], sys: undefined },
  },
  {
    name: "its socket",
    changes: { state_db: "postgres://a@%2Frun%2Fpostgresql/gateway", instance: "a" },
    expected: {
      net: ["unix:/run/postgresql/.s.PGSQL.5432"],
      read: ["/run/postgresql/.s.PGSQL.5432"],
      write: ["/run/postgresql/.s.PGSQL.5432"],
      sys: undefined,
    },
  },
  {
    name: "file of policy_tests",
    changes: { policy_tests: "tests.jsonc" },
    expected: { net: [], read: ["/srv/tests.jsonc"], write: [], sys: undefined },
  },
  {
    name: "files for it, and the machine's name where no other is set",
    changes: {
      state_db: "postgres://a@db1/gateway",
      state_db_password_file: "pw",
      state_db_ca: "/etc/db.crt",
    },
    expected: { net: ["db1:5432"], read: ["/srv/pw", "/etc/db.crt"], write: [], sys: ["hostname"] },
  },
])("signerPermissions() grants the $name", ({ changes, expected }) => {
  const [without, set] = [signer(), signer(changes)];
  const more = (key: "net" | "read" | "write") =>
    [...set[key] ?? []].filter((item) => !without[key]?.includes(item));
  assert.deepEqual(
    { net: more("net").sort(), read: more("read").sort(), write: more("write"), sys: set.sys },
    { ...expected, net: expected.net.toSorted(), read: expected.read.toSorted() },
  );
});

/** Time passes fast, so that all pauses happen. Waits long enough to be limits are skipped. */
function hastyClock() {
  let [now, pauses] = [0, 0];
  const sleep = (ms: number) => ms > 1 ? new Promise<void>(() => {}) : Promise.resolve(void pauses++);
  const clock: Clock = { now: () => now += 50, sleep };
  return { clock, pauses: () => pauses };
}

Deno.test("a config file with many hosts is parsed and compiled in slices that let requests run", async () => {
  const hostOf = (n: number) => [`host-${n}`, { ...CONFIG.hosts.open01, principal: `host:${n}` }];
  const hosts = Object.fromEntries(Array.from({ length: 200 }, (_, n) => hostOf(n)));
  const hasty = hastyClock();
  const file = openConfigFile("signer.json", { clock: hasty.clock, fetch, readEnv: () => undefined });
  const config = await file.parse(JSON.stringify({ ...CONFIG, hosts }));
  assert.equal(Object.keys(config.hosts).length, 200);
  const parsing = hasty.pauses();
  assert.ok(parsing >= 200, "once a host");
  // The CA key is loaded after the policy is compiled, and tests of this key must not read files.
  const compile = (previous?: Snapshot) =>
    assert.rejects(file.compile(JSON.stringify({ ...CONFIG, hosts }), previous), /Cannot read ca_key/);
  await compile(snapshotOf(CONFIG));
  const reloading = hasty.pauses();
  assert.ok(reloading - 2 * parsing >= 200, "once a host again");
  await compile({ ...snapshotOf(CONFIG), config });
  const again = hasty.pauses();
  assert.ok(reloading - parsing - (again - reloading) >= 200, "what is written as before is not read again");
  await compile();
  assert.equal(hasty.pauses(), again, "at the start nobody waits");
});

Deno.test("HostListResponses.answer() answers callers without end, each with its own", () => {
  const lists = snapshotOf(CONFIG).hostLists;
  const tag = lists.answer("broker-1", null).headers.get("etag");
  const none = lists.answer("stranger", null).headers.get("etag");
  assert.notEqual(tag, none);
  for (let n = 0; n < 3000; n++) assert.equal(lists.answer(`stranger-${n}`, none).status, 304);
  assert.equal(lists.answer("broker-1", tag).status, 304);
  assert.equal(lists.answer("broker-1", none).status, 200);
});
