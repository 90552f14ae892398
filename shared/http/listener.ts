/**
 * The listener under `mtls_server`, `tls_server` and `plain_server`: TLS 1.3 or none, HTTP/1.1, bounded in time and
 * number.
 *
 * @module
 */
import { createServer as createHttpServer, type Server } from "node:http";
import { createServer } from "node:https";
import type { Socket } from "node:net";
import { systemClock, within } from "../clock.ts";
import { AppError, type ErrorCode } from "../errors.ts";
import {
  type ConnectionCounts,
  type ConnectionLimits,
  Connections,
  DEFAULT_LIMITS,
  type Standing,
} from "./connections.ts";
import { type ExchangeOptions, Exchanges, type Peers } from "./exchange.ts";
import { type ListenAddress, parseListenAddress } from "./listen_address.ts";
import { checkTlsIdentity } from "./tls_material.ts";
import type { Metrics } from "../service/metrics.ts";
import type { Duplex } from "node:stream";

/** What every listener needs. */
export interface ListenerOptions<Peer> extends ExchangeOptions<Peer> {
  readonly listen: string;
  /** Connections at a time, by what is known of their peers; default {@linkcode DEFAULT_LIMITS}. */
  readonly limits?: Partial<ConnectionLimits>;
  /** Other limits than the defaults of {@linkcode ListenerTimeouts}. */
  readonly timeouts?: Partial<ListenerTimeouts>;
}

/** What every HTTPS listener needs. */
export interface TlsServerOptions<Peer> extends ListenerOptions<Peer> {
  /** The listener's certificate chain, PEM. */
  readonly cert: string;
  /** Its private key, PEM. */
  readonly key: string;
}

/** What a listener shows of itself, and the CAs that sign peers' certificates, PEM; without: it asks for none. */
export interface TlsCredentials {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string;
}

/** A running listener of HTTPS. */
export interface RunningTlsListener extends RunningListener {
  /**
   * Takes other credentials, from the next connection on. Open connections go on; where the CAs are others they end
   * with the answers that are under way, so that nobody stays whom only a former one vouches for.
   *
   * @throws {AppError} `invalid_config` when they can't be used; those before stay in force
   */
  renew(tls: TlsCredentials): void;
}

/** How long a client may take, in milliseconds. */
export interface ListenerTimeouts {
  /**
   * From the start of a connection until its peer has identified itself, or sent its first headers; default 5 s. It
   * bounds the TLS handshake, too.
   */
  readonly identifyMs: number;
  /** For the headers of a request; default 10 s. */
  readonly headersMs: number;
  /** For a whole request with its body; default 10 s. */
  readonly requestMs: number;
  /** Between two requests; default 60 s. */
  readonly idleMs: number;
  /** For the requests that are under way when the listener closes; default 10 s. */
  readonly drainMs: number;
}

/** A running listener. */
export interface RunningListener extends AsyncDisposable {
  /** Where it listens, with the port that the system chose for port 0. */
  readonly address: ListenAddress;
  /** How many connections are open, and may be. */
  readonly connections: () => { readonly open: ConnectionCounts; readonly limits: ConnectionLimits };
  /** Stops accepting, lets running requests finish within the drain time, then closes what is left. */
  close(): Promise<void>;
}

const DEFAULT_TIMEOUTS: ListenerTimeouts = {
  identifyMs: 5_000,
  headersMs: 10_000,
  requestMs: 10_000,
  idleMs: 60_000,
  drainMs: 10_000,
};
const MAX_HEADER_BYTES = 16_384;

/**
 * Starts a listener; resolves when it accepts connections.
 *
 * @param tls `undefined`: it speaks plain HTTP
 * @throws {AppError} `invalid_config` when the address, the certificate, the key or the CA cannot be used
 */
