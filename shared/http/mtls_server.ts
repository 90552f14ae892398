/**
 * An HTTPS listener that knows its callers by their client certificates (mutual TLS 1.3).
 *
 * The TLS handshake is accepted from anybody, so that a client without a good certificate gets an HTTP answer
 * (401) and not a broken connection; each request is refused before anything else is looked at unless its
 * connection has proved who the caller is.
 *
 * ```ts ignore
 * import { startMtlsServer } from "@gateway/shared/http/mtls_server";
 *
 * await using server = await startMtlsServer({
 *   listen: "127.0.0.1:9443",
 *   cert,
 *   key,
 *   clientCa,
 *   handler: (_request, { caller }) => new Response(`hello ${caller}\n`),
 *   onError: (error, requestId) => logger.error("request failed", { error, request_id: requestId }),
 * });
 * ```
 *
 * @module
 */
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { AppError } from "../errors.ts";
import type { CallerCn } from "./caller.ts";
import type { Standing } from "./connection_room.ts";
import type { ExchangeOptions, Peers } from "./exchange.ts";
import { type PeerCertificate, PeerCertificates } from "./peer_certificate.ts";
import { type RunningListener, startListener, type TlsServerOptions } from "./listener.ts";

export type { ConnectionCounts, ConnectionLimits } from "./connection_room.ts";
export type { ExchangeOptions } from "./exchange.ts";
export type { ListenerOptions, ListenerTimeouts, RunningListener, TlsServerOptions } from "./listener.ts";

/** Who sent a request. */
export interface Peer {
  /** The verified CN of the client certificate. */
  readonly caller: CallerCn;
}

/** Answers a request. What it throws becomes a problem response. */
export type PeerHandler = ExchangeOptions<Peer>["handler"];

/** What {@linkcode startMtlsServer} needs. */
export interface MtlsServerOptions extends TlsServerOptions<Peer> {
  /** The CAs that sign callers' certificates, PEM. */
  readonly clientCa: string;
  /** Whether room is kept for a caller's connections beyond everybody else's; asked when a connection begins. */
  readonly isReserved?: (caller: CallerCn) => boolean;
}

/** A running listener. */
export type MtlsServer = RunningListener;

/**
 * Starts the listener; resolves when it accepts connections.
 *
 * @throws {AppError} `invalid_config` when the address, the certificate, the key or the CA cannot be used
 */
export function startMtlsServer(options: MtlsServerOptions): Promise<MtlsServer> {
  return startListener(options, new CertifiedPeers(options.isReserved), options);
}

/** Peers that prove who they are by a certificate. */
class CertifiedPeers implements Peers<Peer> {
  readonly #certificates = new PeerCertificates();
  readonly #peers = new WeakMap<Duplex, PeerCertificate>();
  readonly #isReserved: (caller: CallerCn) => boolean;

  constructor(isReserved: (caller: CallerCn) => boolean = () => false) {
    this.#isReserved = isReserved;
  }

  begin(socket: Socket): Standing {
    const peer = socket instanceof TLSSocket ? this.#certificates.identify(socket) : undefined;
    if (peer === undefined) return { kind: "stranger" };
    this.#peers.set(socket, peer);
    return { kind: this.#isReserved(peer.caller) ? "reserved" : "known", name: peer.caller };
  }

  identify(socket: Duplex): Peer {
    const peer = this.#peers.get(socket);
    const isAuthorized = socket instanceof TLSSocket && socket.authorized === true;
    if (!isAuthorized || peer === undefined || peer.validUntil < Date.now()) {
      throw new AppError("unauthenticated", "A valid client certificate with one common name is required");
    }
    return { caller: peer.caller };
  }
}
