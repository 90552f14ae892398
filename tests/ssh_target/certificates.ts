import { parsePemCaKey } from "@gateway/shared/ca/pem";
import {
  type CertificateFields,
  encodeOpensshPrivateKey,
  formatCertificate,
  formatPublicKey,
  issueCertificate,
  parseEd25519PublicKey,
} from "@gateway/shared/ssh";

/** The default principal in certificates of {@linkcode TestCa}. */
export const PRINCIPAL = "host:target";

export interface TestCa {
  readonly publicKeyLine: string;
  /** Certifies a key for five minutes and {@linkcode PRINCIPAL}, unless the given fields differ. */
  certify(publicKeyLine: string, fields?: Partial<CertificateFields>): Promise<string>;
}

export function createTestCa(): TestCa {
  const ca = parsePemCaKey(encodeOpensshPrivateKey(crypto.getRandomValues(new Uint8Array(32)), "test-ca"));
  return {
    publicKeyLine: formatPublicKey(ca.algorithm, ca.publicKey),
    async certify(publicKeyLine, fields = {}) {
      const now = Math.floor(Date.now() / 1000);
      const blob = await issueCertificate({
        publicKey: parseEd25519PublicKey(publicKeyLine),
        nonce: crypto.getRandomValues(new Uint8Array(32)),
        serial: 1n,
        keyId: "test",
        principals: [PRINCIPAL],
        validAfter: now - 30,
        validBefore: now + 300,
        criticalOptions: {},
        extensions: ["permit-pty"],
        ...fields,
      }, ca);
      return formatCertificate(blob);
    },
  };
}
