interface PackagedFile {
  /** A path in the sources, or below `bundles/` in the bundles; a directory is copied whole. */
  readonly from: string;
  readonly to: string;
  readonly mode?: number;
}

export interface Package {
  readonly name: string;
  readonly summary: string;
  readonly description: string;
  readonly depends: readonly string[];
  readonly recommends?: readonly string[];
  readonly files: readonly PackagedFile[];
  /** Programs in `usr/bin`, and the first arguments of `usr/lib/gateway/start` for each. */
  readonly commands?: readonly { readonly name: string; readonly starts: string }[];
  /** Units that an upgrade restarts if they run, and that a removal stops and disables. */
  readonly units?: readonly string[];
  /**
   * Units that an upgrade does not restart, because their memory has the only copy of a secret. A removal
   * stops and disables them.
   */
  readonly lastingUnits?: readonly string[];
  /** Settings with a generated password, which the installation creates unless they exist. */
  readonly passwordFile?: { readonly path: string; readonly user: string };
  /** The directories of its `tmpfiles.d`, outer ones first; a purge removes empty ones. */
  readonly folders?: readonly string[];
}

const LIB = "usr/lib/gateway";
/**
 * Deno leaves modules there to V8, because of the config above. Deno reads every other module itself to find its imports:
 * without a cache at each start, and a bundle of 2 MB then leaves 60 MB with the process.
 */
const PROGRAMS = `${LIB}/node_modules/gateway`;

/** The version of the release in `depends`: the launcher and the services belong together. */
export const THIS_VERSION = "THIS_VERSION";
const COMMON = `gateway-common (= ${THIS_VERSION})`;

function bundle(folder: string): PackagedFile {
  return { from: `bundles/${folder}`, to: `${PROGRAMS}/${folder}` };
}

function units(...names: readonly string[]): readonly PackagedFile[] {
  return names.map((name) => ({ from: `deploy/systemd/${name}`, to: `usr/lib/systemd/system/${name}` }));
}

function program(from: string, to: string): PackagedFile {
  return { from, to, mode: 0o755 };
}

function docs(folder: string, files: Readonly<Record<string, string>>): readonly PackagedFile[] {
  return Object.entries(files).map(([to, from]) => ({ from, to: `usr/share/doc/${folder}/${to}` }));
}

/** The package of the Deno program, whose version is Deno's. */
export const RUNTIME: Package = {
  name: "gateway-runtime",
  summary: "the Deno program that gateway's services run on",
  description: "Installed in /usr/lib/gateway, not on the PATH.",
  depends: ["libc6", "libgcc-s1"],
  recommends: ["ca-certificates"],
  files: [],
};

