import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { errorText } from "@gateway/shared/errors";
import { parseListenAddress } from "@gateway/shared/http";
import { shellQuote, visibleText } from "@gateway/shared/text";
import { formatEnrollScript } from "../hosts/enroll.ts";
import { LOCAL_NAMES } from "../identities/kinds.ts";
import { reachable } from "../kit/values.ts";
import { type Call, command, type Given, repeat } from "../kit/command.ts";
import { type Advice, type CommandResult, invalid, withHint } from "../kit/output.ts";
import { runToEnd } from "../kit/programs.ts";
import {
  type ConfigChoices,
  formatGuide,
  mcpClientEntry,
  type Runtime,
  startCommands,
} from "./config_text.ts";
import { type ImportedHosts, importSshConfig } from "./import_ssh_config.ts";
import {
  approvalsUrl,
  createLayout,
  DEFAULT_LISTENERS,
  DEFAULT_NETWORKS,
  describeLayout,
  type InitHost,
  type InitListeners,
  parseHosts,
  parseListener,
  parseNames,
  parseNetworks,
  publicAddress,
} from "./layout.ts";
import { checkFree, createKeyMaterial, planInstallation, renewalUnits, writeInstallation } from "./write.ts";

const address = (what: string, listener: keyof InitListeners) =>
  `address of ${what} (default: ${DEFAULT_LISTENERS[listener]})`;

const TAKES = {
  "--dir <directory>": "directory of the installation (default: .)",
  "--force": "replace an existing installation and its keys; stop its services first",
  "--host <host>": repeat("host, as name=addr,user=account,key=<public key>; repeatable"),
  "--network <network>": repeat(
    "network of future hosts, such as 10.0.0.0/8:22 or *.example.com:22 (default: private addresses, " +
      "port 22); repeatable",
  ),
  "--import-ssh-config [file]": "import the hosts of an ssh config (default: ~/.ssh/config)",
  "--register-mcp": "register the broker with claude mcp add",
  "--socket <path>": "socket for an agent with a separate account (default: run/agent.sock, this account)",
  "--direct": "connect brokers to the signer, without control plane and approvals",
  "--name <name>": repeat("DNS name or address for other machines; repeatable"),
  "--listen <address>": "with --name: listen address of the services, such as 0.0.0.0",
  "--listen-signer <addr>": address("the signer", "signer"),
  "--listen-control-plane <addr>": address("the control plane", "controlPlane"),
  "--listen-broker <addr>": address("the broker over HTTP", "broker"),
  "--monitor-signer <addr>": address("the signer's monitor", "signerMonitor"),
  "--monitor-control-plane <addr>": address("the control plane's monitor", "controlPlaneMonitor"),
  "--monitor-broker <addr>": address("the broker's monitor", "brokerMonitor"),
} as const;

type InitFlags = Given<typeof TAKES>;

export const INIT = command({
  name: "init",
  summary: "Create the keys and configs of an installation.",
  takes: TAKES,
  help: `
Examples:
  broker-ctl init --dir gateway
  broker-ctl init --dir gateway \\
      --host "web01=10.0.0.5:22,user=deploy,key=$(ssh-keyscan -t ed25519 10.0.0.5 | cut -d' ' -f2-)"
  broker-ctl init --dir gateway --name gw.example.org --listen 0.0.0.0
  broker-ctl init --dir gateway --import-ssh-config   # import the hosts of your ssh config
  broker-ctl init --dir gateway --register-mcp        # register the broker as an MCP server of claude
  broker-ctl init --dir gateway --force               # replace all; the previous files move to gateway/backup-<time>

Creates an SSH CA, a CA for the services, certificates for signer, control plane, broker, operator, approver and agent,
the keys of the audit logs, and the configs. Services listen on this machine only; --name gw.example.org --listen
0.0.0.0 opens them to other machines, and the CA can issue certificates for those names only. Certificates expire after
90 days: broker-ctl identity renew --due renews them, and gateway/systemd contains a timer for it. With --direct there
is no control plane, and commands that need approval are denied. The directory and its parents must belong to you or
root, and no other user may write to them. A directory below /tmp is possible; /tmp itself and a symbolic link are not.
ssh-keyscan trusts the network: compare the fingerprint with /etc/ssh/ssh_host_ed25519_key.pub on the host.
`,
  uses: ({ importSshConfig, registerMcp }) =>
    importSshConfig === undefined && registerMcp !== true ? [] : ["programs"],
  run: init,
});

const OCCUPIED: Advice = {
  when: ({ code, retryAfterSeconds }) => code === "conflict" && retryAfterSeconds === undefined,
  hint:
    "pass --force to replace the installation and its keys; the previous files move to a backup directory",
};

/** An absolute path that is safe in configs, commands and permission flags. */
function readPath(text: string, workingFolder: string): string {
  const path = resolve(workingFolder, text);
  if (!/[\p{Cc},]/u.test(path)) return path;
  const why = "Deno permissions cannot contain a path with a comma or a control character";
  throw invalid(`Cannot use ${JSON.stringify(path)}: ${why}`);
}

async function importHosts(
  { importSshConfig: file }: InitFlags,
  { workingFolder, variables: { HOME } }: Call,
): Promise<ImportedHosts> {
  if (file === undefined) return { hosts: [], notes: [] };
  if (file !== true) return await importSshConfig(resolve(workingFolder, file));
  if (HOME) return await importSshConfig(join(HOME, ".ssh", "config"));
  throw invalid("Cannot find ~/.ssh/config: HOME is not set; pass --import-ssh-config <file>");
}

