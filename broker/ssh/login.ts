import { generateKeyPairSync, sign } from "node:crypto";
import { AppError } from "@gateway/shared/errors";
import {
  CERTIFICATE_ALGORITHM,
  encodeCertificate,
  formatPublicKey,
  parseCertificate,
  parseEd25519PublicKey,
  parsePublicKey,
  SshWriter,
} from "@gateway/shared/ssh";
import { quoteText } from "@gateway/shared/text";
import { connectionFailure } from "./failures.ts";
import { protocolOf, sessionIdOf, type Ssh2Client, type Ssh2Library } from "./ssh2_library.ts";

const ED25519 = "ssh-ed25519";
const ED25519_KEY_LENGTH = 32;
const USERAUTH_REQUEST = 50;

export interface EphemeralKey {
  readonly publicKeyLine: string;
  sign(data: Uint8Array): Uint8Array;
}

/** Creates an Ed25519 key whose private half exists only inside the returned object's `sign`. */
export function createEphemeralKey(): EphemeralKey {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  // The SubjectPublicKeyInfo of an Ed25519 key (RFC 8410) ends with the key itself.
  const point = publicKey.export({ format: "der", type: "spki" }).subarray(-ED25519_KEY_LENGTH);
  return {
    publicKeyLine: formatPublicKey(ED25519, new SshWriter().text(ED25519).string(point).bytes()),
    sign: (data) => sign(null, data, privateKey),
  };
}

export interface CertificateLogin {
  readonly user: string;
  readonly certificate: Uint8Array;
  readonly key: EphemeralKey;
}

/**
 * Reads a certificate line and checks that it certifies this key.
 * @returns its binary form
 * @throws {AppError} `upstream_failure`
 */
export function parseCertificateFor(key: EphemeralKey, line: string): Uint8Array {
  try {
    const certificate = parseCertificate(line);
    const own = parseEd25519PublicKey(key.publicKeyLine);
    if (certificate.publicKey.toHex() !== own.toHex()) throw new TypeError("Certificate is for another key");
    return encodeCertificate(certificate.signedBytes, certificate.signature);
  } catch (cause) {
    throw new AppError("upstream_failure", "connection: certificate is not usable", { cause });
  }
}

/**
 * Makes a connecting client present a certificate. ssh2 cannot do that: it writes the certificate's type into the
 * signature, where OpenSSH expects the type of the key (PROTOCOL.certkeys). The request replaces ssh2's `none` request,
 * so that the library never holds a key. It is sent signed, which saves the round trip of a query for the key.
 * @returns whether the certificate has been sent: without it, a host that accepts the login must not be trusted
 * @throws {TypeError} if ssh2 has another structure
 */
export function presentCertificate(
  client: Ssh2Client,
  library: Ssh2Library,
  login: CertificateLogin,
): { readonly presented: boolean } {
  const protocol = protocolOf(client);
  const state = { presented: false };
  protocol.authNone = (username) => {
    if (username !== login.user || state.presented) throw new TypeError("Unexpected authentication request");
    const payload = encodeRequest(login, sessionIdOf(protocol));
    const { write } = protocol._packetRW;
    const packet = write.alloc(payload.length);
    packet.set(payload, write.allocStart);
    protocol._authsQueue.push("publickey");
    state.presented = true;
    library.sendPacket(protocol, write.finalize(packet));
  };
  return state;
}

/** The signed USERAUTH_REQUEST of RFC 4252 section 7. */
function encodeRequest({ user, certificate, key }: CertificateLogin, sessionId: Uint8Array): Uint8Array {
  const request = new SshWriter()
    .raw(Uint8Array.of(USERAUTH_REQUEST))
    .text(user)
    .text("ssh-connection")
    .text("publickey")
    .raw(Uint8Array.of(1))
    .text(CERTIFICATE_ALGORITHM)
    .string(certificate)
    .bytes();
  const signed = new SshWriter().string(sessionId).raw(request).bytes();
  const signature = new SshWriter().text(ED25519).string(key.sign(signed)).bytes();
  return new SshWriter().raw(request).string(signature).bytes();
}

/** The algorithms to offer to the host, by the pinned key's type. RSA with SHA-1 (`ssh-rsa`) is not one of them. */
const HOST_KEY_ALGORITHMS: ReadonlyMap<string, readonly string[]> = new Map([
  ["ssh-ed25519", ["ssh-ed25519"]],
  ["ecdsa-sha2-nistp256", ["ecdsa-sha2-nistp256"]],
  ["ecdsa-sha2-nistp384", ["ecdsa-sha2-nistp384"]],
  ["ecdsa-sha2-nistp521", ["ecdsa-sha2-nistp521"]],
  ["ssh-rsa", ["rsa-sha2-512", "rsa-sha2-256"]],
]);

export type HostPin = ReturnType<typeof parseHostPin>;

/**
 * Reads a pinned host key: a line of authorized_keys, known_hosts or ssh-keyscan. There is no trust on first use: an
 * empty pin is an error.
 * @param host its logical name, for error texts
 * @throws {AppError} `upstream_failure`
 */
export function parseHostPin(line: string, host: string) {
  const unusable = (text: string, cause?: unknown) =>
    connectionFailure(`host key for ${quoteText(host)}: ${text}`, cause, "host key");
  let key: ReturnType<typeof parsePublicKey>;
  try {
    key = parsePublicKey(line);
  } catch (cause) {
    throw unusable("parsing host key failed", cause);
  }
  const algorithms = HOST_KEY_ALGORITHMS.get(key.algorithm);
  if (algorithms === undefined) throw unusable("the key type is not supported");
  return { algorithms, matches: (other: Uint8Array) => Buffer.from(key.blob).equals(other) };
}
