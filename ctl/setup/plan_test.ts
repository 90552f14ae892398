import assert from "node:assert/strict";
import { X509Certificate } from "node:crypto";
import { brokerConfig } from "@gateway/broker/config";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { parseConfig } from "@gateway/shared/config";
import { signerConfig } from "@gateway/signer/config";
import { brokerPermissions } from "@gateway/broker/permissions";
import { signerPermissions } from "@gateway/signer/permissions";
import { compilePolicy } from "@gateway/shared/policy";
import { systemRandom } from "@gateway/shared/clock";
import { parsePrivateKey } from "@gateway/shared/ca/pem";
import { parsePublicKey } from "@gateway/shared/ssh";
import { clientConfig } from "../kit/client_config.ts";
import type { BrokerRoute } from "./config_text.ts";
import {
  createLayout,
  DEFAULT_LISTENERS,
  DEFAULT_NETWORKS,
  type GivenHost,
  type InitHost,
  parseHost,
  parseHosts,
  parseListener,
} from "./layout.ts";
import { createKeyMaterial, planInstallation, type PlannedEntry } from "./write.ts";
import { AppError } from "@gateway/shared/errors";

const KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIO0Gnb+kCpVhi8T8PX2F2Vhmcu0T9vqTZy9GlkSGn1JF";

const material = await createKeyMaterial(systemRandom);

function plan(folder = "/srv/gate way", route: BrokerRoute = "control_plane", addr = "10.0.0.5:22") {
  const hosts: InitHost[] = [{ name: "web01", addr, user: "deploy", hostKey: KEY }];
  return planInstallation(createLayout(folder), {
    route,
    listeners: DEFAULT_LISTENERS,
    networks: DEFAULT_NETWORKS,
    hosts,
  }, material);
}

function textOf(entries: readonly PlannedEntry[], path: string): string {
  const content = entries.find((entry) => entry.path === path)?.content;
  assert.ok(typeof content === "string", path);
  return content;
}

function configs(folder?: string, route?: BrokerRoute) {
  const entries = plan(folder, route);
  const read = { what: "config", source: "test" };
  return {
    signer: parseConfig({ ...read, text: textOf(entries, "signer.json"), schema: signerConfig }),
    controlPlane: parseConfig({
      ...read,
      text: textOf(entries, "control-plane.json"),
      schema: controlPlaneConfig,
    }),
    broker: parseConfig({ ...read, text: textOf(entries, "config.json"), schema: brokerConfig }),
    mcp: parseConfig({ ...read, text: textOf(entries, "mcp.json"), schema: brokerConfig }),
    client: parseConfig({ ...read, text: textOf(entries, "broker-ctl.json"), schema: clientConfig }),
  };
}

/** All strings in a value that are paths or file names. */
function strings(value: unknown): string[] {
  if (typeof value === "string") return [value];
  return typeof value === "object" && value !== null ? Object.values(value).flatMap(strings) : [];
}

Deno.test("planInstallation() allows no session certificates on hosts, because no shim restricts them", () => {
  const { signer } = configs();
  assert.equal(signer.hosts["web01"]?.unsealed_sessions, false);
  const compiled = compilePolicy(signer);
  assert(compiled.kind === "ok");
  assert.equal(compiled.policy.hosts.get("web01")?.commands.restricts, true);
});

