import { dirname } from "node:path";
import { shellQuote } from "@gateway/shared/text";
import type { BrokerRoute } from "./config_text.ts";
import { approvalsUrl, isInside, type Layout } from "./layout.ts";
import { type InitHost, type InitListeners, publicAddress } from "./options.ts";

/** How the services are started here. */
export interface Runtime {
  /** The `deno` program, or `undefined` when this program is compiled and the services are programs too. */
  readonly deno: string | undefined;
  /** The folder of the sources, absolute; unused without `deno`. */
  readonly sources: string;
}

interface CommandLine {
  readonly command: string;
  readonly args: readonly string[];
}

export interface GuideFacts {
  readonly layout: Layout;
  readonly route: BrokerRoute;
  readonly listeners: InitListeners;
  readonly hosts: readonly InitHost[];
  /** What it is reached by from elsewhere. */
  readonly names?: readonly string[];
  readonly runtime: Runtime;
  readonly approverPassword: string;
}

/** How an MCP client reaches the broker: for the `mcpServers` of its settings. */
export function mcpClientEntry({ layout, runtime }: Pick<GuideFacts, "layout" | "runtime">): CommandLine {
  const { agentSocket: socket } = layout;
  if (runtime.deno === undefined) return { command: "gateway", args: ["connect", socket] };
  const flags = ["--allow-read=", "--allow-write=", "--allow-net=unix:"].map((flag) => `${flag}${socket}`);
  const run = ["run", "--no-prompt", "--cached-only", ...flags];
  return { command: runtime.deno, args: [...run, `${runtime.sources}/broker/connect.ts`, socket] };
}

/**
 * The commands that start the services, in the order in which they need each other. From source they name the launcher
 * itself: `deno task` would stay in memory as the service's parent.
 */
export function startCommands({ layout, route, runtime }: GuideFacts): readonly string[] {
  const services: readonly (readonly [target: string, program: string, config: string])[] = [
    ["signer", "signer", layout.signerConfig],
    ...(route === "control_plane"
      ? [["control-plane", "control-plane", layout.controlPlaneConfig] as const]
      : []),
    ["broker", "gateway serve-http", layout.brokerConfig],
  ];
  const { deno, sources } = runtime;
  const launcher = deno === undefined
    ? undefined
    : `DENO=${shellQuote(deno)} ${shellQuote(`${sources}/ctl/start.sh`)}`;
  return services.map(([target, program, config]) => {
    const start = launcher === undefined ? program : `${launcher} ${target}`;
    return `${start} --config ${shellQuote(config)}`;
  });
}

/** The whole guide, for a terminal. */
export function formatGuide(facts: GuideFacts & { readonly backup: string | undefined }): readonly string[] {
  const { layout, route, listeners, runtime, backup } = facts;
  const what = route === "control_plane"
    ? "the signer, the control plane and the broker"
    : "the signer and the broker";
  const controlTool = runtime.deno === undefined ? "broker-ctl" : "deno task broker-ctl";
  const approvals = route === "control_plane" ? formatApprovals(facts, controlTool) : [];
  return [
    `Set up ${layout.folder}: keys, signer.json, control-plane.json, config.json, mcp.json, broker-ctl.json`,
    ...(backup === undefined ? [] : [
      `The former set-up, its keys and logs are in ${backup}`,
      "Hosts trust the former CA until they are enrolled again.",
    ]),
    "",
    "1. Enrol each host",
    ...formatHosts(facts, controlTool),
    "",
    `2. Start ${what}, each in a terminal of its own`,
    ...startCommands(facts).map((command) => `   ${command}`),
    "",
    "3. Let an agent in. Over MCP, add to the client's settings:",
    ...JSON.stringify({ mcpServers: { gateway: mcpClientEntry(facts) } }, null, 2).split("\n").map((line) =>
      `   ${line}`
    ),
    `   Over HTTP: POST https://${listeners.broker}/v1/ssh_run with pki/agent.crt and pki/agent.key`,
    isInside(layout)
      ? "   An agent that runs as this account can read every key in pki: give it an account of its own (init --socket)."
      : `   As root, for the group of the agent's account: install -d -o "$USER" -g GROUP -m 2750 ${
        shellQuote(dirname(layout.agentSocket))
      }`,
    "",
    ...approvals,
    "Certificates end after 90 days. This renews what ends within 30, and a timer for it is in systemd/:",
    `   ${controlTool} identity renew --due --config ${shellQuote(layout.signerConfig)}`,
    "pki/ssh_ca is a key in a file, for labs: whoever can read it can log in to every enrolled host.",
  ];
}

function formatHosts({ layout, hosts }: GuideFacts, controlTool: string): readonly string[] {
  const names = hosts.length > 0 ? hosts.map(({ name }) => name) : ["NAME"];
  return [
    ...names.map((name) =>
      `   ${controlTool} host enrol ${name} --over ssh --config ${shellQuote(layout.signerConfig)}`
    ),
    "   That logs in as root; without --over ssh it prints what is to be run there. What sshd trusts already stays.",
    ...hosts.length > 0 ? [] : [
      `   NAME is the host's name in "hosts" of ${layout.signerConfig}, which is still empty.`,
    ],
  ];
}

function formatApprovals(
  { layout, listeners, names = [], approverPassword }: GuideFacts,
  controlTool: string,
): readonly string[] {
  return [
    '4. Have a human approve what "require_approval" of a policy in signer.json names, on a terminal:',
    `   ${controlTool} approval list --client-config ${shellQuote(layout.clientConfig)}`,
    "   or in a browser, once two files of this set-up are imported in its settings for certificates:",
    `   ${layout.mtlsCa} as an authority (it can vouch for this machine alone)`,
    `   ${layout.approverBundle} as your own certificate (password, shown only now: ${approverPassword})`,
    `   ${approvalsUrl(publicAddress(listeners.controlPlane, names))}`,
    "",
  ];
}
