/**
 * The part of the ssh-agent protocol that a CA needs (draft-miller-ssh-agent): list the keys, sign. One request,
 * one reply, each a `string` whose first byte is its type.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { encodeIdentitiesRequest } from "./agent_protocol.ts";
 *
 * assert.deepEqual(encodeIdentitiesRequest(), Uint8Array.of(0, 0, 0, 1, 11));
 * ```
 *
 * @module
 */
import { AppError } from "../errors.ts";
import { SshReader, SshWriter } from "../ssh/wire_format.ts";

const FAILURE = 5;
const REQUEST_IDENTITIES = 11;
const IDENTITIES_ANSWER = 12;
const SIGN_REQUEST = 13;
const SIGN_RESPONSE = 14;
const NO_FLAGS = 0;
/** SSH_AGENT_RSA_SHA2_512; without a flag an agent signs with SHA-1 when the key is RSA. */
const RSA_SHA2_512 = 4;

/** The longest reply that is read, in bytes; OpenSSH's agent has the same limit. */
const MAX_REPLY_BYTES = 256 * 1024;

/** How many bytes of a reply say how long the rest is. */
export const LENGTH_BYTES = 4;

/** SSH2_AGENTC_REQUEST_IDENTITIES, with its length. */
export function encodeIdentitiesRequest(): Uint8Array {
  return encodeMessage(REQUEST_IDENTITIES, new Uint8Array());
}

/** How a CA key in an agent signs: with the algorithm of its name, but RSA with SHA-2. */
export function agentSignatureAlgorithm(keyAlgorithm: string): string {
  return keyAlgorithm === "ssh-rsa" ? "rsa-sha2-512" : keyAlgorithm;
}

/** SSH2_AGENTC_SIGN_REQUEST, with its length. The flags choose among the hashes of RSA; other keys have one. */
export function encodeSignRequest(publicKey: Uint8Array, data: Uint8Array, algorithm: string): Uint8Array {
  const flags = algorithm === "rsa-sha2-512" ? RSA_SHA2_512 : NO_FLAGS;
  return encodeMessage(SIGN_REQUEST, new SshWriter().string(publicKey).string(data).u32(flags).bytes());
}

/**
 * The length of a reply, from its first four bytes.
 *
 * @throws {AppError} `upstream_failure` when it is 0 or more than {@linkcode MAX_REPLY_BYTES}
 */
export function decodeReplyLength(bytes: Uint8Array): number {
  const length = new SshReader(bytes).u32();
  if (length < 1 || length > MAX_REPLY_BYTES) {
    throw new AppError("upstream_failure", `The ssh-agent sent a reply of ${length} bytes`);
  }
  return length;
}

/**
 * The key blobs of SSH2_AGENT_IDENTITIES_ANSWER.
 *
 * @param reply without its length
 * @throws {AppError} `upstream_failure` for any other or a malformed reply
 */
export function decodeIdentities(reply: Uint8Array): readonly Uint8Array[] {
  return decodeReply(reply, IDENTITIES_ANSWER, (reader) => {
    const blobs: Uint8Array[] = [];
    // The count is the other side's claim: it is used up by reading and never to make room.
    for (let remaining = reader.u32(); remaining > 0; remaining--) {
      blobs.push(reader.string());
      reader.string();
    }
    return blobs;
  });
}

/** A signature, and what it says it was made with. */
interface AgentSignature {
  /** E.g. `rsa-sha2-512`. */
  readonly algorithm: string;
  /** The signature blob: `string` algorithm, `string` signature. */
  readonly blob: Uint8Array;
}

/**
 * The signature of SSH2_AGENT_SIGN_RESPONSE; whether it is right is not checked here.
 *
 * @param reply without its length
 * @throws {AppError} `upstream_failure` for a refusal, any other or a malformed reply
 */
export function decodeSignature(reply: Uint8Array): AgentSignature {
  return decodeReply(reply, SIGN_RESPONSE, (reader) => {
    const blob = reader.string();
    return { algorithm: new SshReader(blob).text(), blob };
  });
}

function encodeMessage(type: number, body: Uint8Array): Uint8Array {
  return new SshWriter().u32(1 + body.length).raw(Uint8Array.of(type)).raw(body).bytes();
}

function decodeReply<T>(reply: Uint8Array, expected: number, read: (body: SshReader) => T): T {
  const [type] = reply;
  if (type === FAILURE) throw new AppError("upstream_failure", "The ssh-agent refused the request");
  if (type !== expected) {
    throw new AppError("upstream_failure", `The ssh-agent sent a reply of type ${type}, not ${expected}`);
  }
  try {
    const body = new SshReader(reply.subarray(1));
    const value = read(body);
    body.end();
    return value;
  } catch (cause) {
    throw new AppError("upstream_failure", "The ssh-agent sent a malformed reply", { cause });
  }
}
