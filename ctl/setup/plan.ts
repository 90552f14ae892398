import { relative } from "node:path";
import {
  type ConfigChoices,
  formatBrokerConfig,
  formatClientConfig,
  formatControlPlaneConfig,
  formatMcpConfig,
  formatSignerConfig,
} from "./config_text.ts";
import { certificatePath, IDENTITIES, type Identity, keyPath, type Layout } from "./layout.ts";
import type { KeyMaterial } from "./material.ts";

/** A folder or file to be made. */
export interface PlannedEntry {
  readonly path: string;
  /** The exact permission bits, whatever the umask. */
  readonly mode: number;
  /** Absent for a folder. */
  readonly content?: string | Uint8Array;
}

const FOLDER_MODE = 0o700;
const SECRET_MODE = 0o600;
const PUBLIC_MODE = 0o644;
const CONFIG_MODE = 0o640;

const DENIED_CALLERS =
  "# Whose certificates are refused, one CN a line. Made by broker-ctl identity revoke.\n";

/**
 * Everything that a set-up consists of, folders before what is in them, `signer.json` last: without it there is
 * nothing that looks like a set-up.
 *
 * @throws {AppError} `invalid_config` when a config would not load
 */
export function planSetUp(
  layout: Layout,
  choices: ConfigChoices,
  material: KeyMaterial,
): readonly PlannedEntry[] {
  const at = (path: string) => relative(layout.folder, path);
  const file = (path: string, mode: number, content: string | Uint8Array) => ({
    path: at(path),
    mode,
    content,
  });
  const folder = (path: string) => ({ path, mode: FOLDER_MODE });
  const identities = Object.keys(IDENTITIES) as Identity[];
  return [
    folder("pki"),
    folder("log"),
    folder("log/signer"),
    folder("log/control-plane"),
    folder("log/broker"),
    folder("log/mcp"),
    folder("state"),
    file(layout.sshCa, SECRET_MODE, material.sshCa),
    file(layout.sshCaPublic, PUBLIC_MODE, `${material.sshCaPublic}\n`),
    file(layout.mtlsCa, PUBLIC_MODE, material.mtlsCa.certPem),
    file(layout.deniedCallers, PUBLIC_MODE, DENIED_CALLERS),
    file(layout.mtlsCaKey, SECRET_MODE, material.mtlsCa.keyPem),
    ...identities.flatMap((identity) => [
      file(certificatePath(layout, identity), PUBLIC_MODE, material.leaves[identity].certPem),
      file(keyPath(layout, identity), SECRET_MODE, material.leaves[identity].keyPem),
    ]),
    file(layout.approverBundle, SECRET_MODE, material.approverBundle),
    file(layout.signerAuditKey, SECRET_MODE, material.signerAuditSeed),
    file(layout.controlPlaneAuditKey, SECRET_MODE, material.controlPlaneAuditSeed),
    file(layout.brokerAuditKey, SECRET_MODE, material.brokerAuditSeed),
    file(layout.mcpAuditKey, SECRET_MODE, material.mcpAuditSeed),
    file(layout.envelopeKey, SECRET_MODE, material.envelopeSeed),
    file(layout.clientConfig, CONFIG_MODE, formatClientConfig(layout, choices)),
    file(layout.brokerConfig, CONFIG_MODE, formatBrokerConfig(layout, choices)),
    file(layout.mcpConfig, CONFIG_MODE, formatMcpConfig(layout, choices)),
    file(layout.controlPlaneConfig, CONFIG_MODE, formatControlPlaneConfig(layout, choices)),
    file(layout.signerConfig, CONFIG_MODE, formatSignerConfig(layout, choices)),
  ];
}