export async function startListener<Peer>(
  options: ListenerOptions<Peer>,
  peers: Peers<Peer>,
  tls: TlsCredentials | undefined,
): Promise<RunningTlsListener> {
  const timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts };
  const { hostname, port } = parseListenAddress(options.listen);
  const { identifyMs } = timeouts;
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const connections = new Connections({ ...limits, clock: systemClock, identifyMs });
  const exchanges = new Exchanges(options, { connections, peers });
  const server = tls === undefined ? createHttpServer(boundsOf(timeouts)) : createTlsServer(tls, timeouts);
  server.on("secureConnection", (socket) => exchanges.begin(socket));
  server.on("request", (message, outgoing) => {
    if (connections.beginRequest(message.socket, outgoing)) void exchanges.answer(message, outgoing);
  });
  server.on("clientError", (error, socket) => exchanges.refuse(error, socket));
  server.on("connection", (socket: Socket) => {
    connections.add(socket);
    if (tls === undefined) exchanges.begin(socket);
  });
  await listen(server, { hostname, port }, options.listen);
  // Such as too many open files: without a listener the error would end the process.
  server.on("error", (error) => options.onError(error, crypto.randomUUID()));
  const address = server.address();
  const close = () => closeServer(server, connections, timeouts.drainMs);
  let clientCa = tls?.clientCa;
  return {
    address: { hostname, port: typeof address === "object" ? address?.port ?? port : port },
    connections: () => ({ open: connections.counts, limits }),
    renew(next) {
      if (!("setSecureContext" in server) || typeof server.setSecureContext !== "function") {
        throw new TypeError("a listener without TLS");
      }
      server.setSecureContext(secureContext(next));
      if (next.clientCa === clientCa) return;
      clientCa = next.clientCa;
      connections.retire();
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

function createTlsServer(tls: TlsCredentials, timeouts: ListenerTimeouts) {
  return createServer({
    ...secureContext(tls),
    // Whoever shows no good certificate is told so by an HTTP answer, not by a broken handshake.
    ...(tls.clientCa === undefined ? {} : { requestCert: true, rejectUnauthorized: false }),
    ALPNProtocols: ["http/1.1"],
    ...boundsOf(timeouts),
  });
}

/** @throws {AppError} `invalid_config` when the credentials can't be used */
function secureContext({ cert, key, clientCa }: TlsCredentials) {
  const ca = clientCa === undefined ? {} : { ca: clientCa };
  checkTlsIdentity({ cert, key, ...ca });
  return { cert, key, ...ca, minVersion: "TLSv1.3" } as const;
}

function boundsOf({ headersMs, requestMs, idleMs }: ListenerTimeouts) {
  return {
    headersTimeout: headersMs,
    requestTimeout: requestMs,
    keepAliveTimeout: idleMs,
    connectionsCheckingInterval: Math.min(1000, headersMs),
    maxHeaderSize: MAX_HEADER_BYTES,
  };
}

function listen(server: Server, { hostname, port }: ListenAddress, shown: string): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once("error", (cause) => {
      reject(new AppError("invalid_config", `Cannot listen on ${shown}: ${cause.message}`, { cause }));
    });
    server.listen(port, hostname, resolve);
  });
}

async function closeServer(server: Server, connections: Connections, drainMs: number): Promise<void> {
  const closed = new Promise<void>((resolve) => server.close(() => resolve()));
  connections.closeIdle();
  await within({ clock: systemClock, ms: drainMs }, closed).catch(() => connections.closeAll());
  await closed;
}

/** The metrics of a service's one listener. */
export class ListenerMetrics {
  /** Counts an answer; statuses and codes are closed sets. */
  readonly onAnswer: (status: number, code: ErrorCode | undefined) => void;
  #listener: Pick<RunningListener, "connections"> | undefined;

  /** Adds them; there are no connections yet. */
  constructor(metrics: Metrics) {
    const answers = metrics.counter(
      "http_server_responses_total",
      "Answers by status, and by the code of the fault that they tell of",
      ["status", "code"],
    );
    this.onAnswer = (status, code) => answers.inc({ status: String(status), code: code ?? "" });
    metrics.gauges(
      "http_server_connections",
      "Open connections, of peers that have identified themselves and of others",
      ["standing"],
      () => this.#counts("open"),
    );
    metrics.gauges(
      "http_server_connections_limit",
      "How many of them there may be; those of reserved callers have room beyond that",
      ["standing"],
      () => this.#counts("limits"),
    );
  }

  /** Begins to show the connections of a listener. */
  watch(listener: Pick<RunningListener, "connections">): void {
    this.#listener = listener;
  }

  #counts(of: "open" | "limits") {
    if (this.#listener === undefined) return [];
    const { known, strangers } = this.#listener.connections()[of];
    return [
      { labels: { standing: "known" }, value: known },
      { labels: { standing: "stranger" }, value: strangers },
    ];
  }
}

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
