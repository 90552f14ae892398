/**
 * Peers of whom the connection tells nothing: who sends a request, its handler has to find out from the request.
 *
 * @module
 */
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import type { Standing } from "./connection_room.ts";
import type { Connections } from "./connections.ts";
import type { Peers } from "./exchange.ts";

/** A peer of whom nothing is known but its address. */
export interface UnknownPeer {
  /** The IP address that the request comes from. */
  readonly address: string;
  /**
   * To be called when a request has proved who sends it: its connection then stays open, for as long as other peers
   * of whom that is known leave room. Without it each connection ends after its first answer. Under a name it counts
   * as one of those that this sender has.
   */
  readonly trust: (name?: string) => void;
}

/** Takes everybody in as a stranger. */
export class UnknownPeers implements Peers<UnknownPeer> {
  readonly #addresses = new WeakMap<Duplex, string>();

  begin(socket: Socket): Standing {
    this.#addresses.set(socket, socket.remoteAddress ?? "");
    return { kind: "stranger" };
  }

  identify(socket: Duplex, connections: Connections): UnknownPeer {
    return { address: this.#addresses.get(socket) ?? "", trust: (name) => connections.trust(socket, name) };
  }
}
