import type { Random } from "@gateway/shared/clock";
import { ed25519PublicKey, encodeOpensshPrivateKey, formatPublicKey } from "@gateway/shared/ssh";
import { encodePkcs12, randomPassword } from "../identities/pkcs12.ts";
import { LOCAL_NAMES } from "../identities/kinds.ts";
import { IDENTITIES, type Identity } from "./layout.ts";
import type { CertificatePair } from "../identities/x509.ts";

/** Every secret of a set-up, fresh. */
export interface KeyMaterial {
  /** OpenSSH private key, PEM. */
  readonly sshCa: string;
  /** `ssh-ed25519 AAAA…` without line end. */
  readonly sshCaPublic: string;
  readonly mtlsCa: CertificatePair;
  readonly leaves: Readonly<Record<Identity, CertificatePair>>;
  /** The approver's pair as PKCS #12. */
  readonly approverBundle: Uint8Array;
  /** The password of that bundle, which no file holds. */
  readonly approverPassword: string;
  /** 32 bytes each. */
  readonly signerAuditSeed: Uint8Array;
  readonly controlPlaneAuditSeed: Uint8Array;
  readonly brokerAuditSeed: Uint8Array;
  readonly mcpAuditSeed: Uint8Array;
  readonly envelopeSeed: Uint8Array;
}

const SEED_BYTES = 32;

/**
 * Makes the keys and certificates of a set-up; no file is touched.
 *
 * @param names what the listeners are reached by, beside loopback
 */
export async function createKeyMaterial(
  random: Random,
  names: readonly string[] = [],
): Promise<KeyMaterial> {
  const { createCertificateAuthority, issueLeaf } = await import("../identities/x509.ts");
  const sshCaSeed = random.bytes(SEED_BYTES);
  const authority = await createCertificateAuthority({
    commonName: "gateway local mTLS CA",
    localOnly: true,
    names,
    random,
  });
  const leaf = (identity: Identity) => {
    const { subject, usage } = IDENTITIES[identity];
    return issueLeaf(authority, {
      subject,
      usage,
      random,
      subjectAltNames: usage === "server" ? [...LOCAL_NAMES, ...names] : [],
    });
  };
  const approver = await leaf("approver");
  const approverPassword = randomPassword(random);
  return {
    sshCa: encodeOpensshPrivateKey(sshCaSeed, "gateway-ssh-ca"),
    sshCaPublic: formatPublicKey("ssh-ed25519", ed25519PublicKey(sshCaSeed)),
    mtlsCa: { certPem: authority.certPem, keyPem: authority.keyPem },
    leaves: {
      signer: await leaf("signer"),
      controlPlane: await leaf("controlPlane"),
      controlPlaneClient: await leaf("controlPlaneClient"),
      brokerServer: await leaf("brokerServer"),
      broker: await leaf("broker"),
      operator: await leaf("operator"),
      approver,
      agent: await leaf("agent"),
    },
    approverBundle: encodePkcs12(approver, { password: approverPassword, name: "approver-local", random }),
    approverPassword,
    signerAuditSeed: random.bytes(SEED_BYTES),
    controlPlaneAuditSeed: random.bytes(SEED_BYTES),
    brokerAuditSeed: random.bytes(SEED_BYTES),
    mcpAuditSeed: random.bytes(SEED_BYTES),
    envelopeSeed: random.bytes(SEED_BYTES),
  };
}
