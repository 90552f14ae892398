import { connect, isIPv6 } from "node:net";
import type { Duplex } from "node:stream";
import { within } from "@gateway/shared/clock";
import type { AppError } from "@gateway/shared/errors";
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
import {
  type CertificateLogin,
  type EphemeralKey,
  type HostPin,
  parseCertificateFor,
  parseHostPin,
  presentCertificate,
} from "./login.ts";
import { loadSsh2, type Ssh2Channel, type Ssh2Client, type Ssh2Library } from "./ssh2_library.ts";

export interface HopLogin {
  readonly name: string;
  /** `host:port` for a connection from the hop before. */
  readonly addr: string;
  /** The pinned host key, as a line of authorized_keys or known_hosts. */
  readonly hostKey: string;
  readonly user: string;
  readonly certificate: string;
  readonly key: EphemeralKey;
}

/** The outermost bastion first, the target last. */
export type HopLogins = readonly [HopLogin, ...HopLogin[]];

export interface SshConnection {
  readonly client: Ssh2Client;
  /** Aborted when the connection is lost. The reason is the cause. */
  readonly lost: AbortSignal;
  close(): Promise<void>;
}

interface Transport {
  readonly stream: Duplex;
  close(): Promise<void>;
}

interface HostAddress {
  readonly hostname: string;
  readonly port: number;
}

interface Leg {
  readonly address: HostAddress;
  readonly pin: HostPin;
  readonly login: CertificateLogin;
  readonly bastion: string | undefined;
}

/** Modern algorithms only, the fastest first. Compression is off. */
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

const ADDRESS = /^(?:\[(?<v6>[^\]]+)\]|(?<name>[^\s:\[\]]+)):(?<port>\d{1,5})$/;
const MAX_PORT = 65_535;
const CLOSE_MS = 1_000;
/** The reported originator. The bastion does not need our own address. */
const ORIGIN = "127.0.0.1";

/**
 * Connects to the last hop through all others: each hop is dialed from the one before, must show its own pinned key, and
 * gets its own certificate. No bastion can read the traffic that passes through it.
 * @returns the connection to the last hop. It is lost with any of the others, and closing it closes all
 * @throws {AppError} `upstream_failure` with a text that begins with `connection: `, or `canceled` when the signal
 * is aborted; nothing is left open then
 */
export async function connectRoute(hops: HopLogins, bounds: SshBounds): Promise<SshConnection> {
  const [first, ...others] = hops.map((hop, index) => parseHop(hop, index < hops.length - 1));
  if (first === undefined) throw new TypeError("A route has no hop");
  let reached = await extend(undefined, first, bounds);
  for (const leg of others) reached = await extend(reached, leg, bounds);
  return reached;
}

function parseHop({ name, addr, hostKey, user, certificate, key }: HopLogin, isBastion: boolean): Leg {
  const bastion = isBastion ? name : undefined;
  try {
    const login = { user, key, certificate: parseCertificateFor(key, certificate) };
    return { bastion, login, pin: parseHostPin(hostKey, name), address: parseHostAddress(addr) };
  } catch (error) {
    throw bastion === undefined ? error : atBastion(bastion, error);
  }
}

/** Parses `host:port`. An IPv6 address is in brackets. @throws {AppError} `upstream_failure` */
export function parseHostAddress(addr: string): HostAddress {
  const { v6, name, port: digits } = ADDRESS.exec(addr)?.groups ?? {};
  const hostname = v6 ?? name;
  const port = Number(digits);
  if (hostname !== undefined && (v6 !== undefined) === isIPv6(hostname) && port >= 1 && port <= MAX_PORT) {
    return { hostname, port };
  }
  const cause = new TypeError(`Not host:port: ${JSON.stringify(addr)}`);
  throw connectionFailure("host address is not host:port", cause);
}

async function extend(
  reached: SshConnection | undefined,
  leg: Leg,
  bounds: SshBounds,
): Promise<SshConnection> {
  const { address, bastion } = leg;
  try {
    const transport = reached === undefined
      ? await connectTcp(address, bounds)
      : await connectThrough(reached, address, bounds);
    const { client, lost, close } = await connectOver(transport, leg, { ...bounds, carrier: reached?.lost });
    if (reached === undefined) return { client, lost, close };
    return {
      client,
      lost: AbortSignal.any([lost, reached.lost]),
      close: () => close().then(() => reached.close()),
    };
  } catch (cause) {
    await reached?.close();
    const error = atAddress(address, cause);
    throw bastion === undefined ? error : atBastion(bastion, error);
  }
}

