import assert from "node:assert/strict";
import { brokerConfig } from "./config.ts";
import { type BrokerFrontend, brokerPermissions } from "./permissions.ts";
import { AppError } from "@gateway/shared/errors";
import { sampleCluster } from "@gateway/shared/testing";

const BROKER = {
  listen: "127.0.0.1:8443",
  server_cert: "/etc/gateway/pki/http.crt",
  server_key: "/etc/gateway/pki/http.key",
  client_ca: "/etc/gateway/pki/mtls_ca.crt",
  signer: {
    url: "https://127.0.0.1:9443",
    client_cert: "/etc/gateway/pki/broker.crt",
    client_key: "/etc/gateway/pki/broker.key",
    ca: "/etc/gateway/pki/mtls_ca.crt",
  },
  audit_log: "/var/log/broker/audit.log",
  audit_key: "/etc/gateway/broker.seed",
};

const broker = (frontend: BrokerFrontend, changes: object = {}) =>
  brokerPermissions(brokerConfig.parse({ ...BROKER, ...changes }), {
    configPath: "/etc/gateway/config.json",
    workingFolder: "/srv",
    frontend,
  });

Deno.test("brokerPermissions() over HTTP grants the listener and its certificate", () => {
  assert.deepEqual(broker("serve-http", { networks: ["10.0.0.5:22"] }), {
    read: [
      "/etc/gateway/broker.seed",
      "/etc/gateway/config.json",
      "/etc/gateway/pki/broker.crt",
      "/etc/gateway/pki/broker.key",
      "/etc/gateway/pki/http.crt",
      "/etc/gateway/pki/http.key",
      "/etc/gateway/pki/mtls_ca.crt",
      "/var/log/broker",
    ],
    write: ["/var/log/broker"],
    net: ["10.0.0.5:22", "127.0.0.1:8443", "127.0.0.1:9443"],
    ignoreEnv: "all",
  });
});

Deno.test("brokerPermissions() grants each socket over HTTP and no socket over stdio", () => {
  const changes = {
    networks: ["10.0.0.5:22"],
    sockets: [{ path: "/run/gw/ann.sock", caller: "ann" }, { path: "s/bob.sock", caller: "bob" }],
  };
  const { read, write, net } = broker("serve-http", changes);
  assert.deepEqual(read?.filter((path) => /gw|srv/.test(path)), ["/run/gw", "/srv/s"]);
  assert.deepEqual(write, ["/run/gw", "/srv/s", "/var/log/broker"]);
  assert.deepEqual(Array.isArray(net) && net.filter((address: string) => address.startsWith("unix:")), [
    ...["unix:/run/gw/ann.sock", "unix:/run/gw/ann.sock.new/s"],
    ...["unix:/srv/s/bob.sock", "unix:/srv/s/bob.sock.new/s"],
  ]);
  const nearKey = broker("serve-http", { sockets: [{ path: "/etc/gateway/pki/s", caller: "ann" }] });
  assert.ok(nearKey.denyWrite?.includes("/etc/gateway/pki/http.key"));
  assert.deepEqual(broker("serve-mcp", changes), broker("serve-mcp", { networks: changes.networks }));
});

Deno.test("brokerPermissions() grants the address of each of several signers", () => {
  const { url: _one, ...signer } = BROKER.signer;
  const { net } = broker("serve-mcp", {
    signer: { ...signer, urls: ["https://10.0.0.1:9443", "https://s2:9443"] },
    networks: ["10.0.0.5:22"],
  });
  assert.deepEqual(net, ["10.0.0.1:9443", "10.0.0.5:22", "s2:9443"]);
});

Deno.test("brokerPermissions() over stdio grants no listener and no server key", () => {
  const set = broker("serve-mcp", {
    networks: ["10.0.0.5:22"],
    monitor_listen: "127.0.0.1:9180",
  });
  assert.deepEqual(set.net, ["10.0.0.5:22", "127.0.0.1:9180", "127.0.0.1:9443"]);
  assert.deepEqual(set.read?.filter((path) => path.includes("http")), []);
});

