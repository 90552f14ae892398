import { brokerConfig, UNSUPPORTED_BROKER_KEYS } from "@gateway/broker/config";
import { parseConfig } from "@gateway/shared/config";
import { isInNetwork } from "@gateway/shared/permissions";
import { signerConfig, UNSUPPORTED_SIGNER_KEYS } from "@gateway/signer/config";
import { clientConfig } from "../kit/client_config.ts";
import { approvalsUrl, certificatePath, isInside, keyPath, type Layout } from "./layout.ts";
import { type InitHost, type InitListeners, publicAddress } from "./options.ts";
import { reachable } from "../kit/addresses.ts";
import { controlPlaneConfig } from "@gateway/control-plane/config";

/** Whom brokers ask for certificates: the control plane, or the signer without anyone between. */
export type BrokerRoute = "control_plane" | "signer";

/** What the configs say beside paths. */
export interface ConfigChoices {
  readonly route: BrokerRoute;
  readonly listeners: InitListeners;
  readonly hosts: readonly InitHost[];
  /** Where hosts may be added that running brokers can connect to. */
  readonly networks: readonly string[];
  /** What the set-up is reached by from elsewhere; without: from this machine alone. */
  readonly names?: readonly string[];
}

/** How long brokers wait for an approval, and approvals for a decision. */
const APPROVAL_WAIT_SECONDS = 120;

/** Commands that look and do not touch, for the first day. Arguments begin with a letter or digit: no options. */
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

/**
 * The text of `signer.json`, checked as the signer will check it.
 *
 * @throws {AppError} `invalid_config` when it would not load
 */
export function formatSignerConfig(layout: Layout, { route, listeners, hosts }: ConfigChoices): string {
  const text = `// Made by broker-ctl init. After a change: broker-ctl reload.
{
  // Agents never speak to the signer.
  "listen": ${quote(listeners.signer)},
  "server_cert": ${quote(certificatePath(layout, "signer"))},
  "server_key": ${quote(keyPath(layout, "signer"))},
  "client_ca": ${quote(layout.mtlsCa)},
  "denied_callers": ${quote(layout.deniedCallers)},

  // The key that hosts trust. A file is for labs.
  "ca_key": ${quote(layout.sshCa)},

  // Signs the commands of sealed hosts (broker-ctl host seal), and the list of revoked certificates.
  "envelope_key": ${quote(layout.envelopeKey)},

  "audit_log": ${quote(layout.signerAuditLog)},
  "audit_key": ${quote(layout.signerAuditKey)},
  "audit_fail_mode": "closed",

  "max_ttl_seconds": 300,
  "sign_rate_limit_per_min": 600,
  "monitor_listen": ${quote(listeners.signerMonitor)},

  // Grants and freezes survive a restart.
  "state_db": ${quote(layout.signerState)},

  // Who may administer the signer: an operator, never the broker that agents speak through.
  "reload_callers": ["operator-local"],

  // Who may say on whose behalf it asks, and that a human approved: the control plane.
  "trusted_forwarders": ["control-plane-local"],

${formatCallers(route)}

  // Add one with broker-ctl host add, or like this, and enrol it:
  //   "web01": { "addr": "10.0.0.5:22", "user": "deploy", "host_key": "ssh-ed25519 AAAA…",
  //              "principal": "host:web01", "groups": ["local"], "unsealed_sessions": false }
  "hosts": ${indent(formatHosts(hosts))},

  // What may run: everything that no pattern matches is refused.
  "command_policies": {
    "starter": {
      "mode": "allowlist",
      "allow": ${indent(JSON.stringify(STARTER_ALLOW, null, 2), 6)},
      // Of what is allowed, what a human has to approve each time, such as "^systemctl restart nginx$".
      "require_approval": []
    }
  },
  "group_command_policies": { "_default": ["starter"] }
}
`;
  const kind = { what: "signer config", schema: signerConfig, unsupported: UNSUPPORTED_SIGNER_KEYS };
  parseConfig({ ...kind, text, source: layout.signerConfig });
  return text;
}

/**
 * The text of `config.json`, the broker over HTTP, checked as the broker will check it.
 *
 * @throws {AppError} `invalid_config` when it would not load
 */
