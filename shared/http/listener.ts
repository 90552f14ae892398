/**
 * Listeners: HTTP/1.1 with or without TLS 1.3, bounded in time and number. A listener with mutual TLS
 * completes the handshake with every client, so that a client without a valid certificate gets an HTTP
 * response (401) instead of a broken connection.
 *
 * `Deno.serve` is not used, because it does not report its connections: a client could hold all file handles
 * unnoticed.
 *
 * @module
 */
import { createServer as createHttpServer } from "node:http";
import { createServer } from "node:https";
import type { Socket } from "node:net";
import type { Duplex } from "node:stream";
import { TLSSocket } from "node:tls";
import { systemClock, within } from "../clock.ts";
import { AppError, configError, type ErrorCode } from "../errors.ts";
import type { Metrics } from "../service/metrics.ts";
import { hasInvisible } from "../text.ts";
import { type Authenticator, Connections, type DispatchOptions, RequestDispatcher } from "./connections.ts";
import { type ConnectionCounts, type ConnectionLimits, DEFAULT_LIMITS, type PeerStatus } from "./limits.ts";
import { checkTlsIdentity } from "./tls_files.ts";

/** The options of every listener. */
export interface ListenerOptions<Peer> extends DispatchOptions<Peer> {
  readonly listen: string;
  readonly limits?: Partial<ConnectionLimits>;
  readonly timeouts?: Partial<typeof TIMEOUTS>;
}

/** PEM texts. Without `clientCa`, the listener requests no client certificate. */
interface TlsCredentials {
  readonly cert: string;
  readonly key: string;
  readonly clientCa?: string;
}

/** The options of a listener with TLS. */
export type TlsServerOptions<Peer> = ListenerOptions<Peer> & TlsCredentials;

/** A listener that accepts connections. */
export interface RunningListener extends AsyncDisposable {
  readonly address: { readonly hostname: string; readonly port: number };
  readonly connections: () => Readonly<Record<"open" | "limits", ConnectionCounts>>;
  /**
   * Uses new credentials for new connections. If the CAs change, open connections end after their current
   * responses.
   *
   * @throws {AppError} `invalid_config` if the credentials are invalid: the previous ones stay in use
   */
  renew(tls: TlsCredentials): void;
  /** Stops accepting connections, waits for open requests within a time limit, then closes everything. */
  close(): Promise<void>;
}

/** The time limits for a client, in milliseconds. */
const TIMEOUTS: Readonly<Record<`${"identify" | "headers" | "request" | "idle" | "drain"}Ms`, number>> = {
  // The time from the start of a connection, including the TLS handshake, to a known identity or the first
  // headers.
  identifyMs: 5_000,
  headersMs: 10_000,
  // The time for a request with its body.
  requestMs: 10_000,
  // The time between two requests.
  idleMs: 60_000,
  // The time for open requests when the listener closes.
  drainMs: 10_000,
};
const MAX_HEADER_BYTES = 16_384;
const ADDRESS = /^(?:\[([0-9A-Fa-f:.]+(?:%[\w.-]+)?)\]|([\w.-]*)):(\d{1,5})$/;

/**
 * Parses `host:port`. Without a host (`:9443`) it means every IPv4 address. An IPv6 address needs brackets.
 *
 * @throws {AppError} `invalid_config`
 */
export function parseListenAddress(text: string): { readonly hostname: string; readonly port: number } {
  const match = ADDRESS.exec(text);
  const port = Number(match?.[3]);
  if (match === null || port > 65535) {
    throw configError(`Cannot use listen address ${JSON.stringify(text)}: expected host:port`);
  }
  return { hostname: match[1] ?? (match[2] || "0.0.0.0"), port };
}