Deno.test("brokerPermissions() with tokens grants the OAuth provider but no client CA", () => {
  const set = broker("serve-mcp-http", {
    listen: "127.0.0.1:8443",
    server_cert: "/etc/gateway/pki/http.crt",
    server_key: "/etc/gateway/pki/http.key",
    client_ca: "/etc/gateway/pki/http_ca.crt",
    networks: ["10.0.0.5:22"],
    oauth: { issuer: "https://login.example/realm", audience: "https://gateway.example" },
  });
  assert.deepEqual(set.net, ["10.0.0.5:22", "127.0.0.1:8443", "127.0.0.1:9443", "login.example:443"]);
  assert.deepEqual(set.read?.filter((path) => path.includes("http")), [
    "/etc/gateway/pki/http.crt",
    "/etc/gateway/pki/http.key",
  ]);
});

Deno.test("brokerPermissions() grants the OAuth provider to no frontend that does not accept tokens", () => {
  const oauth = { issuer: "https://login.example", audience: "https://gateway.example" };
  const hosts = { web01: { addr: "10.0.0.5:22" } };
  for (const frontend of ["serve-http", "serve-mcp"] as const) {
    assert.equal(JSON.stringify(broker(frontend, { oauth, hosts }).net).includes("login.example"), false);
  }
});

Deno.test.each<{ name: string; changes: object; net: readonly string[] | "any" }>([
  { name: "any address where the config names none", changes: {}, net: "any" },
  {
    name: "any address if the config names only hosts, which remote mode ignores",
    changes: { hosts: { a: { addr: "10.0.0.5:22" } } },
    net: "any",
  },
  {
    name: "the networks that the config names",
    changes: { networks: ["10.0.0.0/8:22", "*.prod.example:22"] },
    net: ["*.prod.example:22", "10.0.0.0/8:22", "127.0.0.1:9443"],
  },
  {
    name: "no host if the config names only API servers",
    changes: { api_servers: ["https://10.0.0.6:6443", "https://[::1]"] },
    net: ["10.0.0.6:6443", "127.0.0.1:9443", "[::1]:443"],
  },
  {
    name: "the networks and API servers that the config names",
    changes: { networks: ["10.0.0.5:22"], api_servers: ["https://api.prod.example:6443/x"] },
    net: ["10.0.0.5:22", "127.0.0.1:9443", "api.prod.example:6443"],
  },
])("brokerPermissions() grants $name", ({ changes, net }) => {
  assert.deepEqual(broker("serve-mcp", changes).net, net);
});

Deno.test.each([
  { name: "over HTTP", frontend: "serve-http" as const },
  { name: "over stdio", frontend: "serve-mcp" as const },
  { name: "with tokens", frontend: "serve-mcp-http" as const },
])("brokerPermissions() $name grants no key of the signer", ({ frontend }) => {
  const granted = broker(frontend).read ?? [];
  const keys = ["/etc/gateway/pki/ssh_ca", "/etc/gateway/pki/signer.key", "/etc/gateway/audit.seed"];
  const reached = keys.filter((key) => granted.some((path) => key === path || key.startsWith(`${path}/`)));
  assert.deepEqual(reached, []);
});

Deno.test("brokerPermissions() grants only writing in the recordings directory and denies changes of keys in it", () => {
  const config = brokerConfig.parse({ ...BROKER, session_recording_dir: "/etc/gateway" });
  const { read, write, denyWrite } = brokerPermissions(config, {
    configPath: "/etc/gateway/config.json",
    workingFolder: "/",
    frontend: "serve-mcp",
  });
  assert.deepEqual(write, ["/etc/gateway", "/var/log/broker"]);
  assert.equal(read?.includes("/etc/gateway"), false);
  for (const path of ["config.json", "broker.seed", "pki/broker.key"]) {
    assert.ok(denyWrite?.includes(`/etc/gateway/${path}`), path);
  }
});

Deno.test("brokerPermissions() rejects the file system root as the recordings directory", () => {
  const config = brokerConfig.parse({ ...BROKER, session_recording_dir: "/" });
  const location = { configPath: "/c.json", workingFolder: "/", frontend: "serve-mcp" as const };
  assert.throws(() => brokerPermissions(config, location), { code: "invalid_config" });
});

const HOST = { addr: "10.0.0.5:22", user: "deploy", host_key: "k" };
const LOCAL = {
  listen: "127.0.0.1:8443",
  server_cert: "pki/http.crt",
  server_key: "pki/http.key",
  client_ca: "pki/mtls_ca.crt",
  ca_key: "pki/ssh_ca",
  audit_log: "log/audit.log",
  audit_key: "pki/audit.seed",
  hosts: { web01: HOST },
};
const SIGNER = { url: "https://127.0.0.1:9443", client_cert: "c", client_key: "k", ca: "a" };

