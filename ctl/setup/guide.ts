// The text that `init` prints: the commands that start an installation, and the steps to use it.
import { dirname } from "node:path";
import { shellQuote } from "@gateway/shared/text";
import type { ConfigChoices } from "./config_text.ts";
import { approvalsUrl, isInside, type Layout, publicAddress } from "./layout.ts";

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
  /** The directory of the previous installation. */
  readonly backup?: string | undefined;
  readonly enrolled?: readonly string[];
}

/** The broker's entry in `mcpServers` of an MCP client's settings. */
export function mcpClientEntry({ layout, route, runtime }: Pick<GuideFacts, "layout" | "route" | "runtime">) {
  return {
    command: runtime.deno === undefined ? "gateway" : `${runtime.sources}/bin/gateway`,
    args: route === "local" ? ["serve-mcp", "--config", layout.mcpConfig] : ["connect", layout.agentSocket],
  };
}

/**
 * The commands that start the services, in the order of their dependencies. From source they use the launcher directly,
 * because `deno task` would stay in memory as the service's parent.
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

export function formatGuide(facts: GuideFacts): readonly string[] {
  const { layout, route, listeners, hosts, names = [], runtime, backup, enrolled = [] } = facts;
  const hasApprovals = route === "control_plane";
  const tool = runtime.deno === undefined ? "broker-ctl" : shellQuote(`${runtime.sources}/bin/broker-ctl`);
  const server = mcpClientEntry(facts);
  const words = [server.command, ...server.args].map(shellQuote);
  const entry = JSON.stringify({ mcpServers: { gateway: server } }, null, 2).replace(/^/gm, "   ");
  const pending = hosts.map(({ name }) => name).filter((name) => !enrolled.includes(name));
  const enrollment = (config: string) =>
    pending.length === 0 && hosts.length > 0 ? [`1. Enrolled: ${enrolled.join(", ")}`] : [
      "1. Enroll each host",
      ...(hosts.length > 0 ? pending : ["NAME"]).map((name) =>
        `   ${tool} host enroll ${name} --over ssh --config ${shellQuote(config)}`
      ),
      "   It logs in as root; without --over ssh it prints the script. Existing keys and CAs on the host stay trusted.",
      ...hosts.length > 0 ? [] : [`   NAME is the name of a host in "hosts" of ${config}; add one first.`],
    ];
  if (route === "local") {
    const { log, key } = layout.audit.mcp;
    return [
      `Local installation in ${layout.folder}: keys in pki, config mcp.json`,
      ...(backup === undefined ? [] : [`The previous installation is in ${backup}`]),
      ...["", ...enrollment(layout.mcpConfig), ""],
      "2. Add this to the settings of your MCP client, which starts the broker",
      ...entry.split("\n"),
      `   Claude Code: claude mcp add gateway -- ${words.join(" ")}`,
      ...["", "3. Allow more commands in command_policies of mcp.json, and restart the MCP client", ""],
      "To verify the audit log:",
      `   ${tool} audit verify --log ${shellQuote(log)} --key ${shellQuote(key)}`,
    ];
  }
  const starts = ["2. Start each in its own terminal:", ...startCommands(facts).map((line) => `   ${line}`)];
  const account = isInside(layout)
    ? "   An agent in this account can read all keys in pki: use a separate account (init --socket)."
    : '   As root, with the group of the agent\'s account: install -d -o "$USER" -g GROUP -m 2750 ' +
      shellQuote(dirname(layout.agentSocket));
  const approvals = [
    '4. Approve commands that match "require_approval" of a policy in signer.json, in a terminal:',
    `   ${tool} approval list --client-config ${shellQuote(layout.clientConfig)}`,
    `   or in a browser: import ${layout.mtlsCa} as an authority, and ${layout.approverBundle} as your certificate ` +
    `(password, shown only now: ${facts.approverPassword}), then open ` +
    approvalsUrl(publicAddress(listeners.controlPlane, names)),
  ];
  if (facts.kept !== undefined) {
    return [
      `1. Enrolled hosts stay enrolled, because the CA is the same. The previous files are in ${backup}`,
      ...[...starts, "3. Replace the entry in the settings of your MCP client:"],
      ...[`   "gateway": ${JSON.stringify(server)}`, account, ...hasApprovals ? approvals : []],
    ];
  }
  return [
    `Installation in ${layout.folder}: keys, signer.json, control-plane.json, config.json, mcp.json, broker-ctl.json`,
    ...backup === undefined ? [] : [`The previous CA is in ${backup}: enroll its hosts again`],
    ...["", ...enrollment(layout.signerConfig), "", ...starts, ""],
    "3. Connect an agent. For MCP, add this to the client's settings:",
    ...entry.split("\n"),
    `   For HTTP: POST https://${listeners.broker}/v1/ssh_run with pki/agent.crt and pki/agent.key`,
    ...[account, "", ...hasApprovals ? [...approvals, ""] : []],
    "Certificates expire after 90 days. To renew those that expire within 30 days (systemd/ contains a timer):",
    `   ${tool} identity renew --due --config ${shellQuote(layout.signerConfig)}`,
    "pki/ssh_ca is a key in a file, for labs only: anyone who can read it can log in to every enrolled host.",
  ];
}
