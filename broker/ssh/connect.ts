import type { Duplex } from "node:stream";
import type { AppError } from "@gateway/shared/errors";
import { type Clock, within } from "@gateway/shared/clock";
import {
  type CertificateLogin,
  type EphemeralKey,
  type HostPin,
  parseCertificateFor,
  parseHostPin,
  presentCertificate,
} from "./login.ts";
import {
  atAddress,
  atBastion,
  canceled,
  closedEarly,
  connectionFailure,
  endedBy,
  forwardFailure,
  socketFailure,
  type SshBounds,
} from "./failures.ts";
import { loadSsh2, type Ssh2Channel, type Ssh2Client } from "./ssh2_library.ts";
import { connect, isIPv6, type Socket } from "node:net";

/** Modern algorithms only, the fastest first; compression is off. */
const ALGORITHMS = {
  kex: [
    "curve25519-sha256",
    "curve25519-sha256@libssh.org",
    "ecdh-sha2-nistp256",
    "ecdh-sha2-nistp384",
    "diffie-hellman-group16-sha512",
    "diffie-hellman-group14-sha256",
  ],
  cipher: ["aes128-gcm@openssh.com", "aes256-gcm@openssh.com", "aes256-ctr", "aes128-ctr"],
  hmac: ["hmac-sha2-256-etm@openssh.com", "hmac-sha2-512-etm@openssh.com", "hmac-sha2-256", "hmac-sha2-512"],
  compress: ["none"],
} as const;

/** Who the host has to be, and as whom to log in. */
interface ConnectOptions extends SshBounds {
  readonly pin: HostPin;
  readonly login: CertificateLogin;
  /** Aborted when what carries the transport is gone. */
  readonly carrierLost: AbortSignal | undefined;
}

/**
 * Checks that the host at the other end of a transport shows the pinned key, and logs in with the certificate.
 * The transport is closed with the connection, also with one that does not come about.
 *
 * @throws {AppError} `upstream_failure`, or `canceled` when the signal is aborted; nothing is left open then
 */