Deno.test("planInstallation() gives every entry its exact mode", () => {
  const modes = Object.groupBy(plan(), ({ mode }) => mode.toString(8));
  const paths = Object.entries(modes).map(([mode, entries]) => [mode, entries?.map(({ path }) => path)]);
  assert.deepEqual(Object.fromEntries(paths), {
    700: ["pki", "log", "log/signer", "log/control-plane", "log/broker", "log/mcp", "state"],
    600: [
      ...["pki/ssh_ca", "pki/mtls_ca.key", "pki/signer.key", "pki/control-plane.key"],
      ...["pki/control-plane-client.key", "pki/broker-server.key", "pki/broker.key", "pki/operator.key"],
      ...["pki/approver.key", "pki/agent.key", "pki/approver.p12", "pki/signer_audit.seed"],
      ...["pki/control_plane_audit.seed", "pki/broker_audit.seed", "pki/mcp_audit.seed", "pki/envelope.seed"],
    ],
    640: [
      ...["broker-ctl.json", "config.json", "mcp.json", "control-plane.json", "policy_tests.jsonc"],
      "signer.json",
    ],
    644: [
      ...[
        "pki/ssh_ca.pub",
        "pki/mtls_ca.crt",
        "pki/denied_callers",
        "pki/signer.crt",
        "pki/control-plane.crt",
      ],
      ...["pki/control-plane-client.crt", "pki/broker-server.crt", "pki/broker.crt", "pki/operator.crt"],
      ...["pki/approver.crt", "pki/agent.crt"],
    ],
  });
  assert.equal(plan().at(-1)?.path, "signer.json");
});

Deno.test("planInstallation() keeps private keys unreadable for other users", () => {
  for (const { path, mode, content } of plan()) {
    if ((mode & 0o077) !== 0) assert.doesNotMatch(String(content), /PRIVATE KEY/, path);
  }
});

Deno.test("planInstallation() writes only absolute paths into configs", () => {
  const files = new Set(plan().map(({ path }) => `/srv/gate way/${path}`));
  const paths = strings(configs()).filter((text) => /\.(?:crt|key|seed|log|json|pub)$|ssh_ca/.test(text));
  assert.equal(paths.length, 34);
  for (const path of paths) {
    assert.ok(files.has(path) || path.endsWith("/audit.log"), path);
  }
});

Deno.test("planInstallation() writes configs that load from a directory whose name needs escapes", () => {
  const folder = '/srv/a "b" \\ c /* é';
  assert.equal(configs(folder).signer.ca_key, `${folder}/pki/ssh_ca`);
});

Deno.test("planInstallation() writes a valid policy with an allowlist of anchored patterns for all hosts", () => {
  const { signer } = configs();
  assert.equal(compilePolicy(signer).kind, "ok");
  assert.deepEqual(
    signer.group_command_policies,
    Object.assign(Object.create(null), { _default: ["starter"] }),
  );
  const starter = signer.command_policies["starter"];
  assert.equal(starter?.mode, "allowlist");
  assert.ok(starter?.allow?.every((pattern) => pattern.startsWith("^") && pattern.endsWith("$")));
});

Deno.test("planInstallation() separates the identities of brokers, operators and approvers", () => {
  const { signer, controlPlane, broker, client } = configs();
  const names = Object.values(material.leaves).map(({ certPem }) => new X509Certificate(certPem).subject);
  assert.deepEqual(
    names,
    ("CN=localhost CN=localhost CN=control-plane-local CN=localhost CN=broker-local CN=operator-local " +
      "CN=approver-local CN=agent-local").split(" "),
  );
  assert.deepEqual(signer.reload_callers, ["operator-local"]);
  assert.equal(
    JSON.stringify(signer.callers),
    '{"broker-local":{"allowed_groups":["local"],"only_via":["control-plane-local"]}}',
  );
  assert.match(broker.signer?.client_cert ?? "", /pki\/broker\.crt$/);
  assert.match(client.signer?.cert ?? "", /pki\/operator\.crt$/);
  assert.deepEqual(signer.trusted_forwarders, ["control-plane-local"]);
  assert.match(controlPlane.signer.client_cert, /pki\/control-plane-client\.crt$/);
  assert.deepEqual(controlPlane.sign_callers, ["broker-local"]);
  assert.deepEqual(controlPlane.approval.callers, ["approver-local"]);
  assert.match(client.control_plane?.cert ?? "", /pki\/approver\.crt$/);
});

Deno.test("planInstallation() configures only loopback listeners", () => {
  const { signer, controlPlane, broker } = configs();
  const addresses = [signer, controlPlane, broker].map((config) => [config.listen, config.monitor_listen]);
  assert.deepEqual(addresses, [
    ["127.0.0.1:9443", "127.0.0.1:9160"],
    ["127.0.0.1:7443", "127.0.0.1:9170"],
    ["127.0.0.1:8443", "127.0.0.1:9180"],
  ]);
});