export function formatBrokerConfig(layout: Layout, choices: ConfigChoices): string {
  return checkBrokerConfig(
    layout.brokerConfig,
    `// Made by broker-ctl init: the broker for agents, over MCP on a socket and over HTTP (serve-http).
{
  // For gateway connect. Mode 0600 is for an agent that runs as the broker's own account, which can read every key of
  // this account; 0660 is for an agent with an account of its own, by the group of the socket's directory.
  "sockets": [
    { "path": ${quote(layout.agentSocket)}, "caller": "agent-local", "mode": "${
      isInside(layout) ? "0600" : "0660"
    }" }
  ],

  // Agents prove themselves with a certificate such as pki/agent.crt. Which of them may run commands:
  "run_callers": ["agent-local"],
  "listen": ${quote(choices.listeners.broker)},
  "server_cert": ${quote(certificatePath(layout, "brokerServer"))},
  "server_key": ${quote(keyPath(layout, "brokerServer"))},
  "client_ca": ${quote(layout.mtlsCa)},
  "denied_callers": ${quote(layout.deniedCallers)},
${formatBrokerCommon(layout, choices, { log: layout.brokerAuditLog, key: layout.brokerAuditKey })}
  "monitor_listen": ${quote(choices.listeners.brokerMonitor)},
${formatAddresses(choices)}
}
`,
  );
}

/**
 * The text of `mcp.json`, the broker over stdio, checked as the broker will check it.
 *
 * @throws {AppError} `invalid_config` when it would not load
 */
export function formatMcpConfig(layout: Layout, choices: ConfigChoices): string {
  return checkBrokerConfig(
    layout.mcpConfig,
    `// Made by broker-ctl init: a broker over stdio (serve-mcp) that an MCP client starts itself, in place of a socket.
// The client's account, and so the agent, can read the broker's key.
// Several clients may run at the same time: each further broker keeps a log of its own beside audit_log (audit-2.log,
// audit-3.log …), which broker-ctl audit verify --set checks together.
{
${formatBrokerCommon(layout, choices, { log: layout.mcpAuditLog, key: layout.mcpAuditKey })}
${formatAddresses(choices)}
}
`,
  );
}

function checkBrokerConfig(source: string, text: string): string {
  const kind = { what: "broker config", schema: brokerConfig, unsupported: UNSUPPORTED_BROKER_KEYS };
  parseConfig({ ...kind, text, source });
  return text;
}

/** One seed for each service: with that of another it could write that one's records, too. */
function formatBrokerCommon(
  layout: Layout,
  choices: ConfigChoices,
  audit: { readonly log: string; readonly key: string },
): string {
  return `
${formatRoute(choices)}
    "client_cert": ${quote(certificatePath(layout, "broker"))},
    "client_key": ${quote(keyPath(layout, "broker"))},
    "ca": ${quote(layout.mtlsCa)}
  },

  "audit_log": ${quote(audit.log)},
  "audit_key": ${quote(audit.key)},
  "audit_fail_mode": "closed",

  "max_ttl_seconds": 300,
  "hosts_refresh_seconds": 30,`.replace(/^\n/, "");
}

function formatCallers(route: BrokerRoute): string {
  if (route === "signer") {
    return `  // Who sees the hosts of which groups.
  "callers": { "broker-local": { "allowed_groups": ["local"] } },`;
  }
  return `  // Who sees the hosts of which groups, and through whom: a broker that came directly would go round the control
  // plane's guardrails.
  "callers": { "broker-local": { "allowed_groups": ["local"], "only_via": ["control-plane-local"] } },`;
}

