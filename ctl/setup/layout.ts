import { join } from "node:path";
import ipaddr from "ipaddr.js";
import { AppError } from "@gateway/shared/errors";
import { parseListenAddress } from "@gateway/shared/http";
import { isNetwork, NETWORK_FORMS } from "@gateway/shared/permissions";
import { formatPublicKey, parsePublicKey } from "@gateway/shared/ssh";
import { formatAddress, isPlainName, reachable } from "../kit/values.ts";
import { invalid } from "../kit/output.ts";

/** The entries of an installation in its directory; each of them prevents another installation there. */
export const SET_UP_ENTRIES = [
  "signer.json",
  "control-plane.json",
  "config.json",
  "mcp.json",
  "broker-ctl.json",
  "policy_tests.jsonc",
  "pki",
  "log",
  "state",
  "systemd",
] as const;

/** The certificates, each of a separate identity, and their files. */
export const IDENTITIES = {
  signer: { file: "signer", subject: "CN=localhost", usage: "server" },
  // Browsers of approvers connect to it too.
  controlPlane: { file: "control-plane", subject: "CN=localhost", usage: "server" },
  // The control plane as a client of the signer.
  controlPlaneClient: { file: "control-plane-client", subject: "CN=control-plane-local", usage: "client" },
  brokerServer: { file: "broker-server", subject: "CN=localhost", usage: "server" },
  // The broker as a client of the control plane or the signer.
  broker: { file: "broker", subject: "CN=broker-local", usage: "client" },
  // Administers the signer. The broker, which agents use, never has this identity.
  operator: { file: "operator", subject: "CN=operator-local", usage: "client" },
  approver: { file: "approver", subject: "CN=approver-local", usage: "client" },
  agent: { file: "agent", subject: "CN=agent-local", usage: "client" },
} as const;

export type Identity = keyof typeof IDENTITIES;

/** The approvers' page of a control plane that listens there. */
export function approvalsUrl(listen: string): string {
  return `https://${listen}/ui/approvals`;
}

/**
 * The paths of an installation in an absolute directory.
 *
 * @param agentSocket the socket of an agent with a separate account, which cannot access the directory
 */
export function createLayout(folder: string, agentSocket = join(folder, "run", "agent.sock")) {
  const at = (...names: readonly string[]) => join(folder, ...names);
  const audit = (seed: string, log: string) => ({
    key: at("pki", `${seed}_audit.seed`),
    log: at("log", log, "audit.log"),
  });
  const pairs = Object.entries(IDENTITIES).map(([identity, { file }]) => [
    identity,
    { cert: at("pki", `${file}.crt`), key: at("pki", `${file}.key`) },
  ]);
  return {
    folder,
    signerConfig: at("signer.json"),
    controlPlaneConfig: at("control-plane.json"),
    /** For the broker with sockets and HTTP. */
    brokerConfig: at("config.json"),
    /** For the broker over stdio: a separate process with a separate audit log. */
    mcpConfig: at("mcp.json"),
    clientConfig: at("broker-ctl.json"),
    /** Expected decisions, for `policy test`. */
    policyTests: at("policy_tests.jsonc"),
    sshCa: at("pki", "ssh_ca"),
    sshCaPublic: at("pki", "ssh_ca.pub"),
    mtlsCa: at("pki", "mtls_ca.crt"),
    mtlsCaKey: at("pki", "mtls_ca.key"),
    deniedCallers: at("pki", "denied_callers"),
    approverBundle: at("pki", "approver.p12"),
    /** One seed for each service: with the seed of another service, it could forge that service's records. */
    audit: {
      signer: audit("signer", "signer"),
      controlPlane: audit("control_plane", "control-plane"),
      broker: audit("broker", "broker"),
      mcp: audit("mcp", "mcp"),
    },
    envelopeKey: at("pki", "envelope.seed"),
    signerState: at("state", "signer.db"),
    controlPlaneState: at("state", "control-plane.db"),
    pairs: Object.fromEntries(pairs) as Readonly<Record<Identity, { cert: string; key: string }>>,
    agentSocket,
  };
}

export type Layout = ReturnType<typeof createLayout>;

/** Checks if the agent's socket is in the directory of the installation, which only one account can access. */
export function isInside({ agentSocket, folder }: Layout): boolean {
  return agentSocket.startsWith(join(folder, "/"));
}

