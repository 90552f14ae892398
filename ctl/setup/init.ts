import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { AppError, errorText } from "@gateway/shared/errors";
import { readRegularText } from "@gateway/shared/files";
import { parseListenAddress } from "@gateway/shared/http";
import { quoteText, shellQuote, visibleText } from "@gateway/shared/text";
import { enroll, formatEnrollScript } from "../hosts/enroll.ts";
import { LOCAL_NAMES } from "../identities/kinds.ts";
import { configHome } from "../kit/client_config.ts";
import { reachable } from "../kit/values.ts";
import { type Call, command, type Given, optionOf, repeat } from "../kit/command.ts";
import { type Advice, type CommandResult, invalid, notFound, withHint } from "../kit/output.ts";
import { overSsh, runToEnd } from "../kit/programs.ts";
import type { ConfigChoices } from "./config_text.ts";
import { formatGuide, mcpClientEntry, type Runtime, startCommands } from "./guide.ts";
import { completeHosts } from "./host_keys.ts";
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
import { keepContext } from "./context.ts";
import { addLocalHosts, keepLocal, loadLocal } from "./local.ts";
import {
  checkFolder,
  checkFree,
  createKeyMaterial,
  planInstallation,
  renewalUnits,
  writeInstallation,
} from "./write.ts";

const address = (what: string, listener: keyof InitListeners) =>
  `address of ${what} (default: ${DEFAULT_LISTENERS[listener]})`;

const { "--login <account>": LOGIN, "--sshd-config <file>": SSHD_CONFIG } = overSsh("");

