// A CA key in an ssh-agent (draft-miller-ssh-agent), so that the private key never enters this process. The
// public key is pinned, and a signature is accepted only if it verifies with the pinned key.
import { quoteText, writeAll } from "../text.ts";
import { type Clock, within } from "../clock.ts";
import { AppError, configError, errorText } from "../errors.ts";
import {
  decodeKeyBlob,
  parsePublicKey,
  RSA_BITS,
  rsaBits,
  type SshPublicKey,
  verifySignature,
} from "../ssh/keys.ts";
import { SshReader, SshWriter } from "../ssh/wire_format.ts";
import type { CaKey } from "./model.ts";

/** One connection to an agent. */
export interface AgentConnection {
  /** Reads some bytes; `null` if the agent has closed. */
  read(buffer: Uint8Array): Promise<number | null>;
  /** Writes at least one byte and returns the number. */
  write(bytes: Uint8Array): Promise<number>;
  close(): void;
}

interface AgentCaKeyOptions {
  /** The text of the public key file: one line; Ed25519, ECDSA, or RSA of 2048 to 4096 bits. */
  readonly publicKey: string;
  /** Opens a connection, one for each signature. */
  readonly connect: () => Promise<AgentConnection>;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
}

const DIAL_MS = 5_000;
const OPERATION_MS = 10_000;

const FAILURE = 5;
const REQUEST_IDENTITIES = 11;
const IDENTITIES_ANSWER = 12;
const SIGN_REQUEST = 13;
const SIGN_RESPONSE = 14;
/** SSH_AGENT_RSA_SHA2_512. Without a flag, an agent signs with SHA-1 if the key is RSA. */
const RSA_SHA2_512 = 4;
/** The longest accepted reply. OpenSSH's agent has the same limit. */
const MAX_REPLY_BYTES = 256 * 1024;

/**
 * Loads a CA key of an agent, which must contain the key at this time.
 *
 * @throws {AppError} `invalid_config` if the public key is malformed or RSA of another length, the agent is
 * unavailable or malformed, or does not have the key
 */
export async function loadAgentCaKey(options: AgentCaKeyOptions): Promise<CaKey> {
  const caKey = parseCaPublicKey(options.publicKey);
  const { algorithm, blob: publicKey } = caKey;
  const blobs = await listKeys(options);
  if (!blobs.some((blob) => blob.toHex() === publicKey.toHex())) {
    throw unusable(
      `ssh-agent for the CA: it does not have the key of public_key_path among its ${blobs.length}`,
    );
  }
  return {
    backend: "agent",
    algorithm,
    publicKey,
    sign: (data, signal) => sign({ ...options, signal }, caKey, data),
  };
}

/**
 * Opens a connection to an agent's unix socket. The process needs read and write permission for the path, and net
 * permission for `unix:<path>`.
 */
export async function connectToAgent(path: string): Promise<AgentConnection> {
  return await Deno.connect({ transport: "unix", path });
}

function unusable(problem: string, cause?: unknown): AppError {
  return configError(`Cannot use ${problem}`, cause);
}

function failed(problem: string, cause?: unknown): AppError {
  return new AppError("upstream_failure", `The ssh-agent ${problem}`, { cause });
}

function parseCaPublicKey(text: string): SshPublicKey {
  const fault = (problem: string, cause?: unknown) =>
    unusable(`public_key_path for the CA: ${problem}`, cause);
  let key;
  try {
    key = parsePublicKey(text);
  } catch (cause) {
    throw fault(errorText(cause), cause);
  }
  const parts = decodeKeyBlob(key.blob);
  const bits = parts.kind === "rsa" ? rsaBits(parts) : RSA_BITS.min;
  if (bits >= RSA_BITS.min && bits <= RSA_BITS.max) return key;
  throw fault(`key is RSA of ${bits} bits, not of ${RSA_BITS.min} to ${RSA_BITS.max}`);
}

