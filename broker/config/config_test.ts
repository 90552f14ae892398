import assert from "node:assert/strict";
import { AppError } from "@gateway/shared/errors";
import { sampleCluster } from "@gateway/shared/testing";
import { parseConfig } from "@gateway/shared/config";
import { brokerConfig, UNSUPPORTED_BROKER_KEYS } from "./config.ts";
import type { BrokerFrontend } from "./permissions.ts";
import { type CommandLine, parseCommandLine } from "./command_line.ts";

const BASE = { audit_log: "log/audit.log", audit_key: "seed" };
const SIGNER = { url: "https://127.0.0.1:9443", client_cert: "c", client_key: "k", ca: "a" };
const HOST = { addr: "10.0.0.1:22", user: "deploy", host_key: "k" };

function parse(keys: object) {
  return parseConfig({
    text: JSON.stringify({ ...BASE, ...keys }),
    source: "config.json",
    what: "broker config",
    schema: brokerConfig,
    unsupported: UNSUPPORTED_BROKER_KEYS,
  });
}

Deno.test.each([
  ["remote mode with a long lifetime, which the signer shortens", { signer: SIGNER, max_ttl_seconds: 3600 }],
  ["remote mode with keys of local mode", { signer: SIGNER, ca_key: "k", hosts: { web01: HOST } }],
  ["local mode with one key", { ca_key: "ssh_ca", hosts: { web01: HOST } }],
  ["the largest file that can be read whole", { signer: SIGNER, file_transfer_max_bytes: 10_485_759 }],
  ["local mode with a default among several keys", {
    ca_keys: { _default: { type: "pem", path: "ssh_ca" } },
    max_ttl_seconds: 900,
  }],
])("brokerConfig accepts %s", (_name, keys) => {
  parse(keys);
});