Deno.test("planInstallation() writes separate paths per service, from which its permissions are derived", () => {
  const { signer, broker } = configs();
  const workingFolder = "/srv/gate way";
  const ours = signerPermissions(signer, { configPath: "signer.json", workingFolder });
  assert.equal(ours.denyWrite, undefined);
  const theirs = brokerPermissions(broker, {
    configPath: "config.json",
    workingFolder,
    frontend: "serve-http",
  });
  assert.equal(theirs.denyWrite, undefined);
  const both = (ours.read ?? []).filter((path) => theirs.read?.includes(path));
  assert.deepEqual(both, ["/srv/gate way/pki/denied_callers", "/srv/gate way/pki/mtls_ca.crt"]);
  assert.deepEqual(theirs.net, [
    "10.0.0.0/8:22",
    "100.64.0.0/10:22",
    "127.0.0.0/8:22",
    "127.0.0.1:7443",
    "127.0.0.1:8443",
    "127.0.0.1:9180",
    "172.16.0.0/12:22",
    "192.168.0.0/16:22",
    "unix:/srv/gate way/run/agent.sock",
    "unix:/srv/gate way/run/agent.sock.new/s",
  ]);
});

Deno.test("planInstallation() adds the address of a host outside the networks to the brokers' networks", () => {
  const entries = plan(undefined, undefined, "192.0.2.5:2222");
  for (const file of ["config.json", "mcp.json"]) {
    const text = textOf(entries, file);
    const { networks, hosts } = parseConfig({ what: "config", source: "test", text, schema: brokerConfig });
    assert.deepEqual([networks, Object.keys(hosts)], [[...DEFAULT_NETWORKS, "192.0.2.5:2222"], []]);
  }
});

Deno.test.each<{ name: string; route: BrokerRoute; url: string; wait: number }>([
  { name: "the control plane, and waits", route: "control_plane", url: "https://127.0.0.1:7443", wait: 120 },
  { name: "the signer, and does not wait", route: "signer", url: "https://127.0.0.1:9443", wait: 0 },
])("planInstallation() configures both brokers to use $name", ({ route, url, wait }) => {
  const { broker, mcp, controlPlane, signer } = configs(undefined, route);
  const isThrough = route === "control_plane";
  assert.deepEqual(
    signer.callers["broker-local"]?.only_via,
    isThrough ? ["control-plane-local"] : undefined,
  );
  for (const { signer: asked } of [broker, mcp]) {
    assert.deepEqual([asked?.url, asked?.approval_wait_seconds], [url, wait]);
  }
  assert.equal(controlPlane.signer.url, "https://127.0.0.1:9443");
});

Deno.test("createKeyMaterial() creates matching keys, and new ones on each call", async () => {
  const key = parsePrivateKey(material.sshCa);
  assert.deepEqual(parsePublicKey(material.sshCaPublic).blob, key.publicKey);
  const ca = new X509Certificate(material.mtlsCa.certPem);
  assert.ok(ca.raw.toHex().includes("0603551d1e0101ff"), "name constraints, critical");
  for (const { certPem } of Object.values(material.leaves)) {
    assert.ok(new X509Certificate(certPem).verify(ca.publicKey));
  }
  const seeds = Object.values(material.seeds);
  assert.ok(seeds.every(({ length }) => length === 32));
  assert.equal(new Set(seeds.map((seed) => seed.toHex())).size, 5);
  const other = await createKeyMaterial(systemRandom);
  assert.notEqual(other.sshCa, material.sshCa);
  assert.notEqual(other.mtlsCa.keyPem, material.mtlsCa.keyPem);
});

Deno.test("planInstallation() gives each service a separate audit key", () => {
  const { signer, controlPlane, broker, mcp } = configs();
  const keys = [signer, controlPlane, broker, mcp].map((config) => config.audit_key);
  assert.deepEqual(new Set(keys).size, 4, keys.join());
});

