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
import { protocolOf, sessionIdOf, type Ssh2Client, type Ssh2Library } from "./ssh2_library.ts";
import { generateKeyPairSync, sign } from "node:crypto";
import { quoteText } from "@gateway/shared/text";
import { connectionFailure } from "./failures.ts";

const SIGNATURE_ALGORITHM = "ssh-ed25519";
const USERAUTH_REQUEST = 50;

/** Who logs in, and with what. */
export interface CertificateLogin {
  readonly user: string;
  readonly certificate: Uint8Array;
  readonly key: EphemeralKey;
}

interface CertificateAuthentication {
  /** Whether the certificate has been sent: without it a host that says "welcome" is not to be trusted. */
  readonly presented: boolean;
}

/**
 * Reads a certificate line and makes sure that it certifies this key.
 *
 * @returns its binary form
 * @throws {AppError} `upstream_failure` when it doesn't
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
 * Makes a connecting client present a certificate, which ssh2 cannot do by itself: it writes the certificate's
 * type into the signature, where OpenSSH wants that of the key (PROTOCOL.certkeys). The request takes the place
 * of ssh2's `none` request, so that the library never holds a key, and it is sent signed at once, which saves
 * the round trip of asking whether the key would do.
 *
 * @throws {TypeError} when ssh2 looks different inside
 */
export function presentCertificate(
  client: Ssh2Client,
  library: Ssh2Library,
  login: CertificateLogin,
): CertificateAuthentication {
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

/** The USERAUTH_REQUEST of RFC 4252 section 7, signed. */
function encodeRequest(login: CertificateLogin, sessionId: Uint8Array): Uint8Array {
  const request = new SshWriter()
    .raw(Uint8Array.of(USERAUTH_REQUEST))
    .text(login.user)
    .text("ssh-connection")
    .text("publickey")
    .raw(Uint8Array.of(1))
    .text(CERTIFICATE_ALGORITHM)
    .string(login.certificate)
    .bytes();
  const signed = new SshWriter().string(sessionId).raw(request).bytes();
  const signature = new SshWriter().text(SIGNATURE_ALGORITHM).string(login.key.sign(signed)).bytes();
  return new SshWriter().raw(request).string(signature).bytes();
}

const ALGORITHM = "ssh-ed25519";
const ED25519_KEY_LENGTH = 32;

/** A key pair for one connection. */
export interface EphemeralKey {
  /** The public key as a line of authorized_keys, without comment. */
  readonly publicKeyLine: string;
  /** The Ed25519 signature of the data: 64 bytes. */
  sign(data: Uint8Array): Uint8Array;
}

/** Makes an Ed25519 key whose private half exists only inside the returned object's `sign`. */
export function createEphemeralKey(): EphemeralKey {
  const { privateKey, publicKey } = generateKeyPairSync("ed25519");
  // The SubjectPublicKeyInfo of an Ed25519 key (RFC 8410) ends with the key itself.
  const point = publicKey.export({ format: "der", type: "spki" }).subarray(-ED25519_KEY_LENGTH);
  return {
    publicKeyLine: formatPublicKey(ALGORITHM, new SshWriter().text(ALGORITHM).string(point).bytes()),
    sign: (data) => sign(null, data, privateKey),
  };
}

/** The only algorithms to ask the host for, by the pinned key's type. RSA with SHA-1 (`ssh-rsa`) is not one. */
const ALGORITHMS = {
  "ssh-ed25519": ["ssh-ed25519"],
  "ecdsa-sha2-nistp256": ["ecdsa-sha2-nistp256"],
  "ecdsa-sha2-nistp384": ["ecdsa-sha2-nistp384"],
  "ecdsa-sha2-nistp521": ["ecdsa-sha2-nistp521"],
  "ssh-rsa": ["rsa-sha2-512", "rsa-sha2-256"],
} as const;

/** A signature algorithm that a pinned host key can ask for. */
type HostKeyAlgorithm = (typeof ALGORITHMS)[keyof typeof ALGORITHMS][number];

/** The one key that a host may show. */
export interface HostPin {
  readonly algorithms: readonly HostKeyAlgorithm[];
  /** Whether a key that the host shows, in binary form, is the pinned one, byte for byte. */
  matches(blob: Uint8Array): boolean;
}

/**
 * Reads a pinned host key: a line of authorized_keys, known_hosts or ssh-keyscan. There is no trust on first
 * use, so an empty pin is an error like a broken one.
 *
 * @param host its logical name, for error texts
 * @throws {AppError} `upstream_failure`
 */
export function parseHostPin(line: string, host: string): HostPin {
  const { algorithm, blob } = parseLine(line, host);
  if (!isSupported(algorithm)) throw unusable(host, "the key type is not supported");
  return {
    algorithms: ALGORITHMS[algorithm],
    matches: (other) => Buffer.from(blob).equals(other),
  };
}

function parseLine(line: string, host: string): ReturnType<typeof parsePublicKey> {
  try {
    return parsePublicKey(line);
  } catch (cause) {
    throw unusable(host, "parsing host key failed", cause);
  }
}

function unusable(host: string, text: string, cause?: unknown) {
  return connectionFailure(`host key for ${quoteText(host)}: ${text}`, cause, "host key");
}

function isSupported(algorithm: string): algorithm is keyof typeof ALGORITHMS {
  return Object.hasOwn(ALGORITHMS, algorithm);
}