async function connectOver(transport: Transport, options: ConnectOptions): Promise<SshConnection> {
  const { clock, limits, signal, carrierLost } = options;
  const library = await loadSsh2();
  const client = new library.Client();
  const lost = watchLoss(client);
  const close = async () => {
    client.end();
    await transport.close();
  };
  try {
    await within({
      clock,
      ms: limits.handshakeMs,
      late: () => connectionFailure("SSH handshake timeout", undefined, "timeout"),
      ...endedBy(
        "connection",
        signal,
        carrierLost,
        (cause) => connectionFailure("the host closed the connection in the SSH handshake", cause),
      ),
    }, logIn(client, transport.stream, library, options));
    return { client, lost, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Resolves once the host is the pinned one and has accepted the certificate. */
function logIn(
  client: Ssh2Client,
  stream: Duplex,
  library: Awaited<ReturnType<typeof loadSsh2>>,
  { pin, login }: ConnectOptions,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let hostKey: "unseen" | "pinned" | "other" = "unseen";
    let encrypted = false;
    client.on("error", (error) => reject(loginFailure(error, hostKey)));
    client.on("close", () => reject(closedEarly()));
    client.on("handshake", () => {
      encrypted = true;
    });
    client.on("ready", () => {
      // A host can send "success" at any time; it counts only after what has to go before it.
      if (hostKey === "pinned" && encrypted && authentication.presented) resolve();
      else reject(connectionFailure("the host skipped authentication"));
    });
    client.connect({
      sock: stream,
      username: login.user,
      readyTimeout: 0,
      algorithms: {
        kex: [...ALGORITHMS.kex],
        cipher: [...ALGORITHMS.cipher],
        hmac: [...ALGORITHMS.hmac],
        compress: [...ALGORITHMS.compress],
        serverHostKey: [...pin.algorithms],
      },
      hostVerifier: (key: Uint8Array) => {
        hostKey = pin.matches(key) ? "pinned" : "other";
        return hostKey === "pinned";
      },
      authHandler: (_methodsLeft, _partialSuccess, next) => {
        if (authentication.presented) {
          const text = "the host refused the certificate";
          return reject(connectionFailure(text, undefined, "certificate refused"));
        }
        if (!encrypted) return reject(connectionFailure("the host skipped the key exchange"));
        next({ type: "none", username: login.user });
      },
    });
    const authentication = presentCertificate(client, library, login);
  });
}

function loginFailure(error: Error, hostKey: "unseen" | "pinned" | "other"): AppError {
  if (hostKey === "other") return connectionFailure("host key mismatch", error, "host key");
  const isReset = "code" in error && (error.code === "ECONNRESET" || error.code === "EPIPE");
  if (error.message === "Connection lost before handshake" || (hostKey === "unseen" && isReset)) {
    return closedEarly(error);
  }
  const level = "level" in error ? error.level : undefined;
  switch (level) {
    case "client-socket":
      return socketFailure(error);
    case "handshake":
      // These texts of ssh2 say which algorithm the two sides do not have in common, and no more.
      return connectionFailure(
        /^Handshake failed: no matching [\w >-]+$/.test(error.message)
          ? `SSH handshake failed: ${error.message.slice("Handshake failed: ".length)}`
          : "SSH handshake failed",
        error,
      );
    default:
      return connectionFailure("SSH handshake failed", error);
  }
}

function watchLoss(client: Ssh2Client): AbortSignal {
  const controller = new AbortController();
  // This listener stays: ssh2 reports errors after the end, too, and one without a listener ends the process.
  client.on("error", (error) => controller.abort(error));
  client.on("close", () => controller.abort(new Error("The host closed the connection")));
  return controller.signal;
}

/** One host on the way, and what it takes to log in to it. */
export interface HopLogin {
  /** The logical name, for error texts. */
  readonly name: string;
  /** `host:port`, as the host before it is to reach it */
  readonly addr: string;
  /** The pinned host key, as a line of authorized_keys or known_hosts. */
  readonly hostKey: string;
  readonly user: string;
  /** The certificate for `key`, as a line. */
  readonly certificate: string;
  readonly key: EphemeralKey;
}

/** The outermost bastion first, the target last. */
export type HopLogins = readonly [HopLogin, ...HopLogin[]];

/**
 * Connects to the last of the hops through all the others: each is dialled by the one before it, shows its own
 * pinned key and is logged in to with its own certificate, and no bastion can read what passes through it.
 *
 * @returns the connection to the last one; it is lost with any of the others, and closing it closes all
 * @throws {AppError} `upstream_failure` with a text that begins with `connection: `, or `canceled` when the signal
 * is aborted; nothing is left open then
 */
export async function connectRoute(hops: HopLogins, bounds: SshBounds): Promise<SshConnection> {
  // Whatever is wrong with any of them is known before the first connection.
  const [first, ...others] = legsOf(hops);
  let reached = await extend(undefined, first, bounds);
  for (const leg of others) reached = await extend(reached, leg, bounds);
  return reached;
}

/** A hop whose texts have been read. */
interface Leg extends Pick<ConnectOptions, "pin" | "login"> {
  readonly address: HostAddress;
  /** The bastion's name; `undefined` for the target. */
  readonly bastion: string | undefined;
}

function legsOf([first, ...others]: HopLogins): readonly [Leg, ...Leg[]] {
  const isTarget = (index: number) => index === others.length;
  return [readLeg(first, isTarget(0)), ...others.map((hop, index) => readLeg(hop, isTarget(index + 1)))];
}

function readLeg(hop: HopLogin, isTarget: boolean): Leg {
  const { user, key } = hop;
  const bastion = isTarget ? undefined : hop.name;
  try {
    const certificate = parseCertificateFor(key, hop.certificate);
    return {
      bastion,
      pin: parseHostPin(hop.hostKey, hop.name),
      address: parseHostAddress(hop.addr),
      login: { user, key, certificate },
    };
  } catch (error) {
    throw bastion === undefined ? error : atBastion(bastion, error);
  }
}

/** Goes one hop further. When that fails, what has been reached is closed. */
async function extend(
  reached: SshConnection | undefined,
  { address, pin, login, bastion }: Leg,
  bounds: SshBounds,
): Promise<SshConnection> {
  try {
    const transport = reached === undefined
      ? await connectTcp(address, bounds)
      : await connectThrough(reached, address, bounds);
    const connection = await connectOver(transport, { ...bounds, pin, login, carrierLost: reached?.lost });
    return reached === undefined ? connection : carriedBy(reached, connection);
  } catch (cause) {
    await reached?.close();
    const error = atAddress(address, cause);
    throw bastion === undefined ? error : atBastion(bastion, error);
  }
}

function carriedBy(carrier: SshConnection, { client, lost, close }: SshConnection): SshConnection {
  return {
    client,
    lost: AbortSignal.any([lost, carrier.lost]),
    async close() {
      await close();
      await carrier.close();
    },
  };
}

/** What SSH is spoken over: a socket, or a channel through another connection. */
export interface Transport {
  readonly stream: Duplex;
  /** Ends it after what has been written to it, and resolves when it is gone. */
  close(): Promise<void>;
}

export interface SshConnection {
  readonly client: Ssh2Client;
  /** Aborted when the connection is gone; the reason says why. */
  readonly lost: AbortSignal;
  /** Ends the connection, and resolves when its socket is closed. */
  close(): Promise<void>;
}

const ADDRESS = /^(?:\[(?<v6>[^\]]+)\]|(?<name>[^\s:\[\]]+)):(?<port>\d{1,5})$/;
const MAX_PORT = 65_535;

