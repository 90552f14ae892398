import { resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { systemClock } from "@gateway/shared/clock";
import { brokerConfig } from "@gateway/broker/config";
import { parseConfig } from "@gateway/shared/config/load";
import { AppError } from "@gateway/shared/errors";
import { brokerPermissions, brokerRunOptions } from "@gateway/broker/permissions";
import { formatFlags } from "@gateway/shared/permissions/set";
import { systemRandom } from "@gateway/shared/random";
import { once, repeated } from "../arguments.ts";
import type { AddCommand, CommandContext } from "../context.ts";
import { type ConfigChoices, formatMcpConfig } from "../init/config_text.ts";
import { enrolmentLines, formatGuide, mcpClientEntry, type Runtime, startCommands } from "../init/guide.ts";
import { approvalsUrl, createLayout, describeLayout, type Layout } from "../init/layout.ts";
import { createKeyMaterial } from "../init/material.ts";
import {
  DEFAULT_LISTENERS,
  DEFAULT_NETWORKS,
  type InitListeners,
  parseHosts,
  parseLoopback,
  parseNetworks,
} from "../init/options.ts";
import { planSetUp } from "../init/plan.ts";
import { checkFree, writeSetUp } from "../init/write.ts";
import type { CommandResult } from "../output.ts";
import { type Advice, withHint } from "../with_hint.ts";

interface InitFlags {
  readonly dir?: string;
  readonly force?: boolean;
  readonly direct?: boolean;
  readonly host?: readonly string[];
  readonly network?: readonly string[];
  readonly listenSigner?: string;
  readonly listenControlPlane?: string;
  readonly listenBroker?: string;
  readonly monitorSigner?: string;
  readonly monitorControlPlane?: string;
  readonly monitorBroker?: string;
}

const EXAMPLES = `
Examples:
  broker-ctl init --dir gateway
  broker-ctl init --dir gateway \\
      --host "web01=10.0.0.5:22,user=deploy,key=$(ssh-keyscan -t ed25519 10.0.0.5 | cut -d' ' -f2-)"
  broker-ctl init --dir gateway --force     # new keys; the old set-up is kept in gateway/backup-<time>

Makes a certificate authority for SSH and one for the services, a certificate for each of signer, control
plane, broker, operator, approver and agent, the keys of the audit logs, and the configs. All listen on this
machine alone. Brokers ask the control plane, where a human approves what the policy says; with --direct they
ask the signer, and what needs approval is refused.
The folder, and all that leads to it, must belong to you or root, and be writable for nobody else; a folder in
/tmp will do, /tmp itself and a link will not.
A host key that you take with ssh-keyscan is worth what the network between was worth: compare its
fingerprint, or read the key on the host from /etc/ssh/ssh_host_ed25519_key.pub.
`;

const OCCUPIED: Advice = {
  when: ({ code }) => code === "conflict",
  hint: "--force replaces it, keys included, and keeps the former one in a backup folder",
};

/** `init`: a working set-up for this machine in one folder. */
export const addInit: AddCommand = (program, context) => {
  program.command("init")
    .description("Make keys and configs for a set-up on this machine.")
    .option("--dir <folder>", "where (default: the working folder)", once)
    .option("--force", "replace a set-up that is there, all keys included; stop its services first")
    .option("--host <host>", "a host, as name=addr,user=account,key=<public key>; repeat for more", repeated)
    .option(
      "--network <network>",
      "where brokers may reach hosts that are added later, as 10.0.0.0/8:22 or *.example.com:22 " +
        "(default: private addresses, port 22); repeat for more",
      repeated,
    )
    .option("--direct", "have the brokers ask the signer, without control plane and approvals")
    .option(...address("listen-signer", "the signer", "signer"), once)
    .option(...address("listen-control-plane", "the control plane", "controlPlane"), once)
    .option(...address("listen-broker", "the broker over HTTP", "broker"), once)
    .option(...address("monitor-signer", "the signer's monitor", "signerMonitor"), once)
    .option(...address("monitor-control-plane", "the control plane's monitor", "controlPlaneMonitor"), once)
    .option(...address("monitor-broker", "the broker's monitor", "brokerMonitor"), once)
    .addHelpText("after", EXAMPLES)
    .action((flags: InitFlags, command) => context.run(command, [], () => init(flags, context)));
};

function address(flag: string, what: string, listener: keyof InitListeners): [string, string] {
  return [`--${flag} <addr>`, `${what} (default: ${DEFAULT_LISTENERS[listener]})`];
}

/**
 * An absolute folder that may stand in configs, commands and permission flags.
 *
 * @throws {AppError} `invalid_request` for one that would break them
 */
function readFolder(dir: string, workingFolder: string): string {
  const folder = resolve(workingFolder, dir);
  if (/[\p{Cc},]/u.test(folder)) {
    throw new AppError(
      "invalid_request",
      `Cannot set up ${
        JSON.stringify(folder)
      }: a path with a comma or a control character can't be granted to a process`,
    );
  }
  return folder;
}

function readChoices(flags: InitFlags): ConfigChoices {
  const defaults = DEFAULT_LISTENERS;
  return {
    route: flags.direct === true ? "signer" : "control_plane",
    hosts: parseHosts(flags.host ?? []),
    networks: parseNetworks(flags.network ?? DEFAULT_NETWORKS),
    listeners: {
      signer: parseLoopback(flags.listenSigner ?? defaults.signer),
      controlPlane: parseLoopback(flags.listenControlPlane ?? defaults.controlPlane),
      broker: parseLoopback(flags.listenBroker ?? defaults.broker),
      signerMonitor: parseLoopback(flags.monitorSigner ?? defaults.signerMonitor),
      controlPlaneMonitor: parseLoopback(flags.monitorControlPlane ?? defaults.controlPlaneMonitor),
      brokerMonitor: parseLoopback(flags.monitorBroker ?? defaults.brokerMonitor),
    },
  };
}

function deriveMcpFlags(layout: Layout, choices: ConfigChoices): readonly string[] {
  const source = layout.mcpConfig;
  const text = formatMcpConfig(layout, choices);
  const config = parseConfig({ text, source, what: "broker config", schema: brokerConfig });
  const location = { configPath: source, workingFolder: layout.folder, frontend: "serve-mcp" } as const;
  return formatFlags(brokerPermissions(config, location), brokerRunOptions(location.frontend));
}

function currentRuntime(): Runtime {
  if (Deno.build.standalone) return { deno: undefined, sources: "" };
  const sources = fileURLToPath(new URL("../..", import.meta.url)).replace(/[/\\]$/, "");
  return { deno: Deno.execPath(), sources };
}

async function init(flags: InitFlags, context: CommandContext): Promise<CommandResult> {
  const folder = readFolder(flags.dir ?? ".", context.workingFolder);
  const layout = createLayout(folder);
  const choices = readChoices(flags);
  const mcpFlags = deriveMcpFlags(layout, choices);
  const options = { folder, force: flags.force === true, clock: systemClock, random: systemRandom };
  await withHint(OCCUPIED, () => checkFree(options));
  const material = await createKeyMaterial(systemRandom);
  const plan = planSetUp(layout, choices, material);
  const { backup } = await withHint(OCCUPIED, () => writeSetUp(plan, options));
  const { sshCaPublic } = material;
  const facts = { ...choices, layout, runtime: currentRuntime(), sshCaPublic, mcpFlags, backup };
  return {
    json: {
      ...describeLayout(layout),
      backup,
      route: choices.route,
      approvals_url: approvalsUrl(choices.listeners.controlPlane),
      ssh_ca_public_key: sshCaPublic,
      enrolment: Object.fromEntries(
        choices.hosts.map((host) => [host.name, enrolmentLines(sshCaPublic, host)]),
      ),
      start: startCommands(facts),
      mcp_server: mcpClientEntry(facts),
    },
    lines: formatGuide(facts),
  };
}
