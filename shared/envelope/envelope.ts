/**
 * Sealed-exec envelopes: one command for one host, signed, good once and for a short time. The signer makes them, the
 * broker hands them on unread as the command of an SSH channel, and the host's shim checks them. What is not
 * protected: the shim does not decide again, it runs what the signer has signed.
 *
 * Three formats. **v1** is base64url, without padding, of the JSON object `n` nonce, `h` host, `c` command, `e` expiry,
 * `s` signature in standard base64; signed are a domain, NUL, and the four fields, each with its length of 8 bytes
 * before it. **v2** is `base64url(message).base64url(signature)`, both without padding, where the message is nonce,
 * host, expiry and command, each but the last ended by a line feed, and the signature is one that
 * `ssh-keygen -Y verify` checks for the namespace `gateway-sealed-exec-v2`. **v3** is `v3.` and the same, for the
 * namespace `gateway-sealed-exec-v3`; its message has a line for the standard input before the command. With v1 and v2
 * a compromised broker chooses what a signed command reads.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { mintEnvelope } from "./envelope.ts";
 * import { createEnvelopeKey } from "./envelope.ts";
 * import { FixedRandom } from "@gateway/shared/testing";
 *
 * const minted = mintEnvelope({ host: "web01", command: "uptime", stdin: "none" }, {
 *   key: createEnvelopeKey(new Uint8Array(32).fill(1)),
 *   format: { version: "v3" },
 *   now: 1_700_000_000_000,
 *   random: new FixedRandom(),
 * });
 * assert.match(minted, /^v3\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+$/);
 * ```
 *
 * @module
 */
import type { Random } from "../clock.ts";
import { sign } from "node:crypto";
import { AppError } from "../errors.ts";
import { decodeKeyBlob, formatPublicKey } from "../ssh/public_key.ts";
import { ed25519PublicKey, importEd25519Seed } from "../ssh/openssh_key.ts";
import { fillSshsigHash, signData, signSshsig, type SshSigner, sshsigSignedBytes } from "../ssh/signature.ts";
import { SshWriter } from "../ssh/wire_format.ts";

/** The formats that a host's shim may understand. */
export const ENVELOPE_VERSIONS = ["v1", "v2", "v3"] as const;
/** One of {@linkcode ENVELOPE_VERSIONS}. */
export type EnvelopeVersion = (typeof ENVELOPE_VERSIONS)[number];

/** A format with what belongs to it. */
export type EnvelopeFormat =
  | {
    readonly version: "v1";
    /** What stands before the signed fields, without its NUL: signer and shim must agree on it. */
    readonly domain: string;
  }
  | { readonly version: "v2" | "v3" };

/** How long an envelope is good for, in seconds. */
const ENVELOPE_TTL_SECONDS = 30;

interface Envelope {
  /** 32 lowercase hex digits, never used before. */
  readonly nonce: string;
  /** The logical name of the host. */
  readonly host: string;
  /** As the host's shell gets it, elevation included. */
  readonly command: string;
  /**
   * What v3 lets the command read: `none`; `watch` when the command itself only waits for the end of its standard input;
   * or the SHA-256 of all of it, 64 lowercase hex digits.
   */
  readonly stdin: string;
  /** The last second in which it is good, since the epoch. */
  readonly expiresAt: number;
}

const NONCE_BYTES = 16;
const encoder = new TextEncoder();

/**
 * Makes a fresh envelope.
 *
 * @throws {RangeError} for a time to live that is not within 1 to {@linkcode MAX_ENVELOPE_TTL_SECONDS}
 * @throws {TypeError} for a host or command that {@linkcode encodeEnvelope} refuses
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
  const nonce = random.bytes(NONCE_BYTES).toHex();
  return encodeEnvelope({ nonce, host, command, stdin, expiresAt }, key, format);
}

/**
 * Signs and encodes an envelope.
 *
 * @throws {TypeError} for a command that {@linkcode isSealable} refuses, a host with a line feed, or another stdin
 */
export function encodeEnvelope(envelope: Envelope, key: EnvelopeKey, format: EnvelopeFormat): string {
  if (!isSealable(envelope.command)) {
    throw new TypeError("A command in an envelope is empty or not plain text");
  }
  if (/[\0\n]/.test(envelope.host)) throw new TypeError("The host of an envelope has a NUL or a line feed");
  if (!/^(?:none|watch|[0-9a-f]{64})$/.test(envelope.stdin)) {
    throw new TypeError("The stdin of an envelope is not none, watch or a SHA-256");
  }
  switch (format.version) {
    case "v1":
      return encodeV1(envelope, key, format.domain);
    case "v2":
    case "v3":
      return encodeMessage(envelope, key, format.version);
    default:
      return format satisfies never;
  }
}

/**
 * Whether a command can go into an envelope: shells drop a NUL, so that another command than the signed one would run,
 * and half of a surrogate pair has no bytes of its own.
 */
export function isSealable(command: string): boolean {
  return command !== "" && !command.includes("\0") && command.isWellFormed();
}