/** How long closing may take before the socket is dropped. */
const CLOSE_MS = 1_000;

export interface HostAddress {
  readonly hostname: string;
  readonly port: number;
}

/**
 * Reads `host:port`; an IPv6 address is in brackets.
 *
 * @throws {AppError} `upstream_failure`
 */
export function parseHostAddress(addr: string): HostAddress {
  const groups = ADDRESS.exec(addr)?.groups;
  const hostname = groups?.["v6"] ?? groups?.["name"];
  const port = Number(groups?.["port"]);
  const bracketed = groups?.["v6"] !== undefined;
  if (hostname === undefined || bracketed !== isIPv6(hostname) || !(port >= 1 && port <= MAX_PORT)) {
    throw connectionFailure(
      "host address is not host:port",
      new TypeError(`Not host:port: ${JSON.stringify(addr)}`),
    );
  }
  return { hostname, port };
}

/**
 * Connects a TCP socket. Whoever gets it has to close it.
 *
 * @throws {AppError} `upstream_failure`, or `canceled` when the signal is aborted
 */
export async function connectTcp(
  address: HostAddress,
  { clock, limits, signal }: SshBounds,
): Promise<Transport> {
  if (signal?.aborted) throw canceled("connection", signal.reason);
  // Without noDelay the second of two small packets waits for the host's delayed acknowledgement, some 40 ms.
  const socket = connect({ host: address.hostname, port: address.port, noDelay: true });
  try {
    await within({
      clock,
      ms: limits.connectMs,
      late: () => connectionFailure("connect timeout", undefined, "timeout"),
      signal,
      aborted: (reason) => canceled("connection", reason),
    }, connected(socket));
    return { stream: socket, close: () => closeSocket(socket, clock) };
  } catch (error) {
    socket.destroy();
    throw error;
  }
}

function connected(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.once("connect", resolve);
    // This listener stays: an error event that nobody listens to ends the process, also when all is over.
    socket.on("error", (error) => reject(socketFailure(error)));
  });
}

async function closeSocket(socket: Socket, clock: Clock): Promise<void> {
  if (socket.closed) return;
  const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
  // What was written goes out first, but nobody waits for the host to close its side.
  socket.destroySoon();
  await within({ clock, ms: CLOSE_MS }, closed).catch(() => {});
  socket.destroy();
}

/**
 * Has a bastion connect to an address (`direct-tcpip`, RFC 4254 section 7.2).
 *
 * @throws {AppError} `upstream_failure`, or `canceled` when the signal is aborted. A channel that the bastion opens
 * after that is closed with the connection to it, which is the caller's to close
 */
export async function connectThrough(
  bastion: SshConnection,
  address: HostAddress,
  { clock, limits, signal }: SshBounds,
): Promise<Transport> {
  const opening = new Promise<Ssh2Channel>((resolve, reject) => {
    bastion.client.forwardOut(ORIGIN, 0, address.hostname, address.port, (error, channel) => {
      if (error !== undefined) return reject(error);
      channel.on("error", () => {});
      // A socket does so by itself. A channel would stay half open, and the loss of the host unnoticed.
      channel.once("end", () => channel.close());
      resolve(channel);
    });
  }).catch((cause) => {
    throw forwardFailure(cause);
  });
  const channel = await within({
    clock,
    ms: limits.channelMs,
    late: () =>
      connectionFailure("the bastion took too long to connect to the next host", undefined, "timeout"),
    ...endedBy(
      "connection",
      signal,
      bastion.lost,
      (cause) => connectionFailure("the bastion closed the connection", cause),
    ),
  }, opening);
  return {
    stream: channel,
    close() {
      channel.close();
      return Promise.resolve();
    },
  };
}

/** The originator that is reported; the bastion does not need it, and our own address does not concern it. */
const ORIGIN = "127.0.0.1";
