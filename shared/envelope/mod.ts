/**
 * Sealed-exec envelopes: one command for one host, signed, valid once and for a short time. The signer creates an
 * envelope, the broker passes it on unread as the command of an SSH channel, and the host's shim checks it. The shim
 * does not decide: it runs the command that the signer has signed.
 *
 * - **v1** is base64url of the JSON object `n` nonce, `h` host, `c` command, `e` expiry, `s` signature in base64. The
 *   signature is over a domain, NUL, and the four fields, each after its length in 8 bytes.
 * - **v2** is `base64url(message).base64url(signature)`. The message is nonce, host, expiry and command, separated by
 *   line feeds. `ssh-keygen -Y verify` checks the signature.
 * - **v3** is `v3.` and the same with another namespace. Its message has a line for the standard input before the
 *   command. With v1 and v2 a compromised broker chooses the standard input of a signed command.
 *
 * @module
 */
import { sign } from "node:crypto";
import type { Random } from "../clock.ts";
import { configError } from "../errors.ts";
import {
  decodeKeyBlob,
  ed25519PublicKey,
  fillSshsigHash,
  formatPublicKey,
  importEd25519Seed,
  signData,
  signSshsig,
  type SshSigner,
  sshsigSignedBytes,
} from "../ssh/keys.ts";
import { SshWriter } from "../ssh/wire_format.ts";

/** The formats of envelopes. */
export const ENVELOPE_VERSIONS = ["v1", "v2", "v3"] as const;
/** One of {@linkcode ENVELOPE_VERSIONS}. */
export type EnvelopeVersion = (typeof ENVELOPE_VERSIONS)[number];

/** The namespaces of the signatures of v2 and v3. */
export const ENVELOPE_NAMESPACES = { v2: "gateway-sealed-exec-v2", v3: "gateway-sealed-exec-v3" } as const;

/** The default domain of v1. */
export const ENVELOPE_DOMAIN = "gateway-sealed-exec-v1";

/** The longest lifetime of an envelope that a shim accepts. */
export const MAX_ENVELOPE_TTL_SECONDS = 300;

const ENVELOPE_TTL_SECONDS = 30;

/** A format with its parameters. Signer and shim must agree on the domain of v1. */
export type EnvelopeFormat =
  | { readonly version: "v1"; readonly domain: string }
  | { readonly version: "v2" | "v3" };

interface Envelope {
  /** 32 lowercase hex digits, never used before. */
  readonly nonce: string;
  /** The logical name. */
  readonly host: string;
  /** The text for the host's shell, with its elevation. */
  readonly command: string;
  /**
   * The standard input in v3: `none`; `watch` if the command only waits for its end; or the SHA-256 of all of it, 64
   * lowercase hex digits.
   */
  readonly stdin: string;
  /** The last valid second since the epoch. */
  readonly expiresAt: number;
}

const encoder = new TextEncoder();

/**
 * Creates a fresh envelope.
 *
 * @throws {RangeError} for a lifetime that is not within 1 to {@linkcode MAX_ENVELOPE_TTL_SECONDS}
 * @throws {TypeError} see {@linkcode encodeEnvelope}
 */
export function mintEnvelope(
  { host, command, stdin }: Pick<Envelope, "host" | "command" | "stdin">,
  { key, format, now, random, ttlSeconds = ENVELOPE_TTL_SECONDS }: {
    readonly key: EnvelopeKey;
    readonly format: EnvelopeFormat;
    /** In milliseconds since the epoch. */
    readonly now: number;
    readonly random: Random;
    readonly ttlSeconds?: number;
  },
): string {
  if (!(ttlSeconds > 0 && ttlSeconds <= MAX_ENVELOPE_TTL_SECONDS)) {
    throw new RangeError(`An envelope lives 1 to ${MAX_ENVELOPE_TTL_SECONDS} seconds, not ${ttlSeconds}`);
  }
  const expiresAt = Math.floor(now / 1000) + ttlSeconds;
  return encodeEnvelope({ nonce: random.bytes(16).toHex(), host, command, stdin, expiresAt }, key, format);
}

/**
 * Signs and encodes an envelope.
 *
 * @throws {TypeError} for a command that {@linkcode isSealable} rejects, a host with a line feed, or another stdin
 */
