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
import { dirname } from "node:path";
import { shellQuote } from "@gateway/shared/text";

/** The service from which brokers request certificates. */
export type BrokerRoute = "control_plane" | "signer";

export interface ConfigChoices {
  readonly route: BrokerRoute;
  readonly listeners: InitListeners;
  readonly hosts: readonly InitHost[];
  readonly networks: readonly string[];
  /** The names of the installation for other machines; without names, only this machine can reach it. */
  readonly names?: readonly string[];
}

const APPROVAL_WAIT_SECONDS = 120;

/** Commands without effects. Their arguments begin with a letter or digit, so that they are no options. */
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

export function formatSignerConfig(layout: Layout, { route, listeners, hosts }: ConfigChoices): string {
  return `// Made by broker-ctl init. After a change: broker-ctl reload.
{
  // Agents never speak to the signer.
${formatListener(layout, listeners.signer, "signer")},

  // The key that hosts trust. A file is for labs.
  "ca_key": ${quote(layout.sshCa)},

  // Signs the commands of sealed hosts (broker-ctl host seal), and the list of revoked certificates.
  "envelope_key": ${quote(layout.envelopeKey)},

${formatAudit(layout.audit.signer)},

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
}

export function formatBrokerConfig(layout: Layout, choices: ConfigChoices): string {
  return `// Made by broker-ctl init: the broker for agents, over MCP on a socket and over HTTP (serve-http).
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
${formatListener(layout, choices.listeners.broker, "brokerServer")},
${formatBrokerCommon(layout, choices, layout.audit.broker)}
  "monitor_listen": ${quote(choices.listeners.brokerMonitor)},
${formatAddresses(choices)}
}
`;
}

export function formatMcpConfig(layout: Layout, choices: ConfigChoices): string {
  return `// Made by broker-ctl init: a broker over stdio (serve-mcp) that an MCP client starts itself, in place of a socket.
// The client's account, and so the agent, can read the broker's key.
// Several clients may run at the same time: each further broker keeps a log of its own beside audit_log (audit-2.log,
// audit-3.log …), which broker-ctl audit verify --set checks together.
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