/** The paths for JSON: `signer_config`, `signer_audit_log`, and each pair by its identity. */
export function describeLayout({ audit, pairs, ...paths }: Layout) {
  const { operator, approver, agent, broker, controlPlaneClient } = pairs;
  const logs = Object.entries(audit).flatMap(([service, { log, key }]) => [
    [`${service}AuditLog`, log],
    [`${service}AuditKey`, key],
  ]);
  const members = {
    ...paths,
    operator,
    approver,
    agent,
    broker,
    controlPlaneClient,
    ...Object.fromEntries(logs),
  };
  const snakeCase = (name: string) => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`);
  return Object.fromEntries(Object.entries(members).map(([name, value]) => [snakeCase(name), value]));
}

export type InitHost = Readonly<Record<"name" | "user" | "addr" | "hostKey", string>>;

/** A host of the command line. Without a key, its key is scanned. */
export type GivenHost = Omit<InitHost, "hostKey"> & { readonly hostKey: string | undefined };

export const DEFAULT_LISTENERS = {
  signer: "127.0.0.1:9443",
  controlPlane: "127.0.0.1:7443",
  broker: "127.0.0.1:8443",
  signerMonitor: "127.0.0.1:9160",
  controlPlaneMonitor: "127.0.0.1:9170",
  brokerMonitor: "127.0.0.1:9180",
};

export type InitListeners = Readonly<typeof DEFAULT_LISTENERS>;

/** The SSH port of private addresses (RFC 1918, RFC 6598) and of this machine. */
export const DEFAULT_NETWORKS: readonly string[] = [
  "10.0.0.0/8:22",
  "172.16.0.0/12:22",
  "192.168.0.0/16:22",
  "100.64.0.0/10:22",
  "127.0.0.0/8:22",
];

const USER = /^[A-Za-z_][A-Za-z0-9._-]{0,31}$/;
const ADDRESS = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*)(?::\d{1,5})?$/;
const DNS_NAME =
  /^(?=.{1,253}$)(?:[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?)*$/;
const LOOPBACK = /^(?:127(?:\.\d{1,3}){3}|::1|localhost)$/;

/** Like every parser of this file, throws an `invalid_request` for an unusable option. */
export function parseNetworks(texts: readonly string[]): readonly string[] {
  const wrong = texts.find((text) => !isNetwork(text));
  if (wrong === undefined) return texts;
  throw invalid(`Cannot use network ${JSON.stringify(wrong)}: expected ${NETWORK_FORMS}`);
}

/**
 * Reads `name=account@addr` or `name=addr,user=account`. `,key=ssh-ed25519 AAAA…` can follow at the end, because the
 * comment of a key may hold any text.
 */
export function parseHost(text: string): GivenHost {
  const long = text.replace(/^([^=]*)=([^@,]*)@([^,]*)/, "$1=$3,user=$2");
  const match = /^(?<name>[^=]*)=(?<addr>[^,]*),\s*user=(?<user>[^,]*)(?:,\s*key=(?<key>.*))?$/s.exec(long);
  const { name = "", addr = "", user = "", key } = match?.groups ?? {};
  const refuse = (reason: string) => {
    const form = "name=account@address[:port], and optionally ,key=<public key of the host>";
    return invalid(`Cannot use host ${JSON.stringify(text)}: ${reason}; expected ${form}`);
  };
  if (match === null) throw refuse("its form is wrong");
  if (!isPlainName(name)) throw refuse("the name may contain letters, digits, dots, dashes and underscores");
  if (!USER.test(user)) throw refuse("the user is not an account name");
  if (!ADDRESS.test(addr)) throw refuse("the address is not a host:port");
  const host = { name, user, addr: /:\d+$/.test(addr) ? addr : `${addr}:22` };
  if (key === undefined) return { ...host, hostKey: undefined };
  try {
    const { algorithm, blob } = parsePublicKey(key.trim());
    return { ...host, hostKey: formatPublicKey(algorithm, blob).trim() };
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw refuse("the key is not a public key (on the host: cat /etc/ssh/ssh_host_ed25519_key.pub)");
  }
}

export function parseHosts(texts: readonly string[]): readonly GivenHost[] {
  const hosts = texts.map(parseHost);
  for (const [index, { name }] of hosts.entries()) {
    if (hosts.findIndex((host) => host.name === name) === index) continue;
    throw invalid(`Cannot use host name ${JSON.stringify(name)} twice`);
  }
  return hosts;
}

/**
 * Reads an address of a listener, with a fixed port.
 *
 * @param names the names of the installation; without names, only loopback is accepted, because no certificate would be
 *   valid for another address
 */
export function parseListener(text: string, names: readonly string[] = []): string {
  const { hostname, port } = readAddress(text);
  if (port !== 0 && (names.length > 0 || LOOPBACK.test(hostname))) return formatAddress(hostname, port);
  const why = port === 0 ? "expected a port" : "pass --name for other machines, or use 127.0.0.1:<port>";
  throw invalid(`Cannot listen on ${JSON.stringify(text)}: ${why}`);
}

function readAddress(text: string) {
  try {
    return parseListenAddress(text);
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    throw invalid(error.message, error);
  }
}

/** Reads DNS names and IP addresses, without wildcards. */
export function parseNames(texts: readonly string[]): readonly string[] {
  const isAddress = (text: string) => ipaddr.IPv4.isValidFourPartDecimal(text) || ipaddr.IPv6.isValid(text);
  const wrong = texts.find((text) => !(DNS_NAME.test(text) && !/^[\d.]+$/.test(text) || isAddress(text)));
  if (wrong === undefined) return [...new Set(texts.map((text) => text.toLowerCase()))];
  throw invalid(`Cannot use name ${JSON.stringify(wrong)}: expected a DNS name or an IP address`);
}

/** The address of a listener for people: the first name of the installation, or an address of this machine. */
export function publicAddress(listen: string, names: readonly string[]): string {
  const { hostname, port } = parseListenAddress(listen);
  const [name] = names;
  return name === undefined || LOOPBACK.test(hostname) ? reachable(listen) : formatAddress(name, port);
}
