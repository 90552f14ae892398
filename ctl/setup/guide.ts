import { dirname } from "node:path";
import { shellQuote } from "@gateway/shared/text";
import type { ConfigChoices } from "./config_text.ts";
import { approvalsUrl, isInside, type Layout } from "./layout.ts";
import { publicAddress } from "./options.ts";

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
