import type { Duplex } from "node:stream";
import type { AppError } from "@gateway/shared/errors";
import { within } from "@gateway/shared/clock";
import {
  type CertificateLogin,
  type EphemeralKey,
  parseCertificateFor,
  presentCertificate,
} from "./certificate_auth.ts";
import { atAddress, atBastion, closedEarly, connectionFailure, socketFailure } from "./failures.ts";
import { type HostPin, parseHostPin } from "./host_pin.ts";
import { endedBy, type SshBounds } from "./limits.ts";
import { loadSsh2, type Ssh2Client } from "./ssh2_library.ts";
import {
  connectTcp,
  connectThrough,
  type HostAddress,
  parseHostAddress,
  type SshConnection,
  type Transport,
} from "./transport.ts";

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
