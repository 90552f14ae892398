// @ts-types="./ssh2.d.ts"
import type * as Ssh2 from "ssh2";

export type Ssh2Client = Ssh2.Client;
export type Ssh2Channel = Ssh2.ClientChannel;

export interface Ssh2Library {
  readonly Client: typeof Ssh2.Client;
  /** Encrypts and sends a packet, or queues it during a key exchange. */
  readonly sendPacket: (protocol: object, packet: Uint8Array) => void;
}

let library: Promise<Ssh2Library> | undefined;

/**
 * Loads ssh2 on first use: it takes 25 MB, which an idle broker does not need. Only this module imports it. It needs no
 * permission, and works without its optional native parts, which are not built.
 */
export function loadSsh2(): Promise<Ssh2Library> {
  library ??= importSsh2();
  return library;
}

async function importSsh2(): Promise<Ssh2Library> {
  // @ts-types="./ssh2.d.ts"
  const { Client } = await import("ssh2");
  const utils: unknown = await import("ssh2/lib/protocol/utils.js");
  const sendPacket = member(utils, "sendPacket");
  if (!isSendPacket(sendPacket)) throw unknownVersion("sendPacket");
  return { Client, sendPacket };
}

function isSendPacket(value: unknown): value is Ssh2Library["sendPacket"] {
  return typeof value === "function";
}

/** The private parts of ssh2 1.17.0 that certificates and signals need. Only this module reads them. */
interface Ssh2Protocol {
  authNone(username: string): void;
  /** Sends a `signal` request (RFC 4254 section 6.9). */
  signal(channelId: number, name: string): void;
  readonly _authsQueue: string[];
  readonly _packetRW: {
    readonly write: {
      readonly allocStart: number;
      alloc(payloadLength: number): Uint8Array;
      finalize(packet: Uint8Array): Uint8Array;
    };
  };
}

/** @throws {TypeError} if ssh2 has another structure: certificates cannot be presented, and nothing else may be */
export function protocolOf(client: Ssh2Client): Ssh2Protocol {
  const protocol = member(client, "_protocol");
  if (!isProtocol(protocol)) throw unknownVersion("_protocol");
  return protocol;
}

/**
 * The session identifier.
 * @throws {TypeError} before the end of the first key exchange, or if ssh2 has another structure
 */
export function sessionIdOf(protocol: Ssh2Protocol): Uint8Array {
  const sessionId = member(member(protocol, "_kex"), "sessionID");
  if (!(sessionId instanceof Uint8Array) || sessionId.length === 0) throw unknownVersion("_kex.sessionID");
  return sessionId;
}

/** The host's number of a channel. @throws {TypeError} if ssh2 has another structure */
export function remoteIdOf(channel: Ssh2Channel): number {
  const id = member(member(channel, "outgoing"), "id");
  if (typeof id !== "number") throw unknownVersion("outgoing.id");
  return id;
}

function isProtocol(value: unknown): value is Ssh2Protocol {
  const write = member(member(value, "_packetRW"), "write");
  const functions = [
    ...["authNone", "signal"].map((name) => member(value, name)),
    ...["alloc", "finalize"].map((name) => member(write, name)),
  ];
  return functions.every((found) => typeof found === "function") &&
    Array.isArray(member(value, "_authsQueue")) && typeof member(write, "allocStart") === "number";
}

function member(value: unknown, name: string): unknown {
  return typeof value === "object" && value !== null ? Reflect.get(value, name) : undefined;
}

function unknownVersion(what: string): TypeError {
  return new TypeError(`Cannot use this version of ssh2: ${what} is not as in 1.17.0`);
}
