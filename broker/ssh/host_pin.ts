import { quoteText } from "@gateway/shared/text";
import { parsePublicKey } from "@gateway/shared/ssh";
import { connectionFailure } from "./failures.ts";

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