function derive(changes: object = {}, frontend: "serve-http" | "serve-mcp" = "serve-mcp") {
  const config = brokerConfig.parse({ ...LOCAL, ...changes });
  return brokerPermissions(config, { configPath: "config.json", workingFolder: "/srv", frontend });
}

Deno.test("brokerPermissions() in local mode grants the CA key and the hosts but no signer", () => {
  assert.deepEqual(derive(), {
    read: ["/srv/config.json", "/srv/log", "/srv/pki/audit.seed", "/srv/pki/ssh_ca"],
    write: ["/srv/log"],
    net: ["10.0.0.5:22"],
    ignoreEnv: "all",
  });
  const http = derive({}, "serve-http");
  assert.deepEqual(http.net, ["10.0.0.5:22", "127.0.0.1:8443"]);
  assert.ok(http.read?.includes("/srv/pki/http.key"));
});

Deno.test("brokerPermissions() in local mode grants no network address if there is no host", () => {
  assert.equal(derive({ hosts: {} }).net, undefined);
});

Deno.test("brokerPermissions() grants the clusters' API servers and files, and policy_tests, only in local mode", () => {
  const kubernetes = { clusters: { prod: sampleCluster() } };
  const { read, net } = derive({ kubernetes, policy_tests: "clusters/tests.jsonc" });
  assert.deepEqual(net, ["10.0.0.5:22", "10.0.0.5:6443"]);
  for (const file of ["prod.ca.crt", "prod.token", "tests.jsonc"]) {
    assert.ok(read?.includes(`/srv/clusters/${file}`), file);
  }
  const remote = derive({
    kubernetes,
    policy_tests: "clusters/tests.jsonc",
    signer: SIGNER,
    networks: ["10.0.0.6:22"],
  });
  assert.deepEqual(remote.net, ["10.0.0.6:22", "127.0.0.1:9443"]);
  assert.ok(!JSON.stringify(remote.read).includes("clusters"));
});

Deno.test("brokerPermissions() in local mode grants no address behind a bastion", () => {
  const hosts = { hop: HOST, db01: { ...HOST, addr: "10.1.0.9:22", jump: "hop" } };
  assert.deepEqual(derive({ hosts }).net, ["10.0.0.5:22"]);
});

Deno.test.each([
  {
    name: "an agent: its socket and the public key",
    key: { type: "agent", socket: "/run/agent.sock", public_key_path: "pki/ca.pub" },
    expected: {
      read: ["/run/agent.sock", "/srv/config.json", "/srv/log", "/srv/pki/audit.seed", "/srv/pki/ca.pub"],
      write: ["/run/agent.sock", "/srv/log"],
      net: ["10.0.0.5:22", "unix:/run/agent.sock"],
    },
  },
  {
    name: "a vault: its address and the cloud's identity",
    key: { type: "akv", vault_url: "https://kv.example", key_name: "ca" },
    expected: { net: ["10.0.0.5:22", "169.254.169.254:80", "kv.example:443"], sys: ["osRelease"] },
  },
])("brokerPermissions() in local mode grants for a CA key in $name", ({ key, expected }) => {
  const set = derive({ ca_key: "", ca_keys: { _default: key } });
  assert.deepEqual({ ...set, ...expected }, set);
  assert.ok(!set.read?.includes("/srv/pki/ssh_ca"));
});

Deno.test("brokerPermissions() in local mode rejects an SSH agent key without a configured socket", () => {
  const key = { type: "agent", public_key_path: "pki/ca.pub" };
  assert.throws(
    () => derive({ ca_key: "", ca_keys: { _default: key } }),
    (error) => error instanceof AppError && error.code === "invalid_config",
  );
});

Deno.test("brokerPermissions() in remote mode grants no CA key that the config still names", () => {
  const ca_keys = { prod: { type: "agent", socket: "/run/agent.sock", public_key_path: "pki/ca.pub" } };
  const { read = [], write = [] } = derive({ signer: SIGNER, ca_keys });
  for (const path of ["/srv/pki/ssh_ca", "/srv/pki/ca.pub", "/run/agent.sock"]) {
    assert.ok(![...read, ...write].includes(path), path);
  }
});