function readChoices(flags: InitFlags, imported: readonly InitHost[]): ConfigChoices {
  const named = parseHosts(flags.host ?? []);
  const names = parseNames(flags.name ?? []);
  const service = (listener: keyof InitListeners, given: string | undefined) => {
    const standard = DEFAULT_LISTENERS[listener];
    const port = standard.split(":").at(-1);
    return parseListener(given ?? (flags.listen === undefined ? standard : `${flags.listen}:${port}`), names);
  };
  const monitor = (listener: keyof InitListeners, given: string | undefined) =>
    parseListener(given ?? DEFAULT_LISTENERS[listener]);
  return {
    names,
    route: flags.direct === true ? "signer" : "control_plane",
    hosts: [...named, ...imported.filter(({ name }) => !named.some((host) => host.name === name))],
    networks: parseNetworks(flags.network ?? DEFAULT_NETWORKS),
    listeners: {
      signer: service("signer", flags.listenSigner),
      controlPlane: service("controlPlane", flags.listenControlPlane),
      broker: service("broker", flags.listenBroker),
      // A monitor stays on loopback, because it has no authentication.
      signerMonitor: monitor("signerMonitor", flags.monitorSigner),
      controlPlaneMonitor: monitor("controlPlaneMonitor", flags.monitorControlPlane),
      brokerMonitor: monitor("brokerMonitor", flags.monitorBroker),
    },
  };
}

/** The names and addresses in the certificates of listeners. */
function certifiedNames({ names = [], listeners }: ConfigChoices): readonly string[] {
  const hosts = [listeners.signer, listeners.controlPlane, listeners.broker]
    .map((listen) => parseListenAddress(reachable(listen)).hostname);
  return [...new Set([...names, ...hosts])].filter((name) => !LOCAL_NAMES.includes(name));
}

function currentRuntime(): Runtime {
  // Compiled programs and bundles of packages start services by their names.
  if (Deno.build.standalone || !import.meta.url.endsWith(".ts")) return { deno: undefined, sources: "" };
  const sources = fileURLToPath(new URL("../..", import.meta.url)).replace(/[/\\]$/, "");
  return { deno: Deno.execPath(), sources };
}

async function init(flags: InitFlags, context: Call): Promise<CommandResult> {
  const folder = readPath(flags.dir ?? ".", context.workingFolder);
  const socket = flags.socket === undefined ? undefined : readPath(flags.socket, context.workingFolder);
  const layout = createLayout(folder, socket);
  const { hosts, notes } = await importHosts(flags, context);
  const choices = readChoices(flags, hosts);
  const options = { folder, force: flags.force === true, clock: systemClock, random: systemRandom };
  await withHint(OCCUPIED, () => checkFree(options));
  const material = await createKeyMaterial(systemRandom, certifiedNames(choices));
  const runtime = currentRuntime();
  const plan = [...renewalUnits(layout, runtime), ...planInstallation(layout, choices, material)];
  const { backup } = await withHint(OCCUPIED, () => writeInstallation(plan, options));
  const { sshCaPublic, approverPassword } = material;
  const facts = { ...choices, layout, runtime, approverPassword, backup };
  const registration = flags.registerMcp === true ? await registerMcp(mcpClientEntry(facts)) : undefined;
  return {
    json: {
      ...describeLayout(layout),
      approver_bundle_password: approverPassword,
      backup,
      ...(flags.importSshConfig !== undefined &&
        { hosts: choices.hosts.map(({ name }) => name), left_out: notes }),
      route: choices.route,
      approvals_url: approvalsUrl(publicAddress(choices.listeners.controlPlane, choices.names ?? [])),
      ssh_ca_public_key: sshCaPublic,
      enrolment: Object.fromEntries(
        choices.hosts.map(({ name, user }) => {
          const enrolment = { user, principal: `host:${name}`, ca: [sshCaPublic], sshdConfig: undefined };
          return [name, formatEnrollScript({ mode: "add", ...enrolment })];
        }),
      ),
      start: startCommands(facts),
      mcp_server: mcpClientEntry(facts),
      ...(registration !== undefined && { mcp_registered: registration.registered }),
    },
    lines: [
      ...notes,
      ...(notes.length > 0 ? [""] : []),
      ...formatGuide(facts),
      ...(registration === undefined ? [] : ["", ...registration.lines]),
    ],
  };
}

/** Registers the broker as an MCP server in `claude`. A failure does not affect the installation. */
async function registerMcp({ command, args }: ReturnType<typeof mcpClientEntry>) {
  const words = ["mcp", "add", "gateway", "--", command, ...args];
  const failure = await runToEnd("claude", words).then(
    ({ success, stdout, stderr }) => success ? undefined : `${stdout}${stderr}`.trim().split("\n").at(-1),
    errorText,
  );
  if (failure === undefined) {
    return { registered: true, lines: ["The broker is registered in claude as the MCP server gateway."] };
  }
  return {
    registered: false,
    lines: [
      `claude did not register the broker as an MCP server: ${visibleText(failure)}`,
      "After fixing the problem, run:",
      `   claude ${words.map(shellQuote).join(" ")}`,
    ],
  };
}
