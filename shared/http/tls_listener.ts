/**
 * The HTTPS listener under `mtls_server` and `tls_server`: TLS 1.3, HTTP/1.1, bounded in time and number.
 *
 * @module
 */
import { createServer, type Server } from "node:https";
import type { Socket } from "node:net";
import { systemClock } from "../clock.ts";
import { AppError } from "../errors.ts";
import { Connections } from "./connections.ts";
import { type ExchangeOptions, Exchanges, type Peers } from "./exchange.ts";
import { type ListenAddress, parseListenAddress } from "./listen_address.ts";
import { checkTlsIdentity } from "./tls_identity.ts";
import { within } from "../within.ts";

/** What every HTTPS listener needs. */
export interface TlsServerOptions<Peer> extends ExchangeOptions<Peer> {
  /** `host:port`, as in the config. */
  readonly listen: string;
  /** The listener's certificate chain, PEM. */
  readonly cert: string;
  /** Its private key, PEM. */
  readonly key: string;
  /** Connections at a time, default 1024; one more is closed at once. */
  readonly maxConnections?: number;
  /** Other limits than the defaults of {@linkcode TlsTimeouts}. */
  readonly timeouts?: Partial<TlsTimeouts>;
}

/** How long a client may take, in milliseconds. */
export interface TlsTimeouts {
  /** For the TLS handshake, and for the headers of a request; default 10 s. */
  readonly headersMs: number;
  /** For a whole request with its body; default 10 s. */
  readonly requestMs: number;
  /** Between two requests; default 60 s. */
  readonly idleMs: number;
  /** For the requests that are under way when the listener closes; default 10 s. */
  readonly drainMs: number;
}

/** A running listener. */
export interface TlsServer extends AsyncDisposable {
  /** Where it listens, with the port that the system chose for port 0. */
  readonly address: ListenAddress;
  /** Stops accepting, lets running requests finish within the drain time, then closes what is left. */
  close(): Promise<void>;
}

const DEFAULT_TIMEOUTS: TlsTimeouts = {
  headersMs: 10_000,
  requestMs: 10_000,
  idleMs: 60_000,
  drainMs: 10_000,
};
const MAX_HEADER_BYTES = 16_384;

/**
 * Starts a listener; resolves when it accepts connections.
 *
 * @param clientCa the CAs that sign peers' certificates, PEM; `undefined`: peers are asked for none
 * @throws {AppError} `invalid_config` when the address, the certificate, the key or the CA cannot be used
 */
export async function startListener<Peer>(
  options: TlsServerOptions<Peer>,
  peers: Peers<Peer>,
  clientCa: string | undefined,
): Promise<TlsServer> {
  const timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts };
  const { hostname, port } = parseListenAddress(options.listen);
  const { cert, key } = options;
  checkTlsIdentity({ cert, key, ...(clientCa === undefined ? {} : { ca: clientCa }) });
  const connections = new Connections();
  const exchanges = new Exchanges(options, { connections, peers });
  const server = createTlsServer({ cert, key, clientCa }, timeouts);
  server.maxConnections = options.maxConnections ?? 1024;
  server.on("secureConnection", (socket) => {
    connections.secure(socket);
    exchanges.begin(socket);
  });
  server.on("request", (message, outgoing) => {
    if (connections.begin(message.socket, outgoing)) void exchanges.answer(message, outgoing);
  });
  server.on("clientError", (error, socket) => exchanges.refuse(error, socket));
  server.on("connection", (socket: Socket) => connections.add(socket));
  await listen(server, { hostname, port }, options.listen);
  // Such as too many open files: without a listener the error would end the process.
  server.on("error", (error) => options.onError(error, crypto.randomUUID()));
  const address = server.address();
  const close = () => closeServer(server, connections, timeouts.drainMs);
  return {
    address: { hostname, port: typeof address === "object" ? address?.port ?? port : port },
    close,
    [Symbol.asyncDispose]: close,
  };
}

interface TlsCredentials {
  readonly cert: string;
  readonly key: string;
  readonly clientCa: string | undefined;
}

function createTlsServer({ cert, key, clientCa }: TlsCredentials, timeouts: TlsTimeouts): Server {
  return createServer({
    cert,
    key,
    // Whoever shows no good certificate is told so by an HTTP answer, not by a broken handshake.
    ...(clientCa === undefined ? {} : { ca: clientCa, requestCert: true, rejectUnauthorized: false }),
    minVersion: "TLSv1.3",
    ALPNProtocols: ["http/1.1"],
    handshakeTimeout: timeouts.headersMs,
    headersTimeout: timeouts.headersMs,
    requestTimeout: timeouts.requestMs,
    keepAliveTimeout: timeouts.idleMs,
    connectionsCheckingInterval: Math.min(1000, timeouts.headersMs),
    maxHeaderSize: MAX_HEADER_BYTES,
  });
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