Deno.test.each([
  {
    name: "a config of neither local nor remote mode",
    keys: {},
    message: "needs signer (remote mode), or ca_key or ca_keys._default (local mode)",
  },
  {
    name: "local mode with a CA key for only some groups",
    keys: { ca_keys: { prod: { type: "pem", path: "ssh_ca" } } },
    message: "needs signer (remote mode), or ca_key or ca_keys._default (local mode)",
  },
  {
    name: "an empty signer block",
    keys: { signer: {}, ca_key: "ssh_ca" },
    message: 'missing key "signer.client_cert"',
  },
  {
    name: "a signer without url or urls",
    keys: { signer: { ...SIGNER, url: undefined } },
    message: "signer: names neither url nor urls",
  },
  {
    name: "a signer with both url and urls",
    keys: { signer: { ...SIGNER, urls: ["https://b:1"] } },
    message: "signer.urls: cannot be combined with url: list all addresses in urls",
  },
  {
    name: "a signer address that is listed twice",
    keys: { signer: { ...SIGNER, url: undefined, urls: ["https://b:1", "https://b:1/"] } },
    message: "signer.urls: lists an address twice",
  },
  {
    name: "a file size limit above the output limit of a command",
    keys: { signer: SIGNER, file_transfer_max_bytes: 10_485_760 },
    message: "file_transfer_max_bytes: must be at most 10485759, the limit of a command's output",
  },
  {
    name: "a max_ttl_seconds above the certificate cap in local mode",
    keys: { ca_key: "ssh_ca", max_ttl_seconds: 901 },
    message: "max_ttl_seconds: 901 exceeds the 900s (15m) certificate cap (local mode)",
  },
  {
    name: "a host's own max_ttl_seconds, which only the signer has",
    keys: { ca_key: "ssh_ca", hosts: { web01: { ...HOST, max_ttl_seconds: 60 } } },
    message: 'unknown key "hosts.web01.max_ttl_seconds"',
  },
  {
    name: "an unknown key next to keys that remote mode ignores",
    keys: { signer: SIGNER, ca_key: "k", hosts: { web01: { ...HOST, alow_sudo: true } } },
    message: 'unknown key "hosts.web01.alow_sudo" (did you mean "allow_sudo"?)',
  },
  {
    name: "a network without a port",
    keys: { signer: SIGNER, networks: ["10.0.0.0/8"] },
    message:
      "networks[0]: must be 10.0.0.0/8:22, *.example.com:22 or host:port (the runtime knows no IPv6 ranges)",
  },
  {
    name: "an API server without a scheme",
    keys: { signer: SIGNER, api_servers: ["10.0.0.6:6443"] },
    message: "api_servers[0]: must be https://host:port",
  },
  {
    name: "networks in local mode",
    keys: { networks: ["10.0.0.0/8:22"] },
    message: "networks: has no effect in local mode (no signer): the process may connect only to its hosts",
  },
  {
    name: "API servers in local mode",
    keys: { api_servers: ["https://10.0.0.6:6443"] },
    message: "api_servers: has no effect in local mode (no signer): name the clusters in kubernetes",
  },
  {
    name: "a socket that any account can connect to",
    keys: { signer: SIGNER, sockets: [{ path: "s", caller: "ann", mode: "0666" }] },
    message: "sockets[0].mode",
  },
  {
    name: "a socket without a caller",
    keys: { signer: SIGNER, sockets: [{ path: "s", caller: "" }] },
    message: "sockets[0].caller",
  },
  {
    name: "the name of a host's KRL client as the caller of a socket",
    keys: { signer: SIGNER, sockets: [{ path: "s", caller: "web01.krl" }] },
    message: "sockets[0].caller: must not have control characters or end with .krl",
  },
  {
    name: "a socket path that is too long",
    keys: { signer: SIGNER, sockets: [{ path: `/${"x".repeat(101)}`, caller: "ann" }] },
    message: "sockets[0].path: must be at most 101 bytes; set another path with init --socket",
  },
  {
    name: "two sockets with one caller",
    keys: { signer: SIGNER, sockets: [{ path: "s", caller: "ann" }, { path: "t", caller: "Ann." }] },
    message: "sockets: two sockets have the same caller",
  },
  {
    name: "two callers with one socket path",
    keys: { signer: SIGNER, sockets: [{ path: "s", caller: "ann" }, { path: "./s", caller: "bob" }] },
    message: "sockets: two sockets have the same path",
  },
  {
    name: "sealed_exec in local mode",
    keys: { ca_key: "ssh_ca", hosts: { web01: { ...HOST, sealed_exec: true } } },
    message: '"hosts.web01.sealed_exec": not supported yet by this version',
  },
  {
    name: "approvals_required in local mode",
    keys: {
      ca_key: "ssh_ca",
      kubernetes: { clusters: { prod: { ...sampleCluster(), approvals_required: 1 } } },
    },
    message: 'cluster "prod" has approvals_required, which needs a signer',
  },
  {
    name: "a token_binding in local mode",
    keys: {
      ca_key: "ssh_ca",
      kubernetes: { clusters: { prod: { ...sampleCluster(), token_binding: { namespace: "gateway" } } } },
    },
    message: 'cluster "prod" has token_binding, which needs a signer',
  },
])("brokerConfig rejects $name", ({ keys, message }) => {
  assert.throws(() => parse(keys), (error) => {
    assert.ok(error instanceof AppError);
    assert.ok(error.message.includes(message), error.message);
    return true;
  });
});

Deno.test.each([0, -1])("brokerConfig replaces %i by the default file_transfer_max_bytes", (bytes) => {
  assert.equal(parse({ signer: SIGNER, file_transfer_max_bytes: bytes }).file_transfer_max_bytes, 524_288);
});

const CONFIG = {
  signer: { url: "https://127.0.0.1:9443", client_cert: "a", client_key: "b", ca: "c" },
  audit_log: "log/audit.log",
  audit_key: "audit.seed",
};
const OAUTH = { issuer: "https://login.example", audience: "https://gateway.example/mcp" };

Deno.test("brokerConfig accepts an oauth block and a resource_url", () => {
  const config = brokerConfig.parse({
    ...CONFIG,
    oauth: OAUTH,
    resource_url: "https://gateway.example:8443/mcp",
  });
  assert.equal(config.oauth?.user_claim, "sub");
  assert.equal(config.resource_url, "https://gateway.example:8443/mcp");
});