async function listKeys(options: AgentCaKeyOptions): Promise<readonly Uint8Array[]> {
  try {
    return await exchange(options, [REQUEST_IDENTITIES, new Uint8Array()], [IDENTITIES_ANSWER, (reader) => {
      const blobs: Uint8Array[] = [];
      // The agent sends the count. It limits the loop, but nothing is allocated by it.
      for (let remaining = reader.u32(); remaining > 0; remaining--) {
        blobs.push(reader.string());
        reader.string();
      }
      return blobs;
    }]);
  } catch (cause) {
    options.signal?.throwIfAborted();
    throw unusable(`ssh-agent for the CA: ${errorText(cause)}`, cause);
  }
}

async function sign(
  options: AgentCaKeyOptions,
  caKey: SshPublicKey,
  data: Uint8Array,
): Promise<Uint8Array> {
  const [expected, flags] = caKey.algorithm === "ssh-rsa"
    ? ["rsa-sha2-512", RSA_SHA2_512] as const
    : [caKey.algorithm, 0] as const;
  const request = new SshWriter().string(caKey.blob).string(data).u32(flags).bytes();
  const read = (reader: SshReader) => {
    const signature = reader.string();
    return { algorithm: new SshReader(signature).text(), signature };
  };
  const { algorithm, signature } = await exchange(options, [SIGN_REQUEST, request], [SIGN_RESPONSE, read]);
  // An agent that does not know the flags signs with SHA-1, which hosts reject.
  if (algorithm !== expected) {
    throw failed(`signed with ${quoteText(algorithm.slice(0, 64))}, not with ${expected}`);
  }
  // Hosts would reject a signature of another key.
  if (!verifySignature(caKey.blob, signature, data)) {
    throw failed("returned a signature that is not the CA's");
  }
  return signature;
}

/**
 * Sends a request and reads the reply. Each consists of a length, a type and a body.
 *
 * @throws {AppError} `upstream_failure`, or the reason of the signal
 */
async function exchange<T>(
  options: AgentCaKeyOptions,
  [type, body]: readonly [type: number, body: Uint8Array],
  [expected, read]: readonly [type: number, read: (body: SshReader) => T],
): Promise<T> {
  const { connect, clock, signal } = options;
  const timedOut = (what: string) => () => failed(`did not ${what} in time`);
  const request = new SshWriter().u32(1 + body.length).raw(Uint8Array.of(type)).raw(body).bytes();
  let connection: AgentConnection | undefined;
  try {
    const release = (late: AgentConnection) => late.close();
    const dialing = { clock, ms: DIAL_MS, signal, late: timedOut("accept a connection"), release };
    const agent = connection = await within(dialing, connect);
    const reply = await within({ clock, ms: OPERATION_MS, signal, late: timedOut("answer") }, async () => {
      await writeAll(agent, request);
      const length = new SshReader(await readExactly(agent, 4)).u32();
      if (length < 1 || length > MAX_REPLY_BYTES) throw failed(`sent a reply of ${length} bytes`);
      return await readExactly(agent, length);
    });
    return decodeReply(reply, expected, read);
  } catch (cause) {
    if (signal?.aborted || cause instanceof AppError) throw cause;
    // The path of the socket is only for the log.
    const message = `Cannot contact the ssh-agent: ${describe(cause)}`;
    throw new AppError("upstream_failure", message, { cause });
  } finally {
    // Closing the connection also ends a pending read or write.
    connection?.close();
  }
}

function decodeReply<T>(reply: Uint8Array, expected: number, read: (body: SshReader) => T): T {
  const [type] = reply;
  if (type === FAILURE) throw failed("refused the request");
  if (type !== expected) throw failed(`sent a reply of type ${type}, not ${expected}`);
  try {
    const body = new SshReader(reply.subarray(1));
    const value = read(body);
    body.end();
    return value;
  } catch (cause) {
    throw failed("sent a malformed reply", cause);
  }
}

async function readExactly(connection: AgentConnection, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  for (let filled = 0; filled < length;) {
    const count = await connection.read(bytes.subarray(filled));
    if (count === null) throw failed("closed the connection");
    filled += count;
  }
  return bytes;
}

function describe(cause: unknown): string {
  if (cause instanceof Deno.errors.NotCapable) return "outside this process's permissions";
  if (cause instanceof Deno.errors.NotFound) return "no such socket";
  if (cause instanceof Deno.errors.ConnectionRefused) return "no program listens on its socket";
  if (cause instanceof Deno.errors.PermissionDenied) return "this user has no access to its socket";
  return "the connection failed";
}
