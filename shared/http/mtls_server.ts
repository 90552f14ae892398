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
import { createServer, type Server } from "node:https";
import type { Socket } from "node:net";
import { AppError } from "../errors.ts";
import { Connections } from "./connections.ts";
import { type ExchangeOptions, Exchanges } from "./exchange.ts";
import { type ListenAddress, parseListenAddress } from "./listen_address.ts";
import { checkTlsIdentity } from "./tls_identity.ts";

export type { Peer, PeerHandler } from "./exchange.ts";

/** What {@linkcode startMtlsServer} needs. */
export interface MtlsServerOptions extends ExchangeOptions {
  /** `host:port`, as in the config. */
  readonly listen: string;
  /** The listener's certificate chain, PEM. */
  readonly cert: string;
  /** Its private key, PEM. */
  readonly key: string;
  /** The CAs that sign callers' certificates, PEM. */
  readonly clientCa: string;
  /** Connections at a time, default 1024; one more is closed at once. */
  readonly maxConnections?: number;
  readonly timeouts?: Partial<MtlsTimeouts>;
}

/** How long a client may take, in milliseconds. */
export interface MtlsTimeouts {
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
export interface MtlsServer extends AsyncDisposable {
  /** Where it listens, with the port that the system chose for port 0. */
  readonly address: ListenAddress;
  /** Stops accepting, lets running requests finish within the drain time, then closes what is left. */
  close(): Promise<void>;
}

const DEFAULT_TIMEOUTS: MtlsTimeouts = {
  headersMs: 10_000,
  requestMs: 10_000,
  idleMs: 60_000,
  drainMs: 10_000,
};
const MAX_HEADER_BYTES = 16_384;

/**
 * Starts the listener; resolves when it accepts connections.
 *
 * @throws {AppError} `invalid_config` when the address, the certificate, the key or the CA cannot be used
 */
export async function startMtlsServer(options: MtlsServerOptions): Promise<MtlsServer> {
  const timeouts = { ...DEFAULT_TIMEOUTS, ...options.timeouts };
  const { hostname, port } = parseListenAddress(options.listen);
  checkTlsIdentity({ cert: options.cert, key: options.key, ca: options.clientCa });
  const exchanges = new Exchanges(options);
  const connections = new Connections();
  const server = createTlsServer(options, timeouts);
  server.maxConnections = options.maxConnections ?? 1024;
  server.on("secureConnection", (socket) => exchanges.begin(socket));
  server.on("request", (message, outgoing) => {
    connections.begin(message.socket, outgoing);
    void exchanges.answer(message, outgoing);
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

function createTlsServer(options: MtlsServerOptions, timeouts: MtlsTimeouts): Server {
  return createServer({
    cert: options.cert,
    key: options.key,
    ca: options.clientCa,
    requestCert: true,
    rejectUnauthorized: false,
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

function closeServer(server: Server, connections: Connections, drainMs: number): Promise<void> {
  return new Promise((resolve) => {
    const timer = setTimeout(() => connections.closeAll(), drainMs);
    server.close(() => {
      clearTimeout(timer);
      resolve();
    });
    connections.closeIdle();
  });
}