Deno.test("brokerConfig does not require oauth or resource_url", () => {
  const config = brokerConfig.parse(CONFIG);
  assert.deepEqual([config.oauth, config.resource_url], [undefined, ""]);
});

Deno.test.each([
  { name: "plain http", change: { resource_url: "http://gateway.example/mcp" } },
  { name: "plain http on loopback", change: { resource_url: "http://127.0.0.1/mcp" } },
  { name: "no URL", change: { resource_url: "gateway.example" } },
  { name: "a query", change: { resource_url: "https://gateway.example/mcp?x" } },
  { name: "a fragment", change: { resource_url: "https://gateway.example/mcp#x" } },
  { name: "a user", change: { resource_url: "https://a:b@gateway.example/mcp" } },
  { name: "a quote", change: { resource_url: 'https://gateway.example/"mcp' } },
  { name: "an unknown key in oauth", change: { oauth: { ...OAUTH, scopes: ["mcp"] } } },
  { name: "a scope with a quote", change: { oauth: { ...OAUTH, required_scopes: ['a"b'] } } },
  { name: "an oauth block without audience", change: { oauth: { issuer: OAUTH.issuer } } },
])("brokerConfig rejects $name", ({ change }) => {
  assert.equal(brokerConfig.safeParse({ ...CONFIG, ...change }).success, false);
});

const serve = (frontend: BrokerFrontend, config = "config.json") => ({
  kind: "serve",
  frontend,
  config,
  logFormat: "auto",
});

Deno.test.each<{ args: string; gives: object }>([
  { args: "serve-http", gives: serve("serve-http") },
  { args: "serve-mcp", gives: serve("serve-mcp") },
  { args: "serve-mcp -config f.json", gives: serve("serve-mcp", "f.json") },
  { args: "serve-mcp --config f.json", gives: serve("serve-mcp", "f.json") },
  { args: "serve-mcp -config=f.json", gives: serve("serve-mcp", "f.json") },
  { args: "serve-mcp --config=f.json", gives: serve("serve-mcp", "f.json") },
  { args: "serve-mcp-http -config f.json", gives: serve("serve-mcp-http", "f.json") },
  { args: "connect /run/a.sock", gives: { kind: "connect", socket: "/run/a.sock" } },
  { args: "connect --help", gives: { kind: "help" } },
  { args: "init", gives: { kind: "init", args: [] } },
  { args: "init --dir x -h", gives: { kind: "init", args: ["--dir", "x", "-h"] } },
  { args: "version", gives: { kind: "version", verbose: false } },
  { args: "version --verbose", gives: { kind: "version", verbose: true } },
  { args: "--version", gives: { kind: "version", verbose: false } },
  { args: "-version", gives: { kind: "version", verbose: false } },
  { args: "-version -verbose", gives: { kind: "version", verbose: true } },
  { args: "serve-http -version", gives: { kind: "version", verbose: false } },
  { args: "help", gives: { kind: "help" } },
  { args: "-h", gives: { kind: "help" } },
  { args: "--help", gives: { kind: "help" } },
  { args: "serve-mcp -h", gives: { kind: "help" } },
  { args: "", gives: { kind: "misused", problem: "a command is required" } },
  { args: "-config f.json", gives: { kind: "misused", problem: "a command is required" } },
  { args: "serve", gives: { kind: "misused", problem: 'unknown command "serve"' } },
  { args: "serve-mcp-https", gives: { kind: "misused", problem: 'unknown command "serve-mcp-https"' } },
])("parseCommandLine() parses `gateway $args`", ({ args, gives }) => {
  assert.deepEqual(parseCommandLine(args === "" ? [] : args.split(" ")), gives);
});

Deno.test.each([
  "connect",
  "connect a b",
  "connect --config f",
  "serve-mcp --conf f",
  "serve-mcp -config",
  "serve-http extra",
  "-x",
  "version -x",
])(
  "parseCommandLine() rejects `gateway %s`",
  (args) => {
    const command: CommandLine = parseCommandLine(args.split(" "));
    assert.equal(command.kind, "misused");
  },
);
