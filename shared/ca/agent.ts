/**
 * A certificate authority whose key is in an ssh-agent: the private half never enters this process. The key is
 * pinned by its public half, and what the agent returns is believed only when it verifies with that.
 *
 * ```ts ignore
 * import { connectToAgent, loadAgentCaKey } from "./agent.ts";
 * import { systemClock } from "@gateway/shared/clock";
 *
 * const publicKey = await Deno.readTextFile("ca.pub");
 * const connect = () => connectToAgent("/run/gateway/agent.sock");
 * const key = await loadAgentCaKey({ publicKey, connect, clock: systemClock });
 * ```
 *
 * @module
 */
import { quoteText, writeAll } from "../text.ts";
import { type Clock, within } from "../clock.ts";
import { AppError, errorText } from "../errors.ts";
import { decodeKeyBlob, parsePublicKey, RSA_BITS, rsaBits, type SshPublicKey } from "../ssh/public_key.ts";
import { verifySignature } from "../ssh/signature.ts";
import {
  agentSignatureAlgorithm,
  decodeIdentities,
  decodeReplyLength,
  decodeSignature,
  encodeIdentitiesRequest,
  encodeSignRequest,
  LENGTH_BYTES,
} from "./agent_protocol.ts";
import type { CaKey } from "./custody.ts";

/** One connection to an agent. */
export interface AgentConnection {
  /** Reads some bytes; `null` when the agent has closed. */
  read(buffer: Uint8Array): Promise<number | null>;
  /** Writes at least one byte and says how many. */
  write(bytes: Uint8Array): Promise<number>;
  close(): void;
}

/** How an agent is reached, and which of its keys is the CA. */
interface AgentCaKeyOptions {
  /** The text of the public key file: one line; Ed25519, ECDSA, or RSA of 2048 to 4096 bits. */
  readonly publicKey: string;
  /** Opens a new connection; there is one for each signature. */
  readonly connect: () => Promise<AgentConnection>;
  readonly clock: Clock;
  readonly signal?: AbortSignal | undefined;
}

const DIAL_MS = 5_000;
const OPERATION_MS = 10_000;

/**
 * A CA key in an agent, which must have it now.
 *
 * @throws {AppError} `invalid_config` when the public key is malformed or RSA of another length, the agent can't
 * be reached or understood, or does not have the key
 */
export async function loadAgentCaKey(options: AgentCaKeyOptions): Promise<CaKey> {
  const caKey = parseCaPublicKey(options.publicKey);
  const { algorithm, blob: publicKey } = caKey;
  const blobs = await listKeys(options);
  if (!blobs.some((blob) => blob.toHex() === publicKey.toHex())) {
    throw new AppError(
      "invalid_config",
      `Cannot use ssh-agent for the CA: it does not have the key of public_key_path among its ${blobs.length}`,
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
 * Opens a connection to an agent's unix socket. The process needs read and write permission for the path, and
 * net permission for `unix:<path>`.
 */
export async function connectToAgent(path: string): Promise<AgentConnection> {
  return await Deno.connect({ transport: "unix", path });
}

function parseCaPublicKey(text: string): SshPublicKey {
  try {
    const key = parsePublicKey(text);
    checkLength(key);
    return key;
  } catch (cause) {
    throw new AppError("invalid_config", `Cannot use public_key_path for the CA: ${errorText(cause)}`, {
      cause,
    });
  }
}

function checkLength({ blob }: SshPublicKey): void {
  const parts = decodeKeyBlob(blob);
  if (parts.kind !== "rsa") return;
  const bits = rsaBits(parts);
  if (bits >= RSA_BITS.min && bits <= RSA_BITS.max) return;
  const allowed = `${RSA_BITS.min} to ${RSA_BITS.max}`;
  throw new AppError("invalid_config", `key is RSA of ${bits} bits, not of ${allowed}`);
}

async function listKeys(options: AgentCaKeyOptions): Promise<readonly Uint8Array[]> {
  try {
    return decodeIdentities(await exchange(options, encodeIdentitiesRequest()));
  } catch (cause) {
    options.signal?.throwIfAborted();
    const message = errorText(cause);
    throw new AppError("invalid_config", `Cannot use ssh-agent for the CA: ${message}`, { cause });
  }
}

async function sign(
  options: AgentCaKeyOptions,
  caKey: SshPublicKey,
  data: Uint8Array,
): Promise<Uint8Array> {
  const expected = agentSignatureAlgorithm(caKey.algorithm);
  const reply = await exchange(options, encodeSignRequest(caKey.blob, data, expected));
  const { algorithm, blob: signature } = decodeSignature(reply);
  // An agent that does not know the flags signs with SHA-1, which hosts do not believe.
  if (algorithm !== expected) {
    const problem = `signed with ${quoteText(algorithm.slice(0, 64))}, not with ${expected}`;
    throw new AppError("upstream_failure", `The ssh-agent ${problem}`);
  }
  // A certificate with another signature would be refused by hosts at best; at worst it is one that another
  // key was tricked into.
  if (!verifySignature(caKey.blob, signature, data)) {
    throw new AppError("upstream_failure", "The ssh-agent returned a signature that is not the CA's");
  }
  return signature;
}

/** @throws {AppError} `upstream_failure`, and the reason of the signal when that is aborted */
async function exchange(options: AgentCaKeyOptions, request: Uint8Array): Promise<Uint8Array> {
  const connection = await dial(options);
  try {
    return await within(
      { clock: options.clock, ms: OPERATION_MS, signal: options.signal, late: () => timedOut("answer") },
      async () => {
        await writeAll(connection, request);
        const length = decodeReplyLength(await readExactly(connection, LENGTH_BYTES));
        return await readExactly(connection, length);
      },
    );
  } catch (cause) {
    throw asUpstreamFailure(cause, options.signal);
  } finally {
    // Also ends a read or write that is still waiting.
    connection.close();
  }
}

async function dial({ connect, clock, signal }: AgentCaKeyOptions): Promise<AgentConnection> {
  const late = () => timedOut("accept a connection");
  const release = (connection: AgentConnection) => connection.close();
  try {
    return await within({ clock, ms: DIAL_MS, signal, late, release }, connect);
  } catch (cause) {
    throw asUpstreamFailure(cause, signal);
  }
}

async function readExactly(connection: AgentConnection, length: number): Promise<Uint8Array> {
  const bytes = new Uint8Array(length);
  for (let filled = 0; filled < length;) {
    const count = await connection.read(bytes.subarray(filled));
    if (count === null) throw new AppError("upstream_failure", "The ssh-agent closed the connection");
    filled += count;
  }
  return bytes;
}

function timedOut(what: string): AppError {
  return new AppError("upstream_failure", `The ssh-agent did not ${what} in time`);
}

/** Where the agent lies is nobody's business but the log's. */
function asUpstreamFailure(cause: unknown, signal: AbortSignal | undefined): unknown {
  if (signal?.aborted || cause instanceof AppError) return cause;
  return new AppError("upstream_failure", `Cannot contact the ssh-agent: ${describe(cause)}`, { cause });
}

function describe(cause: unknown): string {
  if (cause instanceof Deno.errors.NotCapable) return "outside this process's permissions";
  if (cause instanceof Deno.errors.NotFound) return "no such socket";
  if (cause instanceof Deno.errors.ConnectionRefused) return "nobody listens on its socket";
  if (cause instanceof Deno.errors.PermissionDenied) return "this user may not use its socket";
  return "the connection failed";
}