async function startListener<Peer>(
  options: ListenerOptions<Peer>,
  authenticator: Authenticator<Peer>,
  tls: TlsCredentials | undefined,
): Promise<RunningListener> {
  const { identifyMs, headersMs, requestMs, idleMs, drainMs } = { ...TIMEOUTS, ...options.timeouts };
  const { hostname, port } = parseListenAddress(options.listen);
  const limits = { ...DEFAULT_LIMITS, ...options.limits };
  const connections = new Connections(limits, identifyMs);
  const dispatcher = new RequestDispatcher(options, connections, authenticator);
  const bounds = {
    headersTimeout: headersMs,
    requestTimeout: requestMs,
    keepAliveTimeout: idleMs,
    connectionsCheckingInterval: Math.min(1000, headersMs),
    maxHeaderSize: MAX_HEADER_BYTES,
  };
  const secure = tls && createServer({
    ...bounds,
    ...secureContext(tls),
    ...(tls.clientCa === undefined ? {} : { requestCert: true, rejectUnauthorized: false }),
    ALPNProtocols: ["http/1.1"],
  });
  const server = secure ?? createHttpServer(bounds);
  server.on("secureConnection", (socket) => dispatcher.begin(socket));
  server.on("request", (message, outgoing) => {
    if (connections.beginRequest(message.socket, outgoing)) void dispatcher.answer(message, outgoing);
  });
  server.on("clientError", (error, socket) => dispatcher.refuse(error, socket));
  server.on("connection", (socket: Socket) => {
    connections.add(socket);
    if (secure === undefined) dispatcher.begin(socket);
  });
  await new Promise<void>((resolve, reject) => {
    server.once("error", (cause) => {
      const isUsed = "code" in cause && cause.code === "EADDRINUSE";
      const problem = isUsed ? "another process uses this address; find it with ss -ltnp" : cause.message;
      reject(configError(`Cannot listen on ${options.listen}: ${problem}`, cause));
    });
    server.listen(port, hostname, resolve);
  });
  // Without a listener, an error such as too many open files would end the process.
  server.on("error", (error) => options.onError(error, crypto.randomUUID()));
  const address = server.address();
  const close = async () => {
    const closed = new Promise<void>((resolve) => server.close(() => resolve()));
    connections.closeIdle();
    await within({ clock: systemClock, ms: drainMs }, closed).catch(() => connections.closeAll());
    await closed;
  };
  let clientCa = tls?.clientCa;
  return {
    address: { hostname, port: typeof address === "object" ? address?.port ?? port : port },
    connections: () => ({ open: connections.counts, limits }),
    renew(next) {
      if (secure === undefined) throw new TypeError("a listener without TLS");
      secure.setSecureContext(secureContext(next));
      if (next.clientCa === clientCa) return;
      clientCa = next.clientCa;
      connections.retire();
      authenticator.forget?.();
    },
    close,
    [Symbol.asyncDispose]: close,
  };
}

function secureContext({ cert, key, clientCa }: TlsCredentials) {
  const ca = clientCa === undefined ? {} : { ca: clientCa };
  checkTlsIdentity({ cert, key, ...ca });
  return { cert, key, ...ca, minVersion: "TLSv1.3" } as const;
}

/** A client known by its address only. */
export interface UnknownPeer {
  readonly address: string;
  /**
   * Call it when a request has authenticated its sender. The connection then stays open, unless the limit is
   * reached. Otherwise it ends after the first response. The limit is shared fairly between names.
   */
  readonly trust: (name?: string) => void;
}

function addressAuthenticator(): Authenticator<UnknownPeer> {
  const addresses = new WeakMap<Duplex, string>();
  return {
    begin(socket) {
      addresses.set(socket, socket.remoteAddress ?? "");
      return { kind: "unauthenticated" };
    },
    identify: (socket, connections) => ({
      address: addresses.get(socket) ?? "",
      trust: (name) => connections.trust(socket, name),
    }),
  };
}

/**
 * Starts a listener without TLS, for loopback, private interfaces and TLS proxies. Long responses are sent in pieces.
 *
 * @throws {AppError} `invalid_config` if the address cannot be used
 */
export function startPlainServer(options: ListenerOptions<UnknownPeer>): Promise<RunningListener> {
  return startListener({ isPaced: true, ...options }, addressAuthenticator(), undefined);
}

/**
 * Starts a TLS listener that requests no client certificate. Long responses are sent in pieces.
 *
 * @throws {AppError} `invalid_config` if the address, the certificate or the key cannot be used
 */
