import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { sampleCluster } from "@gateway/shared/testing";
import { brokerConfig } from "./config.ts";
import { brokerPermissions } from "./permissions.ts";

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

Deno.test("brokerPermissions() in local mode grants the CA key and the hosts, and no signer", () => {
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

Deno.test("brokerPermissions() in local mode grants nothing to connect to where there is no host", () => {
  assert.equal(derive({ hosts: {} }).net, undefined);
});

Deno.test("brokerPermissions() in local mode grants the clusters' API servers and files; with a signer neither", () => {
  const kubernetes = { clusters: { prod: sampleCluster() } };
  const { read, net } = derive({ kubernetes });
  assert.deepEqual(net, ["10.0.0.5:22", "10.0.0.5:6443"]);
  for (const file of ["prod.ca.crt", "prod.token"]) assert.ok(read?.includes(`/srv/clusters/${file}`), file);
  const remote = derive({ kubernetes, signer: SIGNER, networks: ["10.0.0.6:22"] });
  assert.deepEqual(remote.net, ["10.0.0.6:22", "127.0.0.1:9443"]);
  assert.ok(!JSON.stringify(remote.read).includes("clusters"));
});

Deno.test("brokerPermissions() in local mode grants no address that is reached through a bastion", () => {
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

Deno.test("brokerPermissions() in local mode refuses an agent whose socket only the environment names", () => {
  const key = { type: "agent", public_key_path: "pki/ca.pub" };
  assert.throws(
    () => derive({ ca_key: "", ca_keys: { _default: key } }),
    (error) => error instanceof AppError && error.code === "invalid_config",
  );
});

Deno.test("brokerPermissions() in remote mode keeps a CA key that the config still names out of reach", () => {
  const ca_keys = { prod: { type: "agent", socket: "/run/agent.sock", public_key_path: "pki/ca.pub" } };
  const { read = [], write = [] } = derive({ signer: SIGNER, ca_keys });
  for (const path of ["/srv/pki/ssh_ca", "/srv/pki/ca.pub", "/run/agent.sock"]) {
    assert.ok(![...read, ...write].includes(path), path);
  }
});
