import assert from "node:assert/strict";
import { brokerConfig } from "../config/broker.ts";
import { controlPlaneConfig } from "../config/control_plane.ts";
import { signerConfig } from "../config/signer.ts";
import { AppError } from "../errors.ts";
import { type BrokerFrontend, brokerPermissions } from "./broker.ts";
import { controlPlanePermissions } from "./control_plane.ts";
import type { PermissionSet } from "./set.ts";
import { signerPermissions } from "./signer.ts";

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

const CONTROL_PLANE = {
  listen: ":7443",
  server_cert: "/etc/gateway/pki/cp.crt",
  server_key: "/etc/gateway/pki/cp.key",
  client_ca: "/etc/gateway/pki/mtls_ca.crt",
  signer: {
    url: "https://127.0.0.1:9443",
    client_cert: "/etc/gateway/pki/cp-client.crt",
    client_key: "/etc/gateway/pki/cp-client.key",
    ca: "/etc/gateway/pki/mtls_ca.crt",
  },
  audit_log: "/var/log/control-plane/audit.log",
  audit_key: "/etc/gateway/cp.seed",
};

const controlPlane = (changes: object = {}) =>
  controlPlanePermissions(controlPlaneConfig.parse({ ...CONTROL_PLANE, ...changes }), {
    configPath: "/etc/gateway/control-plane.json",
    workingFolder: "/srv",
  });

const signer = (changes: object = {}, configPath = "/etc/gateway/signer.json") =>
  signerPermissions(signerConfig.parse({ ...SIGNER, ...changes }), { configPath, workingFolder: "/srv" });

const broker = (frontend: BrokerFrontend, changes: object = {}) =>
  brokerPermissions(brokerConfig.parse({ ...BROKER, ...changes }), {
    configPath: "/etc/gateway/config.json",
    workingFolder: "/srv",
    frontend,
  });

const isInvalidConfig = (error: unknown) => error instanceof AppError && error.code === "invalid_config";

Deno.test("signerPermissions() grants the files of the config, its log folder and its listeners", () => {
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
    name: "resolves relative paths against the working folder",
    changes: { ca_key: "pki/ca", audit_log: "./log/../log/audit.log" },
    config: "signer.json",
    expected: { write: ["/srv/log"] },
  },
  {
    name: "keeps files beside the log read-only",
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
    name: "takes a folder whose name only begins alike for another",
    changes: { audit_log: "/etc/gate/audit.log" },
    expected: { write: ["/etc/gate"] },
  },
  {
    name: "needs no network for a monitor that is off",
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
  { name: "a log in the root folder", changes: { audit_log: "/audit.log" } },
  { name: "a CA key that is the log", changes: { ca_key: "/var/log/signer/audit.log" } },
  { name: "a certificate that is the log's folder", changes: { server_cert: "/var/log/signer/" } },
  { name: "a listen address with a host name", changes: { listen: "signer.example:9443" } },
])("signerPermissions() refuses $name", ({ changes }) => {
  assert.throws(() => signer(changes), isInvalidConfig);
});

Deno.test("signerPermissions() wants an absolute working folder", () => {
  const config = signerConfig.parse(SIGNER);
  assert.throws(
    () => signerPermissions(config, { configPath: "signer.json", workingFolder: "." }),
    TypeError,
  );
});