export function startTlsServer(options: TlsServerOptions<UnknownPeer>): Promise<RunningListener> {
  const { cert, key } = options;
  return startListener({ isPaced: true, ...options }, addressAuthenticator(), { cert, key });
}

/** The caller's identity: the verified common name of a client certificate, or the name of a verified sign-in. */
type CallerCn = string & { readonly __brand: "CallerCn" };

/** A caller with a verified identity. */
export interface Peer {
  readonly caller: CallerCn;
}

/** Answers a request of a caller. Its errors become problem responses. */
export type PeerHandler = DispatchOptions<Peer>["handler"];

/** The options of a listener with mutual TLS. */
export interface MtlsServerOptions extends TlsServerOptions<Peer> {
  readonly clientCa: string;
  /** Whether a caller can use the reserved connections. */
  readonly isReserved?: (caller: CallerCn) => boolean;
  readonly denied?: ReadonlySet<string>;
}

/** A listener with mutual TLS. */
export interface MtlsServer extends RunningListener {
  /** Replaces the list of rejected callers. Their connections end immediately. */
  deny(callers: ReadonlySet<string>): void;
}

/**
 * Starts a listener with mutual TLS 1.3.
 *
 * @throws {AppError} `invalid_config` if the address, the certificate, the key or the CA cannot be used
 */
export async function startMtlsServer(options: MtlsServerOptions): Promise<MtlsServer> {
  const authenticator = new CertificateAuthenticator(options);
  const listener = await startListener(options, authenticator, options);
  return { ...listener, deny: (callers) => authenticator.deny(callers) };
}

/**
 * The caller's name; `undefined` if it is unverified (`node:tls` also shows subjects of unverified certificates) or
 * ambiguous (a subject with several CNs is an array).
 */
export function callerFromCertificate(authorized: boolean, commonName: unknown): CallerCn | undefined {
  if (!authorized || typeof commonName !== "string" || commonName === "" || hasInvisible(commonName)) {
    return undefined;
  }
  return commonName as CallerCn;
}

/** The caller's name after a verified sign-in; `undefined` if it has invisible characters. */
export function callerFromSignIn(name: string): CallerCn | undefined {
  return callerFromCertificate(true, name);
}

/**
 * The maximum number of remembered certificates. It exceeds the number of TLS sessions that a listener
 * remembers.
 */
const MAX_VERIFIED = 10_000;

interface Identity extends Peer {
  /** Milliseconds since the epoch. Needed because a connection can outlive its certificate. */
  readonly validUntil: number;
}

class CertificateAuthenticator implements Authenticator<Peer> {
  readonly #isReserved: (caller: CallerCn) => boolean;
  #denied: ReadonlySet<string>;
  readonly #open = new Map<Socket, CallerCn>();
  #identities = new WeakMap<Duplex, Identity>();
  /** SHA-256 fingerprints of certificates that passed a full handshake, the least recently used first. */
  readonly #verified = new Set<string>();
  /** The reasons of failed handshakes that the runtime does not report. */
  readonly #faults = new WeakMap<Duplex, string>();

  constructor({ isReserved = () => false, denied = new Set() }: MtlsServerOptions) {
    this.#isReserved = isReserved;
    this.#denied = denied;
  }

