/**
 * SSH codecs: keys, certificates, signatures, revocation lists. Pure.
 *
 * @module
 */

export {
  type Certificate,
  CERTIFICATE_ALGORITHM,
  type CertificateFields,
  decodeCertificate,
  encodeCertificate,
  encodeToBeSigned,
  formatCertificate,
  formatKeyId,
  issueCertificate,
  type KeyIdParts,
  parseCertificate,
  verifyCertificateSignature,
} from "./certificate.ts";
export {
  armorSshsig,
  fingerprint,
  formatPublicKey,
  parseEd25519PublicKey,
  parsePublicKey,
  signSshsig,
} from "./keys.ts";
export { ed25519PublicKey, encodeOpensshPrivateKey } from "./keys.ts";
export { encodeKrl, SerialSet, SshReader, SshWriter } from "./wire_format.ts";