export function formatClientConfig(layout: Layout, { listeners }: ConfigChoices): string {
  return `// Made by broker-ctl init: how an operator reaches the services. broker-ctl --client-config <this file>
{
  "signer": {
    "url": ${quote(reachable(listeners.signer))},
${formatPair(layout, "operator")}
  },
  // For broker-ctl approval, as the approver: nobody decides what it asked for itself.
  "control_plane": {
    "url": ${quote(reachable(listeners.controlPlane))},
${formatPair(layout, "approver")}
  }
}
`;
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
  return `// Made by broker-ctl init: the control plane, between the brokers and the signer.
{
  // Approvers come here too.
${formatListener(layout, listeners.controlPlane, "controlPlane")},

  // The signer knows it as a trusted forwarder.
  "signer": {
    "url": ${quote(`https://${reachable(listeners.signer)}`)},
${formatPair(layout, "controlPlaneClient", "client_")}
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

${formatAudit(layout.audit.controlPlane)},
  "monitor_listen": ${quote(listeners.controlPlaneMonitor)},

  // Approvals, and what is usual for whom, survive a restart.
  "state_db": ${quote(layout.controlPlaneState)}
}
`;
}

export interface Runtime {
  /** The `deno` program; `undefined` if this program is compiled, and the services are programs too. */
  readonly deno: string | undefined;
  /** The directory of the sources, absolute; unused without `deno`. */
  readonly sources: string;
}

export interface GuideFacts extends Omit<ConfigChoices, "networks"> {
  readonly layout: Layout;
  readonly runtime: Runtime;
  readonly approverPassword: string;
}

/** The entry of the broker in the `mcpServers` of an MCP client's settings. */
export function mcpClientEntry({ layout, runtime }: Pick<GuideFacts, "layout" | "runtime">) {
  const { agentSocket: socket } = layout;
  if (runtime.deno === undefined) return { command: "gateway", args: ["connect", socket] };
  const flags = ["--allow-read=", "--allow-write=", "--allow-net=unix:"].map((flag) => `${flag}${socket}`);
  const run = ["run", "--no-prompt", "--cached-only", ...flags];
  return { command: runtime.deno, args: [...run, `${runtime.sources}/broker/connect.ts`, socket] };
}

/**
 * The commands that start the services, in the order of their dependencies. From source they use the launcher itself:
 * `deno task` would stay in memory as the service's parent.
 */
export function startCommands({ layout, route, runtime: { deno, sources } }: GuideFacts): readonly string[] {
  const services = [
    ["signer", "signer", layout.signerConfig],
    ...(route === "control_plane" ? [["control-plane", "control-plane", layout.controlPlaneConfig]] : []),
    ["broker", "gateway serve-http", layout.brokerConfig],
  ];
  return services.map(([target, program, config = ""]) => {
    const start = deno === undefined
      ? program
      : `DENO=${shellQuote(deno)} ${shellQuote(`${sources}/ctl/start.sh`)} ${target}`;
    return `${start} --config ${shellQuote(config)}`;
  });
}

export function formatGuide(facts: GuideFacts & { readonly backup: string | undefined }): readonly string[] {
  const { layout, route, listeners, hosts, names = [], runtime, backup } = facts;
  const hasApprovals = route === "control_plane";
  const what = hasApprovals ? "the signer, the control plane and the broker" : "the signer and the broker";
  const controlTool = runtime.deno === undefined ? "broker-ctl" : "deno task broker-ctl";
  const signerConfig = shellQuote(layout.signerConfig);
  const entry = JSON.stringify({ mcpServers: { gateway: mcpClientEntry(facts) } }, null, 2);
  return [
    `Set up ${layout.folder}: keys, signer.json, control-plane.json, config.json, mcp.json, broker-ctl.json`,
    ...(backup === undefined ? [] : [
      `The former set-up, its keys and logs are in ${backup}`,
      "Hosts trust the former CA until they are enrolled again.",
    ]),
    "",
    "1. Enrol each host",
    ...(hosts.length > 0 ? hosts.map(({ name }) => name) : ["NAME"]).map((name) =>
      `   ${controlTool} host enrol ${name} --over ssh --config ${signerConfig}`
    ),
    "   That logs in as root; without --over ssh it prints what is to be run there. What sshd trusts already stays.",
    ...hosts.length > 0 ? [] : [
      `   NAME is the host's name in "hosts" of ${layout.signerConfig}, which is still empty.`,
    ],
    "",
    `2. Start ${what}, each in a terminal of its own`,
    ...startCommands(facts).map((command) => `   ${command}`),
    "",
    "3. Let an agent in. Over MCP, add to the client's settings:",
    ...entry.split("\n").map((line) => `   ${line}`),
    `   Over HTTP: POST https://${listeners.broker}/v1/ssh_run with pki/agent.crt and pki/agent.key`,
    isInside(layout)
      ? "   An agent that runs as this account can read every key in pki: give it an account of its own (init --socket)."
      : '   As root, for the group of the agent\'s account: install -d -o "$USER" -g GROUP -m 2750 ' +
        shellQuote(dirname(layout.agentSocket)),
    "",
    ...hasApprovals
      ? [
        '4. Have a human approve what "require_approval" of a policy in signer.json names, on a terminal:',
        `   ${controlTool} approval list --client-config ${shellQuote(layout.clientConfig)}`,
        "   or in a browser, once two files of this set-up are imported in its settings for certificates:",
        `   ${layout.mtlsCa} as an authority (it can vouch for this machine alone)`,
        `   ${layout.approverBundle} as your own certificate (password, shown only now: ${facts.approverPassword})`,
        `   ${approvalsUrl(publicAddress(listeners.controlPlane, names))}`,
        "",
      ]
      : [],
    "Certificates end after 90 days. This renews what ends within 30, and a timer for it is in systemd/:",
    `   ${controlTool} identity renew --due --config ${signerConfig}`,
    "pki/ssh_ca is a key in a file, for labs: whoever can read it can log in to every enrolled host.",
  ];
}