  deny(callers: ReadonlySet<string>): void {
    this.#denied = callers;
    for (const [socket, caller] of this.#open) if (callers.has(caller)) socket.destroy();
  }

  /** Forgets all certificates, because a resumed TLS session proves nothing under other CAs. */
  forget(): void {
    this.#verified.clear();
    this.#identities = new WeakMap();
  }

  begin(socket: Socket): PeerStatus {
    if (!(socket instanceof TLSSocket)) return { kind: "unauthenticated" };
    const certificate = socket.getPeerCertificate();
    const identity = this.#verify(socket, certificate);
    if (identity === undefined) {
      const fault = faultOf(certificate);
      if (fault !== undefined) this.#faults.set(socket, fault);
      return { kind: "unauthenticated" };
    }
    const { caller } = identity;
    this.#identities.set(socket, identity);
    this.#open.set(socket, caller);
    socket.on("close", () => this.#open.delete(socket));
    if (this.#denied.has(caller)) return { kind: "unauthenticated" };
    return { kind: this.#isReserved(caller) ? "reserved" : "authenticated", name: caller };
  }

  #verify(socket: TLSSocket, certificate: Certificate): Identity | undefined {
    const { subject, fingerprint256, valid_to } = certificate;
    const caller = callerFromCertificate(socket.authorized === true, subject?.CN);
    const validUntil = Date.parse(valid_to);
    if (caller === undefined || Number.isNaN(validUntil) || !fingerprint256) return undefined;
    // A resumed session does not verify the certificate again.
    if (!this.#verified.delete(fingerprint256) && socket.isSessionReused() !== false) return undefined;
    this.#verified.add(fingerprint256);
    const [oldest = ""] = this.#verified;
    if (this.#verified.size > MAX_VERIFIED) this.#verified.delete(oldest);
    return { caller, validUntil };
  }

  identify(socket: Duplex): Peer {
    const identity = this.#identities.get(socket);
    const isAuthorized = socket instanceof TLSSocket && socket.authorized === true;
    let fault: string | undefined;
    if (!isAuthorized || identity === undefined) {
      fault = this.#faults.get(socket) ?? "A valid client certificate with one common name is required";
    } else if (identity.validUntil < Date.now()) fault = describeExpiry(identity.validUntil);
    else if (this.#denied.has(identity.caller)) fault = "The certificate of this caller was revoked";
    else return { caller: identity.caller };
    throw new AppError("unauthenticated", fault);
  }
}

type Certificate = ReturnType<TLSSocket["getPeerCertificate"]>;

function faultOf(certificate: Certificate): string | undefined {
  const end = Date.parse(certificate?.valid_to);
  if (end < Date.now()) return describeExpiry(end);
  const { raw } = certificate ?? {};
  // RFC 5280 section 4.1: Certificate and tbsCertificate are sequences, and only versions 2 and 3 begin with [0].
  const content = (at: number) => at + 2 + ((raw?.[at + 1] ?? 0) > 0x80 ? (raw?.[at + 1] ?? 0) & 0x7f : 0);
  if (raw === undefined || raw[content(content(0))] === 0xa0) return undefined;
  return "The client certificate is X.509 version 1: issue it as version 3, for instance with an extendedKeyUsage";
}

function describeExpiry(end: number): string {
  return `The client certificate expired at ${new Date(end).toISOString()}: renew it`;
}

/** The metrics of a service's listeners, added up. */
export class ListenerMetrics {
  /** Counts a response. Statuses and codes are closed sets. */
  readonly onAnswer: (status: number, code: ErrorCode | undefined) => void;
  readonly #listeners: Pick<RunningListener, "connections">[] = [];

  /** Adds the metrics. No connections are counted before {@linkcode watch}. */
  constructor(metrics: Metrics) {
    const answers = metrics.counter(
      "http_server_responses_total",
      "HTTP responses by status and error code",
      ["status", "code"],
    );
    this.onAnswer = (status, code) => answers.inc({ status: String(status), code: code ?? "" });
    const show = (of: "open" | "limits") => () => {
      const counts = this.#listeners.map((listener) => listener.connections()[of]);
      return counts.length === 0 ? [] : (["authenticated", "unauthenticated"] as const).map((peer) => ({
        labels: { peer },
        value: counts.reduce((sum, each) => sum + each[peer], 0),
      }));
    };
    metrics.gauges(
      "http_server_connections",
      "Open connections, by whether the peer is authenticated",
      ["peer"],
      show("open"),
    );
    metrics.gauges(
      "http_server_connections_limit",
      "Limit of open connections, without connections reserved for operators",
      ["peer"],
      show("limits"),
    );
  }

  /** Begins to show the connections of a listener. */
  watch(listener: Pick<RunningListener, "connections">): void {
    this.#listeners.push(listener);
  }
}
