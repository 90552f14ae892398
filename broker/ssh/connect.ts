import type { Duplex } from "node:stream";
import type { AppError } from "@gateway/shared/errors";
import { within } from "@gateway/shared/clock";
import { type CertificateLogin, presentCertificate } from "./certificate_auth.ts";
import { closedEarly, connectionFailure, socketFailure } from "./failures.ts";
import type { HostPin } from "./host_pin.ts";
import { endedBy, type SshBounds } from "./limits.ts";
import { loadSsh2, type Ssh2Client } from "./ssh2_library.ts";

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

/** What SSH is spoken over: a socket, or a channel through another connection. */
export interface Transport {
  readonly stream: Duplex;
  /** Ends it after what has been written to it, and resolves when it is gone. */
  close(): Promise<void>;
}

/** Who the host has to be, and as whom to log in. */
export interface ConnectOptions extends SshBounds {
  readonly pin: HostPin;
  readonly login: CertificateLogin;
  /** Aborted when what carries the transport is gone. */
  readonly carrierLost: AbortSignal | undefined;
}

export interface SshConnection {
  readonly client: Ssh2Client;
  /** Aborted when the connection is gone; the reason says why. */
  readonly lost: AbortSignal;
  /** Ends the connection, and resolves when its socket is closed. */
  close(): Promise<void>;
}

/**
 * Checks that the host at the other end of a transport shows the pinned key, and logs in with the certificate.
 * The transport is closed with the connection, also with one that does not come about.
 *
 * @throws {AppError} `upstream_failure`, or `canceled` when the signal is aborted; nothing is left open then
 */
export async function connectOver(transport: Transport, options: ConnectOptions): Promise<SshConnection> {
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
