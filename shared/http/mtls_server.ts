/**
 * An HTTPS listener that knows its callers by their client certificates (mutual TLS 1.3).
 *
 * The TLS handshake is accepted from anybody, so that a client without a good certificate gets an HTTP answer
 * (401) and not a broken connection; each request is refused before anything else is looked at unless its
 * connection has proved who the caller is.
 *
 * ```ts ignore
 * import { startMtlsServer } from "@gateway/shared/http";
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
import {
  type CallerCn,
  describeExpiry,
  findCertificateFault,
  type PeerCertificate,
  PeerCertificates,
} from "./caller.ts";
import type { Standing } from "./connections.ts";
import type { ExchangeOptions, Peers } from "./exchange.ts";
import type { ListenerCredentials } from "./tls_material.ts";
import { type RunningListener, startListener, type TlsServerOptions } from "./listener.ts";

export type { ConnectionCounts, ConnectionLimits } from "./connections.ts";
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
  /** CNs whose certificates are not believed; nobody's when absent. */
  readonly denied?: ReadonlySet<string>;
}

/** A running listener. */
export interface MtlsServer extends RunningListener {
  /**
   * Takes other credentials. Certificate and key are shown from the next connection on, and open connections go on; all
   * of them end when the CAs are others.
   *
   * @throws {AppError} `invalid_config` when they can't be used; those before stay in force
   */
  renew(tls: ListenerCredentials): void;
  /** Takes another list of callers that are denied. Their connections end at once, whatever is under way on them. */
  deny(callers: ReadonlySet<string>): void;
}

/**
 * Starts the listener; resolves when it accepts connections.
 *
 * @throws {AppError} `invalid_config` when the address, the certificate, the key or the CA cannot be used
 */
export async function startMtlsServer(options: MtlsServerOptions): Promise<MtlsServer> {
  const peers = new CertifiedPeers(options);
  const listener = await startListener(options, peers, options);
  let { clientCa } = options;
  return {
    ...listener,
    renew(tls) {
      listener.renew(tls);
      if (tls.clientCa !== clientCa) peers.forget();
      clientCa = tls.clientCa;
    },
    deny: (callers) => peers.deny(callers),
  };
}

/** Peers that prove who they are by a certificate. */
class CertifiedPeers implements Peers<Peer> {
  #denied: ReadonlySet<string>;
  readonly #open = new Map<Socket, CallerCn>();
  #certificates = new PeerCertificates();
  #peers = new WeakMap<Duplex, PeerCertificate>();
  /** Why a certificate is not accepted, as far as the certificate shows it: the runtime does not say. */
  readonly #faults = new WeakMap<Duplex, string>();
  readonly #isReserved: (caller: CallerCn) => boolean;

  constructor({ isReserved = () => false, denied = new Set() }: Omit<MtlsServerOptions, "handler">) {
    this.#isReserved = isReserved;
    this.#denied = denied;
  }

  deny(callers: ReadonlySet<string>): void {
    this.#denied = callers;
    for (const [socket, caller] of this.#open) if (callers.has(caller)) socket.destroy();
  }

  /** Nobody is who he proved to be; a session that is resumed proves nothing either. */
  forget(): void {
    this.#certificates = new PeerCertificates();
    this.#peers = new WeakMap();
  }

  begin(socket: Socket): Standing {
    const peer = socket instanceof TLSSocket ? this.#certificates.identify(socket) : undefined;
    if (peer === undefined) {
      const fault = socket instanceof TLSSocket
        ? findCertificateFault(socket.getPeerCertificate(), Date.now())
        : undefined;
      if (fault !== undefined) this.#faults.set(socket, fault);
      return { kind: "stranger" };
    }
    this.#peers.set(socket, peer);
    this.#open.set(socket, peer.caller);
    socket.on("close", () => this.#open.delete(socket));
    if (this.#denied.has(peer.caller)) return { kind: "stranger" };
    return { kind: this.#isReserved(peer.caller) ? "reserved" : "known", name: peer.caller };
  }

  identify(socket: Duplex): Peer {
    const peer = this.#peers.get(socket);
    const isAuthorized = socket instanceof TLSSocket && socket.authorized === true;
    if (!isAuthorized || peer === undefined) {
      const required = "A valid client certificate with one common name is required";
      throw new AppError("unauthenticated", this.#faults.get(socket) ?? required);
    }
    if (peer.validUntil < Date.now()) {
      throw new AppError("unauthenticated", describeExpiry(peer.validUntil));
    }
    if (this.#denied.has(peer.caller)) {
      throw new AppError("unauthenticated", "The certificate of this caller was revoked");
    }
    return { caller: peer.caller };
  }
}
