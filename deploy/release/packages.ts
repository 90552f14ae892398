interface PackagedFile {
  /** Where it comes from: from the sources, or below `bundles/` from the bundles; a folder comes whole. */
  readonly from: string;
  /** Where it goes, without a slash before. */
  readonly to: string;
  /** Permission bits; 0644 when absent. */
  readonly mode?: number;
}

/** A program in `usr/bin`: a line of shell that says which one it is. */
export interface PackagedCommand {
  readonly name: string;
  /** What `usr/lib/gateway/start` is told before the arguments of whoever runs it. */
  readonly starts: string;
}

export interface Package {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  readonly depends: readonly string[];
  readonly recommends?: readonly string[];
  readonly files: readonly PackagedFile[];
  readonly commands?: readonly PackagedCommand[];
  /** What is started anew, where it runs, when a new version is in place, and ended and disabled when it is removed. */
  readonly units?: readonly string[];
  /** What goes on running then, for it would forget what nobody else has; ended and disabled when it is removed. */
  readonly lastingUnits?: readonly string[];
  /** The folders that its `tmpfiles.d` makes, those around others first; empty ones go with the package's configuration. */
  readonly folders?: readonly string[];
}

const LIB = "usr/lib/gateway";
/**
 * Where Deno leaves modules to V8, by the config above it. It reads every other module by itself first, to find what it
 * imports: without a cache at each start, and of a bundle of 2 MB that leaves 60 MB with the process.
 */
const PROGRAMS = `${LIB}/node_modules/gateway`;
const UNITS = "usr/lib/systemd/system";
const PROGRAM = 0o755;

/** Stands in `depends` for the version that is being released: the launcher and what it starts belong together. */
export const THIS_VERSION = "THIS_VERSION";
const COMMON = `gateway-common (= ${THIS_VERSION})`;

function bundle(folder: string): PackagedFile {
  return { from: `bundles/${folder}`, to: `${PROGRAMS}/${folder}` };
}

function unit(name: string): PackagedFile {
  return { from: `deploy/systemd/${name}`, to: `${UNITS}/${name}` };
}

/** The package of the Deno program itself, which is released with each version of Deno and not with ours. */
export const RUNTIME: Package = {
  name: "gateway-runtime",
  summary: "the Deno program that gateway's services run on",
  description: "It lies in /usr/lib/gateway and not on the PATH.",
  depends: ["libc6", "libgcc-s1"],
  recommends: ["ca-certificates"],
  files: [],
};

