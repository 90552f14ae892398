import { isInNetwork } from "@gateway/shared/permissions";
import { reachable } from "../kit/values.ts";
import {
  approvalsUrl,
  type Identity,
  type InitHost,
  type InitListeners,
  isInside,
  type Layout,
  publicAddress,
} from "./layout.ts";

/** The service from which brokers request certificates; `local`: a broker over stdio signs them itself. */
export type BrokerRoute = "control_plane" | "signer" | "local";

export interface ConfigChoices {
  readonly route: BrokerRoute;
  readonly listeners: InitListeners;
  readonly hosts: readonly InitHost[];
  readonly networks: readonly string[];
  /** The names of the installation for other machines. Without names, only this machine can reach it. */
  readonly names?: readonly string[];
  readonly kept?: Kept | undefined;
}

/** The parts of a local installation that another installation keeps. */
export interface Kept {
  /** Logs, and the expected decisions of the policy. */
  readonly files: readonly { readonly path: string; readonly mode: number; readonly content: Uint8Array }[];
  /** The text of `signer.json` with the kept policy. */
  readonly withPolicy: (signer: string) => string;
}

const APPROVAL_WAIT_SECONDS = 120;

/** Read-only commands. Their arguments start with a letter or digit, so that they cannot be options. */
const STARTER_ALLOW = [
  "^uptime$",
  "^hostname$",
  "^whoami$",
  "^date$",
  "^uname -a$",
  "^df -h$",
  "^free -m$",
  "^systemctl is-active [A-Za-z0-9][A-Za-z0-9@._-]*$",
] as const;

const STARTER_POLICIES = `"command_policies": {
    "starter": {
      "mode": "allowlist",
      "allow": ${indent(JSON.stringify(STARTER_ALLOW, null, 2), 6)},
      // Allowed commands that need an approval each time, such as "^systemctl restart nginx$".
      "require_approval": []
    }
  },
  "group_command_policies": { "_default": ["starter"] }`;

/**
 * Expected decisions of the starter policy about a host. The config does not require them, because a later change of
 * the policy can contradict them.
 */
export function formatPolicyTests({ policyTests }: Layout, host: InitHost): string {
  const name = quote(host.name);
  return `// Created by broker-ctl init: expected decisions. To check them: broker-ctl policy test
// With this line in the config, a config or change that contradicts them is not loaded:
//   "policy_tests": ${quote(policyTests)},
{
  "cases": [
    { "host": ${name}, "command": "uptime", "expect": "allow" },
    { "host": ${name}, "command": "uptime; id", "expect": "deny" },
    { "host": ${name}, "command": "cat /etc/shadow", "expect": "deny" }
  ]
}
`;
}

export function formatSignerConfig(layout: Layout, { route, listeners, hosts }: ConfigChoices): string {
  return `// Created by broker-ctl init. After a change: broker-ctl reload.
{
  // Agents never connect to the signer.
${formatListener(layout, listeners.signer, "signer")},

  // The CA key that hosts trust. A key in a file is for labs only.
  "ca_key": ${quote(layout.sshCa)},

  // Signs the commands for sealed hosts (broker-ctl host seal) and the revocation list.
  "envelope_key": ${quote(layout.envelopeKey)},

${formatAudit(layout.audit.signer)},

  "max_ttl_seconds": 300,
  "sign_rate_limit_per_min": 600,
  "monitor_listen": ${quote(listeners.signerMonitor)},

  // Grants and freezes survive a restart.
  "state_db": ${quote(layout.signerState)},

  // Administrators of the signer: operators, never a broker.
  "reload_callers": ["operator-local"],

  // The control plane may name the caller of a request and report approvals.
  "trusted_forwarders": ["control-plane-local"],

${formatCallers(route)}

  // Add a host with broker-ctl host add or like this, then run broker-ctl host enroll:
  //   "web01": { "addr": "10.0.0.5:22", "user": "deploy", "host_key": "ssh-ed25519 AAAA…",
  //              "principal": "host:web01", "groups": ["local"], "unsealed_sessions": false }
  "hosts": ${indent(JSON.stringify(hostEntries(hosts, { unsealed_sessions: false }), null, 2))},

  // Allowed commands. A command that matches no pattern is denied.
  ${STARTER_POLICIES}
}
`;
}

