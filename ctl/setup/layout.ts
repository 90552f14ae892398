import { join } from "node:path";

/** Every path of a set-up, absolute. */
export interface Layout {
  readonly folder: string;
  readonly signerConfig: string;
  readonly controlPlaneConfig: string;
  /** For the broker's HTTP frontend. */
  readonly brokerConfig: string;
  /** For the broker over stdio: a process of its own, with an audit log of its own. */
  readonly mcpConfig: string;
  readonly clientConfig: string;
  readonly pki: string;
  readonly sshCa: string;
  readonly sshCaPublic: string;
  readonly mtlsCa: string;
  readonly mtlsCaKey: string;
  /** Who is refused although the CA vouches for him. */
  readonly deniedCallers: string;
  /** The approver's certificate and key for a browser. */
  readonly approverBundle: string;
  readonly signerAuditKey: string;
  readonly controlPlaneAuditKey: string;
  readonly brokerAuditKey: string;
  readonly mcpAuditKey: string;
  /** Signs what hosts take from the signer itself. */
  readonly envelopeKey: string;
  readonly signerAuditLog: string;
  /** What the operator sets at run time: grants and freezes. */
  readonly signerState: string;
  /** Approvals, and what is usual for whom. */
  readonly controlPlaneState: string;
  readonly controlPlaneAuditLog: string;
  readonly brokerAuditLog: string;
  readonly mcpAuditLog: string;
  /** Where an agent's MCP client connects. */
  readonly agentSocket: string;
}

/** What of a set-up lies in its folder; each is a reason not to make another one there. */
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

/** Who has a certificate, and the file it is in; each a separate identity. */
export const IDENTITIES = {
  signer: { file: "signer", subject: "CN=localhost", usage: "server" },
  /** The control plane's listener, also for approvers' browsers. */
  controlPlane: { file: "control-plane", subject: "CN=localhost", usage: "server" },
  /** The control plane, to the signer. */
  controlPlaneClient: { file: "control-plane-client", subject: "CN=control-plane-local", usage: "client" },
  /** The broker's HTTP listener. */
  brokerServer: { file: "broker-server", subject: "CN=localhost", usage: "server" },
  /** The broker, to the control plane or the signer. */
  broker: { file: "broker", subject: "CN=broker-local", usage: "client" },
  /** Who may administer the signer. Agents speak through the broker, which never is this one. */
  operator: { file: "operator", subject: "CN=operator-local", usage: "client" },
  /** Who decides on approvals, in the control plane. */
  approver: { file: "approver", subject: "CN=approver-local", usage: "client" },
  /** An agent, to the broker's HTTP listener. */
  agent: { file: "agent", subject: "CN=agent-local", usage: "client" },
} as const;

/** One of {@linkcode IDENTITIES}. */
export type Identity = keyof typeof IDENTITIES;

/** The approvers' page of a control plane that listens there. */
export function approvalsUrl(listen: string): string {
  return `https://${listen}/ui/approvals`;
}

/**
 * The paths of a set-up in an absolute folder.
 *
 * @param agentSocket of an agent that has an account of its own: that account cannot enter the folder
 */
export function createLayout(folder: string, agentSocket = join(folder, "run", "agent.sock")): Layout {
  const pki = join(folder, "pki");
  return {
    folder,
    signerConfig: join(folder, "signer.json"),
    controlPlaneConfig: join(folder, "control-plane.json"),
    brokerConfig: join(folder, "config.json"),
    mcpConfig: join(folder, "mcp.json"),
    clientConfig: join(folder, "broker-ctl.json"),
    pki,
    sshCa: join(pki, "ssh_ca"),
    sshCaPublic: join(pki, "ssh_ca.pub"),
    mtlsCa: join(pki, "mtls_ca.crt"),
    mtlsCaKey: join(pki, "mtls_ca.key"),
    deniedCallers: join(pki, "denied_callers"),
    approverBundle: join(pki, "approver.p12"),
    signerAuditKey: join(pki, "signer_audit.seed"),
    controlPlaneAuditKey: join(pki, "control_plane_audit.seed"),
    brokerAuditKey: join(pki, "broker_audit.seed"),
    mcpAuditKey: join(pki, "mcp_audit.seed"),
    envelopeKey: join(pki, "envelope.seed"),
    signerState: join(folder, "state", "signer.db"),
    controlPlaneState: join(folder, "state", "control-plane.db"),
    controlPlaneAuditLog: join(folder, "log", "control-plane", "audit.log"),
    signerAuditLog: join(folder, "log", "signer", "audit.log"),
    brokerAuditLog: join(folder, "log", "broker", "audit.log"),
    mcpAuditLog: join(folder, "log", "mcp", "audit.log"),
    agentSocket,
  };
}

/** Whether the agent's socket is in the set-up's folder, which only one account can enter. */
export function isInside({ agentSocket, folder }: Layout): boolean {
  return agentSocket.startsWith(join(folder, "/"));
}

export function certificatePath(layout: Layout, identity: Identity): string {
  return join(layout.pki, `${IDENTITIES[identity].file}.crt`);
}

/** Where an identity's private key is. */
export function keyPath(layout: Layout, identity: Identity): string {
  return join(layout.pki, `${IDENTITIES[identity].file}.key`);
}

/** The paths as `--json` shows them. */
export function describeLayout(layout: Layout) {
  const pair = (identity: Identity) => ({
    cert: certificatePath(layout, identity),
    key: keyPath(layout, identity),
  });
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
    signer_audit_log: layout.signerAuditLog,
    signer_audit_key: layout.signerAuditKey,
    control_plane_audit_log: layout.controlPlaneAuditLog,
    control_plane_audit_key: layout.controlPlaneAuditKey,
    broker_audit_log: layout.brokerAuditLog,
    broker_audit_key: layout.brokerAuditKey,
    mcp_audit_log: layout.mcpAuditLog,
    mcp_audit_key: layout.mcpAuditKey,
    envelope_key: layout.envelopeKey,
    operator: pair("operator"),
    approver: pair("approver"),
    approver_bundle: layout.approverBundle,
    agent: pair("agent"),
    agent_socket: layout.agentSocket,
    broker: pair("broker"),
    control_plane_client: pair("controlPlaneClient"),
  };
}
