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
