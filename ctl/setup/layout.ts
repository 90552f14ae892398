import { join } from "node:path";

/** The entries of an installation in its directory; each of them prevents another installation there. */
export const SET_UP_ENTRIES = [
  "signer.json",
  "control-plane.json",
  "config.json",
  "mcp.json",
  "broker-ctl.json",
  "pki",
  "log",
  "state",
  "systemd",
] as const;

/** The certificates, each of a separate identity, and their files. */
export const IDENTITIES = {
  signer: { file: "signer", subject: "CN=localhost", usage: "server" },
  // Also for approvers' browsers.
  controlPlane: { file: "control-plane", subject: "CN=localhost", usage: "server" },
  // The control plane as a client of the signer.
  controlPlaneClient: { file: "control-plane-client", subject: "CN=control-plane-local", usage: "client" },
  brokerServer: { file: "broker-server", subject: "CN=localhost", usage: "server" },
  // The broker as a client of the control plane or the signer.
  broker: { file: "broker", subject: "CN=broker-local", usage: "client" },
  // Administers the signer. Agents speak through the broker, which never has this identity.
  operator: { file: "operator", subject: "CN=operator-local", usage: "client" },
  approver: { file: "approver", subject: "CN=approver-local", usage: "client" },
  agent: { file: "agent", subject: "CN=agent-local", usage: "client" },
} as const;

export type Identity = keyof typeof IDENTITIES;

/** The approvers' page of a control plane that listens there. */
export function approvalsUrl(listen: string): string {
  return `https://${listen}/ui/approvals`;
}

/**
 * The paths of an installation in an absolute directory.
 *
 * @param agentSocket the socket of an agent that has an account of its own: that account cannot enter the directory
 */
export function createLayout(folder: string, agentSocket = join(folder, "run", "agent.sock")) {
  const at = (...names: readonly string[]) => join(folder, ...names);
  const audit = (seed: string, log: string) => ({
    key: at("pki", `${seed}_audit.seed`),
    log: at("log", log, "audit.log"),
  });
  const pairs = Object.entries(IDENTITIES).map(([identity, { file }]) => [
    identity,
    { cert: at("pki", `${file}.crt`), key: at("pki", `${file}.key`) },
  ]);
  return {
    folder,
    signerConfig: at("signer.json"),
    controlPlaneConfig: at("control-plane.json"),
    /** For the broker with sockets and HTTP. */
    brokerConfig: at("config.json"),
    /** For the broker over stdio: a process of its own, with an audit log of its own. */
    mcpConfig: at("mcp.json"),
    clientConfig: at("broker-ctl.json"),
    sshCa: at("pki", "ssh_ca"),
    sshCaPublic: at("pki", "ssh_ca.pub"),
    mtlsCa: at("pki", "mtls_ca.crt"),
    mtlsCaKey: at("pki", "mtls_ca.key"),
    deniedCallers: at("pki", "denied_callers"),
    approverBundle: at("pki", "approver.p12"),
    /** One seed for each service: with another service's seed, it could forge that service's records. */
    audit: {
      signer: audit("signer", "signer"),
      controlPlane: audit("control_plane", "control-plane"),
      broker: audit("broker", "broker"),
      mcp: audit("mcp", "mcp"),
    },
    envelopeKey: at("pki", "envelope.seed"),
    signerState: at("state", "signer.db"),
    controlPlaneState: at("state", "control-plane.db"),
    pairs: Object.fromEntries(pairs) as Readonly<Record<Identity, { cert: string; key: string }>>,
    agentSocket,
  };
}

export type Layout = ReturnType<typeof createLayout>;

/** Whether the agent's socket is in the directory of the installation, which only one account can enter. */
export function isInside({ agentSocket, folder }: Layout): boolean {
  return agentSocket.startsWith(join(folder, "/"));
}

export function describeLayout({ audit, pairs, ...layout }: Layout) {
  return {
    folder: layout.folder,
    signer_config: layout.signerConfig,
    control_plane_config: layout.controlPlaneConfig,
    broker_config: layout.brokerConfig,
    mcp_config: layout.mcpConfig,
    client_config: layout.clientConfig,
    ssh_ca: layout.sshCa,
    ssh_ca_public: layout.sshCaPublic,
    mtls_ca: layout.mtlsCa,
    signer_audit_log: audit.signer.log,
    signer_audit_key: audit.signer.key,
    control_plane_audit_log: audit.controlPlane.log,
    control_plane_audit_key: audit.controlPlane.key,
    broker_audit_log: audit.broker.log,
    broker_audit_key: audit.broker.key,
    mcp_audit_log: audit.mcp.log,
    mcp_audit_key: audit.mcp.key,
    envelope_key: layout.envelopeKey,
    operator: pairs.operator,
    approver: pairs.approver,
    approver_bundle: layout.approverBundle,
    agent: pairs.agent,
    agent_socket: layout.agentSocket,
    broker: pairs.broker,
    control_plane_client: pairs.controlPlaneClient,
  };
}