export const PACKAGES: readonly Package[] = [
  {
    name: "gateway-common",
    summary: "users, folders and launcher of the access broker for AI agents",
    description: "It derives what each service may do from that service's config, and starts it so.",
    depends: [
      `gateway-runtime (>= ${Deno.version.deno})`,
      "systemd | systemd-standalone-sysusers",
      "systemd | systemd-standalone-tmpfiles",
    ],
    files: [
      bundle("ctl"),
      { from: "ctl/start.sh", to: `${PROGRAMS}/ctl/start.sh`, mode: PROGRAM },
      { from: "deploy/installed/deno.json", to: `${LIB}/deno.json` },
      { from: "deploy/installed/package.json", to: `${PROGRAMS}/package.json` },
      { from: "deploy/installed/start", to: `${LIB}/start`, mode: PROGRAM },
      { from: "deploy/installed/check-health", to: `${LIB}/check-health`, mode: PROGRAM },
      { from: "deploy/systemd/sysusers.conf", to: "usr/lib/sysusers.d/gateway.conf" },
      { from: "deploy/systemd/tmpfiles.conf", to: "usr/lib/tmpfiles.d/gateway.conf" },
      unit("gateway-watch@.service"),
      unit("gateway-watch@.timer"),
      { from: "deploy/signer.json", to: "usr/share/doc/gateway/examples/signer.json" },
      { from: "deploy/control-plane.json", to: "usr/share/doc/gateway/examples/control-plane.json" },
      { from: "deploy/config.json", to: "usr/share/doc/gateway/examples/config.json" },
      { from: "deploy/monitoring", to: "usr/share/doc/gateway/monitoring" },
      { from: "signer/CONFIG.md", to: "usr/share/doc/gateway/signer.md" },
      { from: "control_plane/CONFIG.md", to: "usr/share/doc/gateway/control-plane.md" },
      { from: "broker/CONFIG.md", to: "usr/share/doc/gateway/broker.md" },
      { from: "LICENSE", to: "usr/share/doc/gateway/copyright" },
    ],
    units: ["signer", "control-plane", "broker", "mcp-http"].map((name) => `gateway-watch@${name}.timer`),
    folders: [
      "/etc/gateway",
      "/etc/gateway/pki",
      "/var/lib/gateway",
      ...["signer", "control-plane", "broker", "approval-bridge", "debate"].map((name) =>
        `/var/lib/gateway/${name}`
      ),
      "/run/gateway-broker",
      "/run/gateway-broker/agent",
      "/var/log/gateway",
      ...["signer", "control-plane", "broker", "mcp-http", "mcp", "debate"].map((name) =>
        `/var/log/gateway/${name}`
      ),
    ],
  },
  {
    name: "gateway-signer",
    summary: "issues SSH certificates that are locked to one command",
    description: "The signer of the access broker: it holds the SSH CA and decides by policy.",
    depends: [COMMON],
    recommends: ["openssh-client"],
    files: [bundle("signer"), unit("gateway-signer.service"), unit("gateway-ca-agent.service")],
    commands: [{ name: "signer", starts: "signer" }],
    units: ["gateway-signer.service"],
    lastingUnits: ["gateway-ca-agent.service"],
  },
  {
    name: "gateway-control-plane",
    summary: "has people approve what AI agents ask for",
    description: "The control plane of the access broker: approvals, guardrails, the approvers' pages.",
    depends: [COMMON],
    files: [bundle("control_plane"), unit("gateway-control-plane.service")],
    commands: [{ name: "control-plane", starts: "control-plane" }],
    units: ["gateway-control-plane.service"],
  },
  {
    name: "gateway-broker",
    summary: "what AI agents talk to: commands on hosts, without credentials",
    description: "The broker with its frontends: HTTP, MCP over the standard streams, MCP over HTTPS.",
    depends: [COMMON],
    recommends: ["gateway-ctl"],
    files: [bundle("broker"), unit("gateway-broker.service"), unit("gateway-mcp-http.service")],
    commands: [
      { name: "gateway", starts: "gateway" },
      // Deprecated names, kept for the client entries and unit files that start them.
      { name: "broker", starts: "gateway serve-http" },
      { name: "mcp-broker", starts: "gateway serve-mcp" },
      { name: "mcp-broker-http", starts: "gateway serve-mcp-http" },
    ],
    units: ["gateway-broker.service", "gateway-mcp-http.service"],
  },
  {
    name: "gateway-ctl",
    summary: "the operator's tool of the access broker for AI agents",
    description:
      "broker-ctl sets up and operates it; gateway-setup puts a set-up where the services look for it.",
    depends: [COMMON],
    recommends: ["openssh-client", "procps"],
    files: [
      bundle("broker_ctl"),
      { from: "ctl/deno.json", to: `${PROGRAMS}/broker_ctl/deno.json` },
      { from: "deploy/installed/gateway-setup", to: "usr/sbin/gateway-setup", mode: PROGRAM },
      unit("gateway-renew.service"),
      unit("gateway-renew.timer"),
      { from: "deploy/installed/make-backup", to: `${LIB}/make-backup`, mode: PROGRAM },
      unit("gateway-backup.service"),
      unit("gateway-backup.timer"),
      // Carried to hosts, beside what broker-ctl host krl makes.
      { from: "shim/gateway-krl", to: "usr/share/gateway/krl/gateway-krl", mode: PROGRAM },
      { from: "shim/gateway-krl.service", to: "usr/share/gateway/krl/gateway-krl.service" },
      { from: "shim/install-gateway-krl", to: "usr/share/gateway/krl/install-gateway-krl", mode: PROGRAM },
    ],
    commands: [{ name: "broker-ctl", starts: "broker-ctl" }],
    units: ["gateway-renew.timer", "gateway-backup.timer"],
  },
  {
    name: "gateway-approval-bridge",
    summary: "has people approve in a chat what AI agents ask for",
    description: "It connects to Slack or Mattermost and to the control plane, and listens nowhere.",
    depends: [COMMON],
    files: [
      bundle("approval_bridge"),
      { from: "ctl/bridge/start.sh", to: `${PROGRAMS}/approval_bridge/start.sh`, mode: PROGRAM },
      { from: "LICENSE", to: "usr/share/doc/gateway-approval-bridge/copyright" },
      unit("gateway-approval-bridge.service"),
    ],
    commands: [{ name: "approval-bridge", starts: "approval-bridge" }],
    units: ["gateway-approval-bridge.service"],
  },
  {
    name: "gateway-shim",
    summary: "the force-command of hosts that run only what a signer has signed",
    description:
      "Needs a shell and ssh-keygen, no runtime; the accounts to seal join the group gateway-shim.",
    depends: ["openssh-client"],
    files: [
      { from: "shim/gateway-shim", to: "usr/bin/gateway-shim", mode: PROGRAM },
      { from: "deploy/systemd/shim-sysusers.conf", to: "usr/lib/sysusers.d/gateway-shim.conf" },
      { from: "deploy/systemd/shim-tmpfiles.conf", to: "usr/lib/tmpfiles.d/gateway-shim.conf" },
      { from: "shim/README.md", to: "usr/share/doc/gateway-shim/README.md" },
      { from: "LICENSE", to: "usr/share/doc/gateway-shim/copyright" },
    ],
    folders: ["/var/lib/gateway-shim", "/var/lib/gateway-shim/nonces"],
  },
  {
    name: "gateway-debate",
    summary: "diagnoses incidents by a debate between language models",
    description: "A command line and a web server on loopback; it shares nothing with the access broker.",
    depends: [COMMON],
    files: [
      bundle("debate"),
      { from: "debate/start.sh", to: `${PROGRAMS}/debate/start.sh`, mode: PROGRAM },
      { from: "debate/deno.json", to: `${PROGRAMS}/debate/deno.json` },
      { from: "debate/CONFIG.md", to: "usr/share/doc/gateway-debate/CONFIG.md" },
      { from: "LICENSE", to: "usr/share/doc/gateway-debate/copyright" },
      unit("gateway-debate.service"),
    ],
    commands: [{ name: "debate", starts: "debate" }],
    units: ["gateway-debate.service"],
  },
];
