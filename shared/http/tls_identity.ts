/**
 * The certificates and the key of one side of a TLS connection, checked before use: the runtime notices a
 * broken one only when a connection fails, and without CAs it would trust those of the system.
 *
 * @module
 */
import { createPrivateKey, X509Certificate } from "node:crypto";
import { AppError } from "../errors.ts";

/** PEM texts. */
export interface TlsIdentity {
  /** A certificate, and what links it to the CA. */
  readonly cert: string;
  /** The certificate's private key. */
  readonly key: string;
  /** The CAs to trust, and no others; absent where the other side shows no certificate. */
  readonly ca?: string;
}

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[^-]+-----END CERTIFICATE-----/g;

/** @throws {AppError} `invalid_config` when a text is not what it should be, or key and certificate differ */
export function checkTlsIdentity({ cert, key, ca }: TlsIdentity): void {
  const [leaf] = parseCertificates("certificate", cert);
  if (ca !== undefined) checkCaCertificates(ca);
  let isPair: boolean;
  try {
    isPair = leaf?.checkPrivateKey(createPrivateKey(key)) === true;
  } catch (cause) {
    throw new AppError("invalid_config", "Cannot use the TLS private key: not an unencrypted PEM key", {
      cause,
    });
  }
  if (!isPair) {
    throw new AppError(
      "invalid_config",
      "Cannot use the TLS private key: it is not the key of the certificate",
    );
  }
}

/** @throws {AppError} `invalid_config` when the text holds no certificate, or a broken one */
export function checkCaCertificates(pem: string): void {
  parseCertificates("CA certificate", pem);
}

function parseCertificates(what: string, pem: string): readonly X509Certificate[] {
  const blocks = pem.match(CERTIFICATE) ?? [];
  try {
    if (blocks.length > 0) return blocks.map((block) => new X509Certificate(block));
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot use the TLS ${what}: malformed`, { cause });
  }
  throw new AppError("invalid_config", `Cannot use the TLS ${what}: no PEM certificate in it`);
}