export const PACKAGES: readonly Package[] = [
  {
    name: "gateway-common",
    summary: "users, directories and launcher of the access broker for AI agents",
    description: "Starts each service under permissions derived from its config.",
    depends: [
      `gateway-runtime (>= ${Deno.version.deno})`,
      "systemd | systemd-standalone-sysusers",
      "systemd | systemd-standalone-tmpfiles",
    ],
    files: [
      bundle("ctl"),
      program("ctl/start.sh", `${PROGRAMS}/ctl/start.sh`),
      { from: "deploy/installed/deno.json", to: `${LIB}/deno.json` },
      { from: "deploy/installed/package.json", to: `${PROGRAMS}/package.json` },
      program("deploy/installed/start", `${LIB}/start`),
      program("deploy/installed/check-health", `${LIB}/check-health`),
      { from: "deploy/systemd/sysusers.conf", to: "usr/lib/sysusers.d/gateway.conf" },
      { from: "deploy/systemd/tmpfiles.conf", to: "usr/lib/tmpfiles.d/gateway.conf" },
      ...units("gateway-watch@.service", "gateway-watch@.timer"),
      ...docs("gateway", {
        "examples/signer.json": "deploy/signer.json",
        "examples/control-plane.json": "deploy/control-plane.json",
        "examples/config.json": "deploy/config.json",
        monitoring: "deploy/monitoring",
        docs: "docs",
        "SECURITY.md": "SECURITY.md",
        "CHANGELOG.md": "CHANGELOG.md",
        copyright: "LICENSE",
      }),
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
    files: [bundle("signer"), ...units("gateway-signer.service", "gateway-ca-agent.service")],
    commands: [{ name: "signer", starts: "signer" }],
    units: ["gateway-signer.service"],
    lastingUnits: ["gateway-ca-agent.service"],
  },
  {
    name: "gateway-control-plane",
    summary: "approvals by people for requests of AI agents",
    description: "The control plane of the access broker: approvals, guardrails, the approvers' pages.",
    depends: [COMMON],
    files: [bundle("control_plane"), ...units("gateway-control-plane.service")],
    commands: [{ name: "control-plane", starts: "control-plane" }],
    units: ["gateway-control-plane.service"],
  },
  {
    name: "gateway-broker",
    summary: "runs commands on hosts for AI agents, without credentials",
    description: "The broker with its frontends: HTTP, MCP over the standard streams, MCP over HTTPS.",
    depends: [COMMON],
    recommends: ["gateway-ctl"],
    files: [bundle("broker"), ...units("gateway-broker.service", "gateway-mcp-http.service")],
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
    description: "broker-ctl creates and operates an installation; gateway-setup installs it for systemd.",
    depends: [COMMON],
    recommends: ["openssh-client", "procps"],
    files: [
      bundle("broker_ctl"),
      { from: "ctl/deno.json", to: `${PROGRAMS}/broker_ctl/deno.json` },
      program("deploy/installed/gateway-setup", "usr/sbin/gateway-setup"),
      ...units("gateway-renew.service", "gateway-renew.timer"),
      program("deploy/installed/make-backup", `${LIB}/make-backup`),
      ...units("gateway-backup.service", "gateway-backup.timer"),
      // For hosts, together with the files of broker-ctl host krl.
      program("shim/gateway-krl", "usr/share/gateway/krl/gateway-krl"),
      { from: "shim/gateway-krl.service", to: "usr/share/gateway/krl/gateway-krl.service" },
      program("shim/install-gateway-krl", "usr/share/gateway/krl/install-gateway-krl"),
      { from: "docs/guides/revocation-lists.md", to: "usr/share/gateway/krl/revocation-lists.md" },
    ],
    commands: [{ name: "broker-ctl", starts: "broker-ctl" }],
    units: ["gateway-renew.timer", "gateway-backup.timer"],
  },
  {
    name: "gateway-approval-bridge",
    summary: "approvals in a chat for requests of AI agents",
    description: "It connects to Slack or Mattermost and to the control plane, and listens nowhere.",
    depends: [COMMON],
    files: [
      bundle("approval_bridge"),
      program("ctl/bridge/start.sh", `${PROGRAMS}/approval_bridge/start.sh`),
      ...docs("gateway-approval-bridge", { copyright: "LICENSE" }),
      ...units("gateway-approval-bridge.service"),
    ],
    commands: [{ name: "approval-bridge", starts: "approval-bridge" }],
    units: ["gateway-approval-bridge.service"],
  },
  {
    name: "gateway-shim",
    summary: "the force-command of hosts that run only what a signer has signed",
    description:
      "Needs a shell and ssh-keygen, no runtime. Accounts of sessions join the group gateway-shim.",
    depends: ["openssh-client"],
    files: [
      program("shim/gateway-shim", "usr/bin/gateway-shim"),
      { from: "deploy/systemd/shim-sysusers.conf", to: "usr/lib/sysusers.d/gateway-shim.conf" },
      { from: "deploy/systemd/shim-tmpfiles.conf", to: "usr/lib/tmpfiles.d/gateway-shim.conf" },
      // The first page links to the second one.
      ...docs("gateway-shim", { "sealed-hosts.md": "docs/guides/sealed-hosts.md", copyright: "LICENSE" }),
      ...docs("gateway-shim", { "revocation-lists.md": "docs/guides/revocation-lists.md" }),
    ],
    folders: ["/var/lib/gateway-shim", "/var/lib/gateway-shim/nonces"],
  },
  {
    name: "gateway-debate",
    summary: "diagnoses incidents by a debate between language models",
    description: "A command line and a web server on loopback; it shares nothing with the access broker.",
    depends: [COMMON],
    recommends: ["bubblewrap"],
    files: [
      bundle("debate"),
      program("debate/start.sh", `${PROGRAMS}/debate/start.sh`),
      { from: "debate/deno.json", to: `${PROGRAMS}/debate/deno.json` },
      ...docs("gateway-debate", {
        "CONFIG.md": "docs/reference/configuration-debate.md",
        copyright: "LICENSE",
      }),
      ...units("gateway-debate.service"),
    ],
    commands: [{ name: "debate", starts: "debate" }],
    units: ["gateway-debate.service"],
    passwordFile: { path: "/etc/gateway/debate.env", user: "operator" },
  },
];