const TAKES = {
  "--dir <directory>": "directory of the installation (default: ~/.config/gateway)",
  "--local": "create one config for a broker that an MCP client starts, or add hosts to it",
  "--from-local <directory>": "turn a local installation into services with the same CA, hosts and policy",
  "--force": "replace an existing installation and its keys; stop its services first",
  "--host <host>": repeat(
    "host, as name=account@address[:port] and optionally ,key=<public key>; repeatable",
  ),
  "--enroll": "enroll the given hosts over SSH, as host enroll does",
  "--login <account>": LOGIN.replace("--over", "--enroll"),
  "--sshd-config <file>": SSHD_CONFIG,
  "--yes": "trust scanned host keys without asking",
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
  broker-ctl init --local --host web01=deploy@10.0.0.5 --enroll
  broker-ctl init --from-local ~/.config/gateway
  broker-ctl init --dir gateway --host web01=deploy@10.0.0.5:2222
  broker-ctl init --dir gateway --host "web01=deploy@10.0.0.5,key=$(cat web01_ssh_host_ed25519_key.pub)"
  broker-ctl init --dir gateway --name gw.example.org --listen 0.0.0.0
  broker-ctl init --dir gateway --import-ssh-config   # import the hosts of your ssh config
  broker-ctl init --dir gateway --register-mcp        # register the broker as an MCP server of claude
  broker-ctl init --dir gateway --force               # replace all; the previous files move to gateway/backup-<time>

With --local, creates an SSH CA and one config for a broker that an MCP client starts, and prints the client's entry. A
second --local with another --host adds the host. --from-local adds services to such an installation; the previous files
move to backup-<time>.

Without --local, creates an SSH CA, a CA for the services, certificates for signer, control plane, broker, operator, approver and agent,
the keys of the audit logs, and the configs. Services listen on this machine only; --name gw.example.org --listen
0.0.0.0 opens them to other machines, and the CA can issue certificates for those names only. Certificates expire after
90 days: broker-ctl identity renew --due renews them, and gateway/systemd contains a timer for it. With --direct there
is no control plane, and commands that need approval are denied. The directory and its parents must belong to you or
root, no other user may write to them, and they must not be in a git work tree. A directory below /tmp is possible; /tmp
itself and a symbolic link are not. The key of a host without key= is scanned (ssh-keyscan), and you are asked to compare
its fingerprint, because an attacker in the network can return another key.

Writes a context with the name of the directory, so that commands find the installation without --config. --context lab
gives it another name, and --context '' writes none.
`,
  uses: ({ host = [], enroll, importSshConfig, registerMcp }) => {
    const scans = parseHosts(host).some(({ hostKey }) => hostKey === undefined);
    return scans || enroll || registerMcp || importSshConfig !== undefined ? ["programs"] : [];
  },
  run: init,
});

const OCCUPIED: Advice = {
  when: ({ code, retryAfterSeconds }) => code === "conflict" && retryAfterSeconds === undefined,
  hint:
    "pass --force to replace the installation and its keys; the previous files move to a backup directory; to add " +
    "services to a local installation, use --from-local",
};

/** The command line with these options, except those of tables. */
function commandLine({ headers: _1, color: _2, ...flags }: InitFlags & Readonly<Record<string, unknown>>) {
  const words = Object.entries(flags).flatMap(([name, value]) =>
    [value].flat().map((one) => one === true ? optionOf(name) : `${optionOf(name)} ${shellQuote(`${one}`)}`)
  );
  return ["broker-ctl init", ...words].join(" ");
}

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

function readChoices(flags: InitFlags): Omit<ConfigChoices, "hosts"> {
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
    route: flags.local === true ? "local" : flags.direct === true ? "signer" : "control_plane",
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

function defaultFolder({ variables }: Call): string {
  const home = configHome(variables);
  if (home) return join(home, "gateway");
  throw invalid("Cannot find ~/.config/gateway: HOME is not set; pass --dir <directory>");
}

/** Options without an effect: of services with --local, of new installations with --from-local. */
const USELESS = {
  local: ["fromLocal", "network", "socket", "direct", "name", "listen"],
  fromLocal: ["dir", "force", "host", "enroll", "importSshConfig"],
} as const;

async function init(flags: InitFlags, call: Call): Promise<CommandResult> {
  for (const one of ["local", "fromLocal"] as const) {
    const name = USELESS[one].find((name) => flags[one] !== undefined && flags[name] !== undefined);
    if (name !== undefined) throw invalid(`Option '${optionOf(name)}' has no effect with ${optionOf(one)}`);
  }
  const { local: isLocal = false, fromLocal, force = false } = flags;
  const read = readChoices(flags);
  const folder = readPath(fromLocal ?? flags.dir ?? defaultFolder(call), call.workingFolder);
  const socket = flags.socket === undefined ? undefined : readPath(flags.socket, call.workingFolder);
  const [layout, runtime] = [createLayout(folder, socket), currentRuntime()];
  await checkFolder(folder);
  const local = (isLocal || fromLocal !== undefined) && !force ? await loadLocal(layout) : undefined;
  const replaces = force || fromLocal !== undefined;
  const options = { folder, force: replaces, clock: systemClock, random: systemRandom };
  if (local === undefined) {
    if (fromLocal !== undefined) throw notFound(`Cannot find a local installation in ${quoteText(folder)}`);
    await withHint(OCCUPIED, () => checkFree(options));
  }
  const { hosts: imported, notes } = await importHosts(flags, call);
  const named = parseHosts(flags.host ?? []);
  const given = [...named, ...imported.filter(({ name }) => !named.some((host) => host.name === name))];
  const person = { ...call, yes: flags.yes === true, withYes: commandLine({ ...flags, yes: true }) };
  const complete = await completeHosts(given, local?.hosts ?? {}, person);
  using locks = new DisposableStack();
  const former = local === undefined || isLocal ? undefined : await keepLocal(layout, local, locks);
  const choices = { ...read, hosts: former?.hosts ?? complete, kept: former?.kept };
  const { hosts } = choices;
  const fresh = await createKeyMaterial(systemRandom, certifiedNames(choices));
  const material = former?.keepKeys(fresh) ?? fresh;
  const plan = [
    ...isLocal ? [] : renewalUnits(layout, runtime),
    ...planInstallation(layout, choices, material),
  ];
  const backup = local !== undefined && isLocal
    ? void await addLocalHosts(layout, hosts)
    : (await withHint(OCCUPIED, () => writeInstallation(plan, options))).backup;
  const sshCaPublic = (await readRegularText(layout.sshCaPublic)).trim();
  const config = isLocal ? layout.mcpConfig : layout.signerConfig;
  const done = flags.enroll === true ? await enrollHosts(hosts, { ...flags, config }, call) : [];
  const enrolled = done.filter((host) => host.enrolled).map(({ name }) => name);
  const { approverPassword } = material;
  const facts = { ...choices, layout, runtime, approverPassword, backup, enrolled };
  const registration = flags.registerMcp === true ? await registerMcp(mcpClientEntry(facts)) : undefined;
  const context = await keepContext(
    flags.context,
    isLocal ? { config } : { config, client_config: layout.clientConfig },
    call,
  );
  if (context?.name === "") call.terminal.err(`${visibleText(context.line)}\n`);
  const notices = [...notes, ...done.flatMap(({ name, lines }) => lines.map((line) => `${name}: ${line}`))];
  const paths = describeLayout(layout);
  const { mcp_config, ssh_ca, ssh_ca_public, mcp_audit_log, mcp_audit_key } = paths;
  return {
    json: {
      ...(isLocal ? { folder, mcp_config, ssh_ca, ssh_ca_public, mcp_audit_log, mcp_audit_key } : {
        ...paths,
        approver_bundle_password: approverPassword,
        approvals_url: approvalsUrl(publicAddress(choices.listeners.controlPlane, choices.names ?? [])),
        start: startCommands(facts),
      }),
      backup,
      ...(context?.name && { context: context.name }),
      ...(flags.importSshConfig !== undefined && { hosts: hosts.map(({ name }) => name), left_out: notes }),
      route: choices.route,
      ssh_ca_public_key: sshCaPublic,
      enrolment: Object.fromEntries(
        hosts.map(({ name, user }) => {
          const enrolment = { user, principal: `host:${name}`, ca: [sshCaPublic], sshdConfig: undefined };
          return [name, formatEnrollScript({ mode: "add", ...enrolment })];
        }),
      ),
      ...(flags.enroll === true && { enrollments: done }),
      mcp_server: mcpClientEntry(facts),
      ...(registration !== undefined && { mcp_registered: registration.registered }),
    },
    lines: [
      ...notices,
      ...(notices.length > 0 ? [""] : []),
      ...formatGuide(facts),
      ...(registration === undefined ? [] : ["", ...registration.lines]),
      ...(context?.name ? [context.line] : []),
    ],
    failed: done.some(({ enrolled }) => !enrolled),
  };
}

/** Enrolls hosts one after the other, because two names can be one machine, which an enrollment locks. */
async function enrollHosts(hosts: readonly InitHost[], flags: Omit<InitFlags, "host">, call: Call) {
  const done: { name: string; enrolled: boolean; lines: readonly string[] }[] = [];
  for (const { name } of hosts) {
    const result = enroll("add", { ...flags, name, over: "ssh" }, call);
    const { lines, failed } = await result.catch((error) => {
      if (error instanceof AppError) return { lines: [error.message], failed: true };
      throw error;
    });
    const advice = "not enrolled: pass --login <account> to the command below, or omit --over ssh";
    done.push({ name, enrolled: !failed, lines: failed ? [...lines, advice] : lines });
  }
  return done;
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