const isUsage = (error: unknown) => error instanceof AppError && error.code === "invalid_request";

Deno.test.each<{ name: string; text: string; expected: Partial<GivenHost> }>([
  {
    name: "all parts",
    text: `web01=10.0.0.5:2222,user=deploy,key=${KEY}`,
    expected: { name: "web01", addr: "10.0.0.5:2222", user: "deploy", hostKey: KEY },
  },
  {
    name: "an address without port",
    text: `w=web.example,user=d,key=${KEY}`,
    expected: { addr: "web.example:22" },
  },
  {
    name: "an SSH destination",
    text: "web01=deploy@10.0.0.5",
    expected: { name: "web01", user: "deploy", addr: "10.0.0.5:22", hostKey: undefined },
  },
  {
    name: "an SSH destination with a port and a key",
    text: `w=d@[fd00::5]:2222,key=${KEY}`,
    expected: { user: "d", addr: "[fd00::5]:2222", hostKey: KEY },
  },
  {
    name: "no key",
    text: "web01=10.0.0.5,user=deploy",
    expected: { addr: "10.0.0.5:22", hostKey: undefined },
  },
  { name: "an IPv6 address", text: `w=[fd00::5],user=d,key=${KEY}`, expected: { addr: "[fd00::5]:22" } },
  {
    name: "a key with a comment",
    text: `w=a:1,user=d,key=${KEY} root@web, the old one`,
    expected: { hostKey: KEY },
  },
])("parseHost() reads $name", ({ text, expected }) => {
  const host = parseHost(text);
  assert.deepEqual({ ...host, ...expected }, host);
});

Deno.test.each([
  { name: "two users", text: "web01=deploy@10.0.0.5,user=root" },
  { name: "no user before the address", text: "web01=@10.0.0.5" },
  { name: "no name before the account", text: "deploy@10.0.0.5" },
  { name: "two at signs", text: "w=a@b@c" },
  { name: "an IPv6 address without brackets", text: "w=d@fd00::5" },
  { name: "an account that is an option", text: "w=-l@10.0.0.5" },
  { name: "an address with a line break", text: "w=d@10.0.0.5\nProxyCommand" },
  { name: "an empty key", text: "w=d@10.0.0.5,key=" },
  { name: "no user", text: `web01=10.0.0.5,key=${KEY}` },
  { name: "no name", text: `10.0.0.5,user=deploy,key=${KEY}` },
  { name: "a broken key", text: "w=a:1,user=d,key=ssh-ed25519 AAAA" },
  { name: "two keys", text: `w=a:1,user=d,key=${KEY}\n${KEY}` },
  { name: "a name for a shell", text: `w$(id)=a:1,user=d,key=${KEY}` },
  { name: "a name that is a prototype", text: `__proto__=a:1,user=d,key=${KEY}` },
  { name: "a user for a shell", text: `w=a:1,user=d;id,key=${KEY}` },
  { name: "a user that is a path", text: `w=a:1,user=../root,key=${KEY}` },
  { name: "an address that is an option", text: `w=-oProxyCommand=id:22,user=d,key=${KEY}` },
])("parseHost() rejects $name", ({ text }) => {
  assert.throws(() => parseHost(text), isUsage);
});

Deno.test("parseHosts() rejects a duplicate name", () => {
  const text = `web01=10.0.0.5,user=deploy,key=${KEY}`;
  assert.throws(() => parseHosts([text, text]), isUsage);
  assert.equal(parseHosts([text]).length, 1);
});

Deno.test("parseListener() accepts only loopback addresses", () => {
  for (const text of ["127.0.0.1:1", "[::1]:65535", "localhost:9443", "127.8.8.8:1"]) {
    assert.equal(parseListener(text), text);
  }
  for (
    const text of ":9443 0.0.0.0:1 10.0.0.1:1 [::]:1 127.0.0.1:0 127.0.0.1 127.0.0.1.example:1".split(" ")
  ) {
    assert.throws(() => parseListener(text), isUsage, text);
  }
});