export function formatBrokerConfig(layout: Layout, choices: ConfigChoices): string {
  return `// Created by broker-ctl init: the broker for agents, with MCP on a socket and HTTP (serve-http).
{
  // Sockets for gateway connect. 0600: the agent runs in the broker's account and can read its keys. 0660: the agent runs
  // in a separate account, which belongs to the group of the socket's directory.
  "sockets": [
    { "path": ${quote(layout.agentSocket)}, "caller": "agent-local", "mode": "${
    isInside(layout) ? "0600" : "0660"
  }" }
  ],

  // CNs of the agents that may run commands over HTTP, with certificates such as pki/agent.crt.
  "run_callers": ["agent-local"],
${formatListener(layout, choices.listeners.broker, "brokerServer")},
${formatBrokerCommon(layout, choices, layout.audit.broker)}
  "monitor_listen": ${quote(choices.listeners.brokerMonitor)},
${formatAddresses(choices)}
}
`;
}

export function formatLocalConfig(layout: Layout, hosts: readonly InitHost[]): string {
  return `// Created by broker-ctl init --local: a broker over stdio (serve-mcp), which an MCP client starts. The client's account,
// and so the agent, can read the CA key: use it for a trial, or on your own machine. To separate them, run
// broker-ctl init --from-local. After a change, restart the MCP client.
{
  // The CA key that hosts trust. A key in a file is for labs only.
  "ca_key": ${quote(layout.sshCa)},

${formatAudit(layout.audit.mcp)},

  // The MCP client asks its user about commands that match "require_approval".
  "approval_via_elicitation": true,

  // Add a host with broker-ctl init --local --host.
  "hosts": ${indent(JSON.stringify(hostEntries(hosts), null, 2))},

  // Allowed commands. A command that matches no pattern is denied.
  ${STARTER_POLICIES}
}
`;
}

export function formatMcpConfig(layout: Layout, choices: ConfigChoices): string {
  if (choices.route === "local") return formatLocalConfig(layout, choices.hosts);
  return `// Created by broker-ctl init: a broker over stdio (serve-mcp), which an MCP client starts instead of using a socket.
// The client's account can read the broker's key, and so can the agent. With several clients at the same time, further
// brokers write audit-2.log, audit-3.log … next to audit_log; broker-ctl audit verify --set checks all of them.
{
${formatBrokerCommon(layout, choices, layout.audit.mcp)}
${formatAddresses(choices)}
}
`;
}

function formatBrokerCommon(layout: Layout, choices: ConfigChoices, audit: Layout["audit"]["signer"]) {
  return `${formatRoute(choices)}
${formatPair(layout, "broker", "client_")}
  },

${formatAudit(audit)},

  "max_ttl_seconds": 300,
  "hosts_refresh_seconds": 30,`;
}

function formatCallers(route: BrokerRoute): string {
  if (route === "signer") {
    return `  // Callers, and the host groups that they may use.
  "callers": { "broker-local": { "allowed_groups": ["local"] } },`;
  }
  return `  // Callers, and the host groups that they may use. only_via: without it, a broker could bypass the control plane.
  "callers": { "broker-local": { "allowed_groups": ["local"], "only_via": ["control-plane-local"] } },`;
}