Deno.test("brokerPermissions() over HTTP grants the listener and its certificate", () => {
  assert.deepEqual(broker("serve-http", { hosts: { web01: { addr: "10.0.0.5:22" } } }), {
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

Deno.test("brokerPermissions() over stdio grants no listener and no server key", () => {
  const set = broker("serve-mcp", {
    hosts: { web01: { addr: "10.0.0.5:22" } },
    monitor_listen: "127.0.0.1:9180",
  });
  assert.deepEqual(set.net, ["10.0.0.5:22", "127.0.0.1:9180", "127.0.0.1:9443"]);
  assert.deepEqual(set.read?.filter((path) => path.includes("http")), []);
});

Deno.test("brokerPermissions() with tokens grants the provider and no CA of clients", () => {
  const set = broker("serve-mcp-http", {
    listen: "127.0.0.1:8443",
    server_cert: "/etc/gateway/pki/http.crt",
    server_key: "/etc/gateway/pki/http.key",
    client_ca: "/etc/gateway/pki/http_ca.crt",
    hosts: { web01: { addr: "10.0.0.5:22" } },
    oauth: { issuer: "https://login.example/realm", audience: "https://gateway.example" },
  });
  assert.deepEqual(set.net, ["10.0.0.5:22", "127.0.0.1:8443", "127.0.0.1:9443", "login.example:443"]);
  assert.deepEqual(set.read?.filter((path) => path.includes("http")), [
    "/etc/gateway/pki/http.crt",
    "/etc/gateway/pki/http.key",
  ]);
});

Deno.test("brokerPermissions() grants the provider to no frontend without tokens", () => {
  const oauth = { issuer: "https://login.example", audience: "https://gateway.example" };
  const hosts = { web01: { addr: "10.0.0.5:22" } };
  for (const frontend of ["serve-http", "serve-mcp"] as const) {
    assert.equal(JSON.stringify(broker(frontend, { oauth, hosts }).net).includes("login.example"), false);
  }
});

Deno.test("brokerPermissions() grants any address only when the config names no host", () => {
  assert.equal(broker("serve-mcp").net, "any");
  assert.notEqual(broker("serve-mcp", { hosts: { a: { addr: "10.0.0.5:22" } } }).net, "any");
});

Deno.test.each([
  { name: "over HTTP", frontend: "serve-http" as const },
  { name: "over stdio", frontend: "serve-mcp" as const },
  { name: "with tokens", frontend: "serve-mcp-http" as const },
])("brokerPermissions() $name reaches no key of the signer", ({ frontend }) => {
  const granted = broker(frontend).read ?? [];
  const keys = [SIGNER.ca_key, SIGNER.server_key, SIGNER.audit_key];
  const reached = keys.filter((key) => granted.some((path) => key === path || key.startsWith(`${path}/`)));
  assert.deepEqual(reached, []);
});

Deno.test("signerPermissions() lets a signer with admins write its config and the file that replaces it, no more", () => {
  const { read, write } = signer({ reload_callers: ["operator"] });
  assert.deepEqual(write, ["/etc/gateway/signer.json", "/etc/gateway/signer.json.new", "/var/log/signer"]);
  assert.ok(!read?.includes("/etc/gateway"));
});

Deno.test("signerPermissions() grants the state database alone, not its folder", () => {
  const { write } = signer({ state_db: "state/signer.db" });
  assert.deepEqual(write, ["/srv/state/signer.db", "/var/log/signer"]);
});

Deno.test.each<{ name: string; key: object; expected: Partial<PermissionSet> }>([
  {
    name: "an agent: its socket and the public key",
    key: { type: "agent", socket: "/run/agent.sock", public_key_path: "/etc/gateway/ca.pub" },
    expected: { write: ["/run/agent.sock", "/var/log/signer"] },
  },
  {
    name: "a vault with a client secret: vault, sign-in, one variable",
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

Deno.test("signerPermissions() refuses an agent whose socket only the environment names", () => {
  const key = { type: "agent", public_key_path: "/etc/gateway/ca.pub" };
  assert.throws(() => signer({ ca_key: "", ca_keys: { _default: key } }), isInvalidConfig);
});

Deno.test("signerPermissions() grants the issuer of end users' tokens", () => {
  const { net } = signer({ end_user_oidc: { issuer: "https://id.example/realm", audience: "a" } });
  assert.ok(Array.isArray(net) && net.includes("id.example:443"));
});

Deno.test("controlPlanePermissions() grants the files of the config, its log folder, its listener and the signer", () => {
  assert.deepEqual(controlPlane(), {
    read: [
      "/etc/gateway/control-plane.json",
      "/etc/gateway/cp.seed",
      "/etc/gateway/pki/cp-client.crt",
      "/etc/gateway/pki/cp-client.key",
      "/etc/gateway/pki/cp.crt",
      "/etc/gateway/pki/cp.key",
      "/etc/gateway/pki/mtls_ca.crt",
      "/var/log/control-plane",
    ],
    write: ["/var/log/control-plane"],
    net: ["0.0.0.0:7443", "127.0.0.1:9443"],
    ignoreEnv: "all",
  });
});

Deno.test("controlPlanePermissions() grants the state database alone, and the monitor's listener", () => {
  const { read, write, net } = controlPlane({ state_db: "state/cp.db", monitor_listen: "127.0.0.1:9170" });
  assert.deepEqual(write, ["/srv/state/cp.db", "/var/log/control-plane"]);
  assert.ok(read?.includes("/srv/state/cp.db"));
  assert.deepEqual(net, ["0.0.0.0:7443", "127.0.0.1:9170", "127.0.0.1:9443"]);
});

Deno.test.each([
  { name: "webhook", url: "https://hooks.example/x", net: "hooks.example:443" },
  { name: "teams", url: "https://hooks.example:8443/x", net: "hooks.example:8443" },
  { name: "webhook", url: "http://localhost/x", net: "localhost:80" },
  { name: "webhook", url: "http://[::1]:8080/x", net: "[::1]:8080" },
])("controlPlanePermissions() grants notifier $name to $url, and one variable", ({ name, url, net }) => {
  const set = controlPlane({
    approval: { notifier: name, webhook_url: url, webhook_secret_env: "HOOK_SECRET" },
  });
  assert.ok(Array.isArray(set.net) && set.net.includes(net), String(set.net));
  assert.deepEqual(set.env, ["HOOK_SECRET"]);
});

Deno.test("controlPlanePermissions() grants nothing of a webhook that is not used", () => {
  const approval = {
    notifier: "log",
    webhook_url: "https://hooks.example/x",
    webhook_secret_env: "HOOK_SECRET",
  };
  const set = controlPlane({ approval });
  assert.deepEqual([set.net, set.env], [["0.0.0.0:7443", "127.0.0.1:9443"], undefined]);
});

Deno.test("brokerPermissions() lets the recordings' folder be written to and not read, and no key in it be changed", () => {
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

Deno.test("brokerPermissions() refuses the root of the file system as the recordings' folder", () => {
  const config = brokerConfig.parse({ ...BROKER, session_recording_dir: "/" });
  const location = { configPath: "/c.json", workingFolder: "/", frontend: "serve-mcp" as const };
  assert.throws(() => brokerPermissions(config, location), { code: "invalid_config" });
});