async function connectTcp(
  { hostname, port }: HostAddress,
  { clock, limits, signal }: SshBounds,
): Promise<Transport> {
  if (signal?.aborted) throw canceled("connection", signal.reason);
  // Without noDelay the second of two small packets waits for the host's delayed acknowledgement, some 40 ms.
  const socket = connect({ host: hostname, port, noDelay: true });
  try {
    await within(
      {
        clock,
        ms: limits.connectMs,
        late: () => connectionFailure("connect timeout", undefined, "timeout"),
        signal,
        aborted: (reason) => canceled("connection", reason),
      },
      new Promise<void>((resolve, reject) => {
        socket.once("connect", resolve);
        // This listener stays: an error event without a listener ends the process, even after the connection.
        socket.on("error", (error) => reject(socketFailure(error)));
      }),
    );
  } catch (error) {
    socket.destroy();
    throw error;
  }
  return {
    stream: socket,
    async close() {
      if (socket.closed) return;
      const closed = new Promise<void>((resolve) => socket.once("close", () => resolve()));
      // Sends the written bytes first, but does not wait for the host to close its side.
      socket.destroySoon();
      await within({ clock, ms: CLOSE_MS }, closed).catch(() => {});
      socket.destroy();
    },
  };
}

/** Requests a connection to an address from a bastion (`direct-tcpip`, RFC 4254 section 7.2). */
async function connectThrough(
  bastion: SshConnection,
  { hostname, port }: HostAddress,
  { clock, limits, signal }: SshBounds,
): Promise<Transport> {
  const opening = new Promise<Ssh2Channel>((resolve, reject) => {
    bastion.client.forwardOut(ORIGIN, 0, hostname, port, (error, channel) => {
      if (error !== undefined) return reject(error);
      channel.on("error", () => {});
      // A socket closes by itself. A channel would stay half open, and the loss of the host would not be
      // detected.
      channel.once("end", () => channel.close());
      resolve(channel);
    });
  }).catch((cause) => {
    throw forwardFailure(cause);
  });
  const lost = (cause: unknown) => connectionFailure("the bastion closed the connection", cause);
  // A channel that the bastion opens after this wait is closed with the connection to the bastion.
  const channel = await within({
    clock,
    ms: limits.channelMs,
    late: () =>
      connectionFailure("the bastion took too long to connect to the next host", undefined, "timeout"),
    ...endedBy("connection", signal, bastion.lost, lost),
  }, opening);
  return { stream: channel, close: () => Promise.resolve(channel.close()) };
}

/** Checks the pinned host key and logs in with the certificate. The transport is closed with the connection. */
async function connectOver(
  transport: Transport,
  leg: Leg,
  { clock, limits, signal, carrier }: SshBounds & { readonly carrier: AbortSignal | undefined },
): Promise<SshConnection> {
  const library = await loadSsh2();
  const client = new library.Client();
  const lost = new AbortController();
  // This listener stays: ssh2 reports errors after the end, too, and an error without a listener ends the process.
  client.on("error", (error) => lost.abort(error));
  client.on("close", () => lost.abort(new Error("The host closed the connection")));
  const close = async () => {
    client.end();
    await transport.close();
  };
  const carrierLost = (cause: unknown) =>
    connectionFailure("the host closed the connection in the SSH handshake", cause);
  try {
    await within({
      clock,
      ms: limits.handshakeMs,
      late: () => connectionFailure("SSH handshake timeout", undefined, "timeout"),
      ...endedBy("connection", signal, carrier, carrierLost),
    }, logIn(client, transport.stream, library, leg));
    return { client, lost: lost.signal, close };
  } catch (error) {
    await close();
    throw error;
  }
}

/** Resolves when the host has shown the pinned key and accepted the certificate. */
function logIn(client: Ssh2Client, sock: Duplex, library: Ssh2Library, { pin, login }: Leg): Promise<void> {
  return new Promise((resolve, reject) => {
    let hostKey: "unseen" | "pinned" | "other" = "unseen";
    let encrypted = false;
    client.on("error", (error) => reject(loginFailure(error, hostKey)));
    client.on("close", () => reject(closedEarly()));
    client.on("handshake", () => {
      encrypted = true;
    });
    client.on("ready", () => {
      // A host can send "success" at any time. It counts only after key exchange, pinned key and certificate.
      if (hostKey === "pinned" && encrypted && authentication.presented) resolve();
      else reject(connectionFailure("the host skipped authentication"));
    });
    client.connect({
      sock,
      username: login.user,
      readyTimeout: 0,
      algorithms: { ...ALGORITHMS, serverHostKey: pin.algorithms },
      hostVerifier: (key) => {
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
  if (level === "client-socket") return socketFailure(error);
  // These texts of ssh2 name only the kind of algorithm that the two sides do not share.
  const mismatch = level === "handshake" && /^Handshake failed: (no matching [\w >-]+)$/.exec(error.message);
  return connectionFailure(mismatch ? `SSH handshake failed: ${mismatch[1]}` : "SSH handshake failed", error);
}