function formatRoute({ route, listeners }: ConfigChoices): string {
  if (route === "signer") {
    return `  // The signer. Without a control plane, commands that need approval are denied.
  "signer": {
    "url": ${quote(`https://${reachable(listeners.signer)}`)},`;
  }
  return `  // The control plane, which forwards requests to the signer and handles approvals.
  "signer": {
    "url": ${quote(`https://${reachable(listeners.controlPlane)}`)},
    "approval_wait_seconds": ${APPROVAL_WAIT_SECONDS},`;
}

export function formatClientConfig(layout: Layout, { listeners }: ConfigChoices): string {
  return `// Created by broker-ctl init: connections of the operator. Use: broker-ctl --client-config <this file>
{
  "signer": {
    "url": ${quote(reachable(listeners.signer))},
${formatPair(layout, "operator")}
  },
  // For broker-ctl approval, with the approver's certificate. Requesters cannot decide their own requests.
  "control_plane": {
    "url": ${quote(reachable(listeners.controlPlane))},
${formatPair(layout, "approver")}
  }
}
`;
}

/** The entries of `hosts` in a config. */
export function hostEntries(hosts: readonly InitHost[], more: object = {}): Readonly<Record<string, object>> {
  return Object.fromEntries(hosts.map(({ name, addr, user, hostKey }) => {
    return [name, { addr, user, host_key: hostKey, principal: `host:${name}`, groups: ["local"], ...more }];
  }));
}

function formatAddresses({ hosts, networks }: ConfigChoices): string {
  const others = hosts.map(({ addr }) => addr).filter((addr) =>
    !networks.some((one) => isInNetwork(addr, one))
  );
  return `
  // Addresses that the broker may connect to. New hosts in these networks work immediately. A host with another address
  // needs a line here and a restart of the broker.
  "networks": ${indent(JSON.stringify([...networks, ...new Set(others)], null, 2))}`;
}

/** Members of an object, without its braces. */
function formatMembers(members: Readonly<Record<string, string>>, columns: number): string {
  const lines = Object.entries(members).map(([key, value]) => `${quote(key)}: ${quote(value)}`);
  return lines.map((line) => " ".repeat(columns) + line).join(",\n");
}

function formatListener(layout: Layout, listen: string, identity: Identity): string {
  const { cert: server_cert, key: server_key } = layout.pairs[identity];
  const [client_ca, denied_callers] = [layout.mtlsCa, layout.deniedCallers];
  return formatMembers({ listen, server_cert, server_key, client_ca, denied_callers }, 2);
}

function formatAudit({ log, key }: Layout["audit"]["signer"]): string {
  return formatMembers({ audit_log: log, audit_key: key, audit_fail_mode: "closed" }, 2);
}

function formatPair({ pairs, mtlsCa }: Layout, identity: Identity, prefix = ""): string {
  const { cert, key } = pairs[identity];
  return formatMembers({ [`${prefix}cert`]: cert, [`${prefix}key`]: key, ca: mtlsCa }, 4);
}

function quote(text: string): string {
  return JSON.stringify(text);
}

function indent(text: string, columns = 2): string {
  return text.replaceAll("\n", `\n${" ".repeat(columns)}`);
}

export function formatControlPlaneConfig(layout: Layout, { listeners, names = [] }: ConfigChoices): string {
  return `// Created by broker-ctl init: the control plane between brokers and signer.
{
  // Approvers also connect here.
${formatListener(layout, listeners.controlPlane, "controlPlane")},

  // The signer trusts this client as a forwarder.
  "signer": {
    "url": ${quote(`https://${reachable(listeners.signer)}`)},
${formatPair(layout, "controlPlaneClient", "client_")}
  },

  // Brokers whose requests are forwarded, and brokers that may name their end users.
  "sign_callers": ["broker-local"],
  "trusted_forwarders": ["broker-local"],

  // Approvers. "require_approval" in signer.json defines the commands that need approval.
  // Requesters cannot decide their own requests.
  "approval": {
    "callers": ["approver-local"],
    "timeout_seconds": ${APPROVAL_WAIT_SECONDS},
    "notifier": "log",
    "approval_url_template": ${quote(`${approvalsUrl(publicAddress(listeners.controlPlane, names))}/{id}`)}
  },

  // observe: unusual requests are recorded. enforce: they need approval, and requests above the rate limit are denied.
  "behavior": { "mode": "observe", "rate_limit_per_min": 60 },

${formatAudit(layout.audit.controlPlane)},
  "monitor_listen": ${quote(listeners.controlPlaneMonitor)},

  // Approvals and usual behavior survive a restart.
  "state_db": ${quote(layout.controlPlaneState)}
}
`;
}