function formatRoute({ route, listeners }: ConfigChoices): string {
  if (route === "signer") {
    return `  // The signer itself: what needs approval is refused, for nobody could give it.
  "signer": {
    "url": ${quote(`https://${reachable(listeners.signer)}`)},`;
  }
  return `  // The control plane, which asks the signer, and a human where the policy wants one.
  "signer": {
    "url": ${quote(`https://${reachable(listeners.controlPlane)}`)},
    "approval_wait_seconds": ${APPROVAL_WAIT_SECONDS},`;
}

/**
 * The text of `broker-ctl.json`, checked as `broker-ctl` will check it.
 *
 * @throws {AppError} `invalid_config` when it would not load
 */
export function formatClientConfig(layout: Layout, { listeners }: ConfigChoices): string {
  const text =
    `// Made by broker-ctl init: how an operator reaches the services. broker-ctl --client-config <this file>
{
  "signer": {
    "url": ${quote(reachable(listeners.signer))},
    "cert": ${quote(certificatePath(layout, "operator"))},
    "key": ${quote(keyPath(layout, "operator"))},
    "ca": ${quote(layout.mtlsCa)}
  },
  // For broker-ctl approval, as the approver: nobody decides what it asked for itself.
  "control_plane": {
    "url": ${quote(reachable(listeners.controlPlane))},
    "cert": ${quote(certificatePath(layout, "approver"))},
    "key": ${quote(keyPath(layout, "approver"))},
    "ca": ${quote(layout.mtlsCa)}
  }
}
`;
  parseConfig({ what: "client config", schema: clientConfig, text, source: layout.clientConfig });
  return text;
}

function formatHosts(hosts: readonly InitHost[]): string {
  const entries = hosts.map(({ name, addr, user, hostKey }) => [name, {
    addr,
    user,
    host_key: hostKey,
    principal: `host:${name}`,
    groups: ["local"],
    unsealed_sessions: false,
  }]);
  return JSON.stringify(Object.fromEntries(entries), null, 2);
}

function formatAddresses({ hosts, networks }: ConfigChoices): string {
  const others = hosts.map(({ addr }) => addr).filter((addr) =>
    !networks.some((one) => isInNetwork(addr, one))
  );
  return `
  // The only addresses that the broker's process may connect to. The host list is the signer's: the broker can use a
  // new host within these networks immediately. A host elsewhere needs a line here and a restart of the broker.
  "networks": ${indent(JSON.stringify([...networks, ...new Set(others)], null, 2))}`;
}

/** A string as JSON has it. */
function quote(text: string): string {
  return JSON.stringify(text);
}

function indent(text: string, columns = 2): string {
  return text.replaceAll("\n", `\n${" ".repeat(columns)}`);
}

/**
 * The text of `control-plane.json`, checked as the control plane will check it.
 *
 * @throws {AppError} `invalid_config` when it would not load
 */
export function formatControlPlaneConfig(layout: Layout, { listeners, names = [] }: ConfigChoices): string {
  const text = `// Made by broker-ctl init: the control plane, between the brokers and the signer.
{
  // Approvers come here too.
  "listen": ${quote(listeners.controlPlane)},
  "server_cert": ${quote(certificatePath(layout, "controlPlane"))},
  "server_key": ${quote(keyPath(layout, "controlPlane"))},
  "client_ca": ${quote(layout.mtlsCa)},
  "denied_callers": ${quote(layout.deniedCallers)},

  // The signer knows it as a trusted forwarder.
  "signer": {
    "url": ${quote(`https://${reachable(listeners.signer)}`)},
    "client_cert": ${quote(certificatePath(layout, "controlPlaneClient"))},
    "client_key": ${quote(keyPath(layout, "controlPlaneClient"))},
    "ca": ${quote(layout.mtlsCa)}
  },

  // Whose requests go to the signer, and whose word about their end users counts.
  "sign_callers": ["broker-local"],
  "trusted_forwarders": ["broker-local"],

  // What needs approval stands in the policies of signer.json ("require_approval"); here, who may give it.
  // Nobody approves what it asked for itself.
  "approval": {
    "callers": ["approver-local"],
    "timeout_seconds": ${APPROVAL_WAIT_SECONDS},
    "notifier": "log",
    "approval_url_template": ${quote(`${approvalsUrl(publicAddress(listeners.controlPlane, names))}/{id}`)}
  },

  // observe: what is unusual stands in the audit log. enforce: it has to be approved, and too much is refused.
  "behavior": { "mode": "observe", "rate_limit_per_min": 60 },

  "audit_log": ${quote(layout.controlPlaneAuditLog)},
  "audit_key": ${quote(layout.controlPlaneAuditKey)},
  "audit_fail_mode": "closed",
  "monitor_listen": ${quote(listeners.controlPlaneMonitor)},

  // Approvals, and what is usual for whom, survive a restart.
  "state_db": ${quote(layout.controlPlaneState)}
}
`;
  const kind = { what: "control plane config", schema: controlPlaneConfig };
  parseConfig({ ...kind, text, source: layout.controlPlaneConfig });
  return text;
}
