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
  issueCertificate,
  parseCertificate,
  verifyCertificateSignature,
} from "./certificate.ts";
export { encodeKrl, SerialSet } from "./krl.ts";
export { ed25519PublicKey, encodeOpensshPrivateKey } from "./openssh_key.ts";
export { fingerprint, formatPublicKey, parseEd25519PublicKey, parsePublicKey } from "./public_key.ts";
export { armorSshsig, signSshsig } from "./signature.ts";
export { formatKeyId, type KeyIdParts } from "./user_certificate.ts";
export { SshReader, SshWriter } from "./wire_format.ts";
