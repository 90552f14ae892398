import assert from "node:assert/strict";
import { brokerConfig } from "../config/broker.ts";
import { signerConfig } from "../config/signer.ts";
import { AppError } from "../errors.ts";
import { brokerPermissions } from "./broker.ts";
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

const signer = (changes: Partial<typeof SIGNER> = {}, configPath = "/etc/gateway/signer.json") =>
  signerPermissions(signerConfig.parse({ ...SIGNER, ...changes }), { configPath, workingFolder: "/srv" });

const broker = (frontend: "serve-http" | "serve-mcp", changes: object = {}) =>
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

Deno.test("brokerPermissions() grants any address only when the config names no host", () => {
  assert.equal(broker("serve-mcp").net, "any");
  assert.notEqual(broker("serve-mcp", { hosts: { a: { addr: "10.0.0.5:22" } } }).net, "any");
});

Deno.test.each([
  { name: "over HTTP", frontend: "serve-http" as const },
  { name: "over stdio", frontend: "serve-mcp" as const },
])("brokerPermissions() $name reaches no key of the signer", ({ frontend }) => {
  const granted = broker(frontend).read ?? [];
  const keys = [SIGNER.ca_key, SIGNER.server_key, SIGNER.audit_key];
  const reached = keys.filter((key) => granted.some((path) => key === path || key.startsWith(`${path}/`)));
  assert.deepEqual(reached, []);
});
