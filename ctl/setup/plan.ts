import { join, relative } from "node:path";
import type { Random } from "@gateway/shared/clock";
import { type ConfigKind, parseConfig } from "@gateway/shared/config";
import { ed25519PublicKey, encodeOpensshPrivateKey, formatPublicKey } from "@gateway/shared/ssh";
import { LOCAL_NAMES } from "../identities/kinds.ts";
import { encodePkcs12, randomPassword } from "../identities/pkcs12.ts";
import type { CertificatePair } from "../identities/x509.ts";
import { CONFIG_KINDS } from "../kit/config_kinds.ts";
import {
  type ConfigChoices,
  formatBrokerConfig,
  formatClientConfig,
  formatControlPlaneConfig,
  formatMcpConfig,
  formatSignerConfig,
} from "./config_text.ts";
import type { Runtime } from "./guide.ts";
import { IDENTITIES, type Identity, type Layout } from "./layout.ts";

const SEED_BYTES = 32;
const FOLDER_MODE = 0o700;
const SECRET_MODE = 0o600;
const PUBLIC_MODE = 0o644;
const CONFIG_MODE = 0o640;
const IDENTITY_NAMES = Object.keys(IDENTITIES) as Identity[];
const DENIED_CALLERS =
  "# Whose certificates are refused, one CN a line. Made by broker-ctl identity revoke.\n";

type KeyMaterial = Awaited<ReturnType<typeof createKeyMaterial>>;

/**
 * Creates the keys and certificates of an installation; no file is touched.
 *
 * @param names the names of the listeners, in addition to loopback
 */
export async function createKeyMaterial(random: Random, names: readonly string[] = []) {
  const { createCertificateAuthority, issueLeaf } = await import("../identities/x509.ts");
  const sshCaSeed = random.bytes(SEED_BYTES);
  const commonName = "gateway local mTLS CA";
  const authority = await createCertificateAuthority({ commonName, localOnly: true, names, random });
  const leaves = {} as Record<Identity, CertificatePair>;
  for (const identity of IDENTITY_NAMES) {
    const { subject, usage } = IDENTITIES[identity];
    const subjectAltNames = usage === "server" ? [...LOCAL_NAMES, ...names] : [];
    leaves[identity] = await issueLeaf(authority, { subject, usage, random, subjectAltNames });
  }
  const approverPassword = randomPassword(random);
  return {
    sshCa: encodeOpensshPrivateKey(sshCaSeed, "gateway-ssh-ca"),
    sshCaPublic: formatPublicKey("ssh-ed25519", ed25519PublicKey(sshCaSeed)),
    mtlsCa: { certPem: authority.certPem, keyPem: authority.keyPem },
    leaves,
    approverBundle: encodePkcs12(leaves.approver, {
      password: approverPassword,
      name: "approver-local",
      random,
    }),
    /** No file holds it. */
    approverPassword,
    seeds: {
      signer: random.bytes(SEED_BYTES),
      controlPlane: random.bytes(SEED_BYTES),
      broker: random.bytes(SEED_BYTES),
      mcp: random.bytes(SEED_BYTES),
      envelope: random.bytes(SEED_BYTES),
    },
  };
}

export interface PlannedEntry {
  readonly path: string;
  /** The exact permission bits, whatever the umask. */
  readonly mode: number;
  readonly content?: string | Uint8Array;
}

/**
 * Plans the entries of an installation: directories before their files, and `signer.json` last, because without it a
 * directory does not look like an installation.
 */
export function planSetUp(
  layout: Layout,
  choices: ConfigChoices,
  material: KeyMaterial,
): readonly PlannedEntry[] {
  const { audit, pairs } = layout;
  const { leaves, mtlsCa, seeds } = material;
  const folder = (path: string) => ({ path, mode: FOLDER_MODE });
  const file = (path: string, mode: number, content: string | Uint8Array) => ({
    path: relative(layout.folder, path),
    mode,
    content,
  });
  const secret = (path: string, content: string | Uint8Array) => file(path, SECRET_MODE, content);
  const config = (source: string, kind: ConfigKind<object>, text: string) => {
    parseConfig({ ...kind, text, source });
    return file(source, CONFIG_MODE, text);
  };
  return [
    ...["pki", "log", "log/signer", "log/control-plane", "log/broker", "log/mcp", "state"].map(folder),
    secret(layout.sshCa, material.sshCa),
    file(layout.sshCaPublic, PUBLIC_MODE, `${material.sshCaPublic}\n`),
    file(layout.mtlsCa, PUBLIC_MODE, mtlsCa.certPem),
    file(layout.deniedCallers, PUBLIC_MODE, DENIED_CALLERS),
    secret(layout.mtlsCaKey, mtlsCa.keyPem),
    ...IDENTITY_NAMES.flatMap((identity) => [
      file(pairs[identity].cert, PUBLIC_MODE, leaves[identity].certPem),
      secret(pairs[identity].key, leaves[identity].keyPem),
    ]),
    secret(layout.approverBundle, material.approverBundle),
    secret(audit.signer.key, seeds.signer),
    secret(audit.controlPlane.key, seeds.controlPlane),
    secret(audit.broker.key, seeds.broker),
    secret(audit.mcp.key, seeds.mcp),
    secret(layout.envelopeKey, seeds.envelope),
    config(layout.clientConfig, CONFIG_KINDS.client, formatClientConfig(layout, choices)),
    config(layout.brokerConfig, CONFIG_KINDS.broker, formatBrokerConfig(layout, choices)),
    config(layout.mcpConfig, CONFIG_KINDS.broker, formatMcpConfig(layout, choices)),
    config(layout.controlPlaneConfig, CONFIG_KINDS.controlPlane, formatControlPlaneConfig(layout, choices)),
    config(layout.signerConfig, CONFIG_KINDS.signer, formatSignerConfig(layout, choices)),
  ];
}

/** A systemd service and its timer that renew certificates; they do nothing until an operator enables them. */
export function renewalUnits(layout: Layout, { deno, sources }: Runtime): readonly PlannedEntry[] {
  const program = deno === undefined
    ? ["/usr/bin/env", "broker-ctl"]
    : [deno, "run", "--quiet", "--no-prompt", "-P=broker-ctl", join(sources, "ctl/main.ts")];
  const words = [...program, "identity", "renew", "--due", "--config", layout.signerConfig];
  return [
    { path: "systemd", mode: 0o755 },
    {
      ...{ path: "systemd/gateway-renew.service", mode: PUBLIC_MODE },
      content: `# Made by broker-ctl init.
[Unit]
Description=Renew the gateway's certificates that end soon

[Service]
Type=oneshot
ExecStart=${words.map((word) => `"${escape(word)}"`).join(" ")}
`,
    },
    {
      ...{ path: "systemd/gateway-renew.timer", mode: PUBLIC_MODE },
      content:
        `# Made by broker-ctl init. As root: systemctl enable --now ${layout.folder}/systemd/gateway-renew.timer
# (and systemctl link ${layout.folder}/systemd/gateway-renew.service before)
[Unit]
Description=Renew the gateway's certificates that end soon

[Timer]
OnCalendar=daily
RandomizedDelaySec=1h
Persistent=true

[Install]
WantedBy=timers.target
`,
    },
  ];
}

/** Quotes a word for systemd.unit(5): `%` begins a specifier, `$` a variable, and quotes contain C escapes. */
function escape(text: string): string {
  return text.replaceAll("\\", "\\\\").replaceAll('"', '\\"').replaceAll("%", "%%").replaceAll("$", "$$$$");
}