export function encodeEnvelope(envelope: Envelope, key: EnvelopeKey, format: EnvelopeFormat): string {
  const { nonce, host, command, stdin, expiresAt } = envelope;
  if (!isSealable(command)) throw new TypeError("A command in an envelope is empty or not plain text");
  if (/[\0\n]/.test(host)) throw new TypeError("The host of an envelope has a NUL or a line feed");
  if (!/^(?:none|watch|[0-9a-f]{64})$/.test(stdin)) {
    throw new TypeError("The stdin of an envelope is not none, watch or a SHA-256");
  }
  if (format.version === "v1") {
    const signed = signedBytesV1({ nonce, host, command, expiry: String(expiresAt) }, format.domain);
    const fields = { n: nonce, h: host, c: command, e: expiresAt, s: key.sign(signed).toBase64() };
    return base64url(encoder.encode(JSON.stringify(fields)));
  }
  const [prefix, line] = format.version === "v3" ? ["v3.", `${stdin}\n`] : ["", ""];
  const message = encoder.encode(`${nonce}\n${host}\n${expiresAt}\n${line}${command}`);
  return `${prefix}${base64url(message)}.${base64url(key.signMessage(message, format.version))}`;
}

/**
 * Whether a command can be in an envelope. Shells drop a NUL, so another command than the signed one would run, and
 * half of a surrogate pair has no bytes.
 */
export function isSealable(command: string): boolean {
  return command !== "" && !command.includes("\0") && command.isWellFormed();
}

function base64url(bytes: Uint8Array): string {
  return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}

/** The bytes under the signature of v1: the domain, a NUL, and each field after its length in 8 bytes. */
export function signedBytesV1(
  { nonce, host, command, expiry }: Pick<Envelope, "nonce" | "host" | "command"> & {
    readonly expiry: string;
  },
  domain: string,
): Uint8Array<ArrayBuffer> {
  const writer = new SshWriter().raw(encoder.encode(`${domain}\0`));
  for (const field of [nonce, host, command, expiry]) {
    const bytes = encoder.encode(field);
    writer.u64(BigInt(bytes.length)).raw(bytes);
  }
  return writer.bytes();
}

/** Signs envelopes. The seed stays inside. */
export interface EnvelopeKey {
  /** The Ed25519 public key, 32 bytes. */
  readonly publicKey: Uint8Array;
  /** The same key for OpenSSH's signatures. */
  readonly ssh: SshSigner;
  /** Returns 64 bytes. */
  sign(data: Uint8Array): Uint8Array;
  /** Returns the SSHSIG of a message of v2 or v3. */
  signMessage(message: Uint8Array, version: keyof typeof ENVELOPE_NAMESPACES): Uint8Array;
}

const SEED_BYTES = 32;
const PUBLIC_KEY_BYTES = 32;
const SIGNATURE_BYTES = 64;

/**
 * Creates the key of a seed file.
 *
 * @throws {AppError} `invalid_config` if the seed does not have 32 bytes
 */
export function createEnvelopeKey(seed: Uint8Array): EnvelopeKey {
  if (seed.length !== SEED_BYTES) {
    const message =
      `Envelope key has ${seed.length} bytes: an Ed25519 seed of exactly ${SEED_BYTES} is needed`;
    throw configError(message);
  }
  const key = importEd25519Seed(seed);
  const publicKey = ed25519PublicKey(seed);
  const parts = decodeKeyBlob(publicKey);
  const ssh: SshSigner = { publicKey, sign: (data) => signData(key, parts, data) };
  // Prepared once, because allocating buffers for each envelope would burden the garbage collector.
  const prepare = (namespace: string) => ({
    signed: sshsigSignedBytes(namespace),
    sample: signSshsig(ssh, namespace, new Uint8Array()),
  });
  const prepared = { v2: prepare(ENVELOPE_NAMESPACES.v2), v3: prepare(ENVELOPE_NAMESPACES.v3) };
  return {
    publicKey: publicKey.subarray(-PUBLIC_KEY_BYTES),
    ssh,
    sign: (data) => sign(null, data, key),
    signMessage(message, version) {
      const { signed, sample } = prepared[version];
      fillSshsigHash(signed, message);
      const whole = sample.slice();
      // An SSHSIG of this key ends with the raw signature, so replace only these bytes.
      whole.set(sign(null, signed, key), whole.length - SIGNATURE_BYTES);
      return whole;
    },
  };
}

/** The line of v1's key file `/etc/gateway/envelope.pub`: base64 of 32 bytes, without line end. */
export function envelopePublicKeyText({ publicKey }: EnvelopeKey): string {
  return publicKey.toBase64();
}

/** The line of the key file of v2 and v3, `/etc/gateway/envelope_signers`, without line end. */
export function envelopeSignersLine(key: EnvelopeKey): string {
  return allowedSignersLine(key, Object.values(ENVELOPE_NAMESPACES));
}

/** A line of OpenSSH's allowed signers format (ssh-keygen(1)) for these namespaces, without line end. */
export function allowedSignersLine({ ssh }: EnvelopeKey, namespaces: readonly string[]): string {
  return `signer namespaces="${namespaces.join(",")}" ${formatPublicKey("ssh-ed25519", ssh.publicKey)}`;
}
