// @ts-types="./ssh2.d.ts"
import type * as Ssh2 from "ssh2";

/** A client of ssh2. */
export type Ssh2Client = Ssh2.Client;
/** A channel of a client of ssh2. */
export type Ssh2Channel = Ssh2.ClientChannel;

/** What is used of ssh2: its client, and the function with which it sends a packet. */
export interface Ssh2Library {
  readonly Client: typeof Ssh2.Client;
  /** Encrypts and sends a packet, or queues it during a key exchange. */
  readonly sendPacket: (protocol: object, packet: Uint8Array) => void;
}

let library: Promise<Ssh2Library> | undefined;

/**
 * Loads ssh2 on first use: it holds 25 MB, which a broker without work does not need. Only this module imports
 * it. It needs no permission; its optional native parts are not built, and it works without them.
 */
export function loadSsh2(): Promise<Ssh2Library> {
  library ??= importSsh2();
  return library;
}

async function importSsh2(): Promise<Ssh2Library> {
  // @ts-types="./ssh2.d.ts"
  const { Client } = await import("ssh2");
  const utils: unknown = await import("ssh2/lib/protocol/utils.js");
  if (!hasSendPacket(utils)) throw new TypeError("Cannot use this version of ssh2: sendPacket is not there");
  return { Client, sendPacket: utils.sendPacket };
}

function hasSendPacket(module: unknown): module is Pick<Ssh2Library, "sendPacket"> {
  return typeof module === "object" && module !== null && "sendPacket" in module &&
    typeof module.sendPacket === "function";
}

/** The private parts of ssh2 1.17.0 that certificates and signals need. Nothing else looks inside ssh2. */
interface Ssh2Protocol {
  authNone(username: string): void;
  /** Sends a `signal` request (RFC 4254 section 6.9). */
  signal(channelId: number, name: string): void;
  /** Methods asked for and not yet answered. */
  readonly _authsQueue: string[];
  readonly _packetRW: {
    readonly write: {
      /** Where the payload begins in what `alloc` returns. */
      readonly allocStart: number;
      alloc(payloadLength: number): Uint8Array;
      finalize(packet: Uint8Array): Uint8Array;
    };
  };
}

/**
 * The protocol object inside a client that is connecting.
 *
 * @throws {TypeError} when ssh2 looks different inside: then certificates cannot be presented, and nothing else
 * may be presented in their place
 */
export function protocolOf(client: Ssh2Client): Ssh2Protocol {
  const protocol: unknown = Reflect.get(client, "_protocol");
  if (!isProtocol(protocol)) throw unknownVersion("_protocol");
  return protocol;
}

/**
 * The session identifier, which there is once the first key exchange is done.
 *
 * @throws {TypeError} before that, or when ssh2 looks different inside
 */
export function sessionIdOf(protocol: Ssh2Protocol): Uint8Array {
  const sessionId = member(member(protocol, "_kex"), "sessionID");
  if (!(sessionId instanceof Uint8Array) || sessionId.length === 0) throw unknownVersion("_kex.sessionID");
  return sessionId;
}

/**
 * The number that the host gave to a channel.
 *
 * @throws {TypeError} when ssh2 looks different inside
 */
export function remoteIdOf(channel: Ssh2Channel): number {
  const id = member(member(channel, "outgoing"), "id");
  if (typeof id !== "number") throw unknownVersion("outgoing.id");
  return id;
}

function isProtocol(value: unknown): value is Ssh2Protocol {
  const write = member(member(value, "_packetRW"), "write");
  return isFunction(member(value, "authNone")) && isFunction(member(value, "signal")) &&
    Array.isArray(member(value, "_authsQueue")) && typeof member(write, "allocStart") === "number" &&
    isFunction(member(write, "alloc")) && isFunction(member(write, "finalize"));
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

function isFunction(value: unknown): boolean {
  return typeof value === "function";
}

function unknownVersion(what: string): TypeError {
  return new TypeError(`Cannot use this version of ssh2: ${what} is not as in 1.17.0`);
}