function encodeV1({ nonce, host, command, expiresAt }: Envelope, key: EnvelopeKey, domain: string): string {
  const signed = signedBytesV1({ nonce, host, command, expiry: String(expiresAt) }, domain);
  const signature = key.sign(signed).toBase64();
  return base64url(encoder.encode(
    JSON.stringify({ n: nonce, h: host, c: command, e: expiresAt, s: signature }),
  ));
}

function encodeMessage(
  { nonce, host, command, stdin, expiresAt }: Envelope,
  key: EnvelopeKey,
  version: "v2" | "v3",
): string {
  const [prefix, line] = version === "v3" ? ["v3.", `${stdin}\n`] : ["", ""];
  const message = encoder.encode(`${nonce}\n${host}\n${expiresAt}\n${line}${command}`);
  return `${prefix}${base64url(message)}.${base64url(key.signMessage(message, version))}`;
}

function base64url(bytes: Uint8Array): string {
  return bytes.toBase64({ alphabet: "base64url", omitPadding: true });
}

export type { SshSigner } from "../ssh/signature.ts";

/** Signs envelopes; the seed does not leave it. */
export interface EnvelopeKey {
  /** The Ed25519 public key, 32 bytes. */
  readonly publicKey: Uint8Array;
  /** The same key for signatures in OpenSSH's form. */
  readonly ssh: SshSigner;
  /** 64 bytes. */
  sign(data: Uint8Array): Uint8Array;
  /** The SSHSIG of a message of v2 or v3. */
  signMessage(message: Uint8Array, version: keyof typeof ENVELOPE_NAMESPACES): Uint8Array;
}

/** The namespaces of the signatures of v2 and v3. */
export const ENVELOPE_NAMESPACES = { v2: "gateway-sealed-exec-v2", v3: "gateway-sealed-exec-v3" } as const;

/** The length of a seed file. */
const ENVELOPE_SEED_BYTES = 32;

const PUBLIC_KEY_BYTES = 32;
/** At the end of an SSHSIG of this key. */
const SIGNATURE_BYTES = 64;

/** The principal that the allowed signers file of v2 and v3 names. */
const ENVELOPE_PRINCIPAL = "signer";

/**
 * The key of a seed.
 *
 * @param seed the content of the file: 32 bytes, no more and no less
 * @throws {AppError} `invalid_config` for any other length
 */
export function createEnvelopeKey(seed: Uint8Array): EnvelopeKey {
  if (seed.length !== ENVELOPE_SEED_BYTES) {
    throw new AppError(
      "invalid_config",
      `Envelope key has ${seed.length} bytes: an Ed25519 seed of exactly ${ENVELOPE_SEED_BYTES} is needed`,
    );
  }
  const key = importEd25519Seed(seed);
  const publicKey = ed25519PublicKey(seed);
  const parts = decodeKeyBlob(publicKey);
  const ssh: SshSigner = { publicKey, sign: (data) => signData(key, parts, data) };
  // Made once: a preflight has little else to do, and each buffer is work for the garbage collector.
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
      whole.set(sign(null, signed, key), whole.length - SIGNATURE_BYTES);
      return whole;
    },
  };
}

/** The line of v1's key file `/etc/gateway/envelope.pub`: standard base64 of 32 bytes, without line end. */
export function envelopePublicKeyText({ publicKey }: EnvelopeKey): string {
  return publicKey.toBase64();
}

/** The line of the key file of v2 and v3, `/etc/gateway/envelope_signers`, without line end. */
export function envelopeSignersLine(key: EnvelopeKey): string {
  return allowedSignersLine(key, Object.values(ENVELOPE_NAMESPACES));
}

/**
 * A line of OpenSSH's allowed signers format (ssh-keygen(1)), without line end.
 *
 * @param namespaces what the key may sign there
 */
export function allowedSignersLine({ ssh }: EnvelopeKey, namespaces: readonly string[]): string {
  const options = `namespaces="${namespaces.join(",")}"`;
  return `${ENVELOPE_PRINCIPAL} ${options} ${formatPublicKey("ssh-ed25519", ssh.publicKey)}`;
}

/** The domain of v1, unless a host's shim has another. */
export const ENVELOPE_DOMAIN = "gateway-sealed-exec-v1";

/** The longest time that an envelope can be good for; a shim refuses more. */
export const MAX_ENVELOPE_TTL_SECONDS = 300;

/** The fields that are signed, in this order; the expiry in decimal digits. */
interface SignedFieldsV1 {
  /** Hex digits. */
  readonly nonce: string;
  /** The logical name of the host. */
  readonly host: string;
  /** As the host's shell gets it. */
  readonly command: string;
  /** In seconds since the epoch, as written. */
  readonly expiry: string;
}

/** The domain, a NUL, and each field as UTF-8 behind its length in 8 bytes, big-endian. */
export function signedBytesV1(
  { nonce, host, command, expiry }: SignedFieldsV1,
  domain: string,
): Uint8Array<ArrayBuffer> {
  const writer = new SshWriter().raw(encoder.encode(`${domain}\0`));
  for (const field of [nonce, host, command, expiry]) {
    const bytes = encoder.encode(field);
    writer.u64(BigInt(bytes.length)).raw(bytes);
  }
  return writer.bytes();
}
