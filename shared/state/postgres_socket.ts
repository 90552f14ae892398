/**
 * A connected socket to a PostgreSQL server, with TLS where it is wanted.
 *
 * @module
 */
import { createConnection, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";
import type { PostgresHost } from "./postgres_url.ts";

/** What asks a server for TLS (PostgreSQL documentation, "Message Formats": SSLRequest). */
const SSL_REQUEST = new Uint8Array([0, 0, 0, 8, 4, 210, 22, 47]);
const YES = "S".charCodeAt(0);

/** What a {@linkcode connectSocket} needs beside the server's address. */
export interface SocketOptions {
  /** CAs for TLS, PEM; `undefined`: those of the machine. */
  readonly ca: string | undefined;
  /** Aborted when there was time enough. */
  readonly signal: AbortSignal;
}

/** @throws when there is no connection, or no TLS with a certificate for the host's name */
export async function connectSocket(host: PostgresHost, { ca, signal }: SocketOptions): Promise<Socket> {
  signal.throwIfAborted();
  const socket = host.kind === "socket"
    ? createConnection({ path: host.path })
    : createConnection({ host: host.hostname, port: host.port });
  const abort = () => void socket.destroy(new Error("it does not answer"));
  signal.addEventListener("abort", abort, { once: true });
  try {
    await event(socket, "connect");
    if (host.kind === "socket" || !host.tls) return socket;
    return await upgrade(socket, host.hostname, ca);
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

async function upgrade(socket: Socket, hostname: string, ca: string | undefined): Promise<Socket> {
  const answer = new Promise<Uint8Array>((resolve, reject) => {
    socket.once("data", resolve);
    socket.once("error", reject);
    socket.once("close", () => reject(new Error("it closes the connection")));
  });
  socket.write(SSL_REQUEST);
  const bytes = await answer;
  // More than the one letter would be words of somebody in between, to be taken for the server's under TLS.
  if (bytes.length !== 1 || bytes[0] !== YES) throw new Error("it has no TLS");
  socket.removeAllListeners();
  const secure = connectTls({
    socket,
    host: hostname,
    // For an address there is none, and the certificate is checked for the address.
    ...(isIP(hostname) === 0 && { servername: hostname }),
    minVersion: "TLSv1.3",
    ...(ca !== undefined && { ca }),
  });
  await event(secure, "secureConnect");
  if (!secure.authorized) throw new Error("its certificate is not valid for its name");
  return secure;
}

/** Rejects with the error of the socket, also where it just closes. */
function event(socket: Socket, name: "connect" | "secureConnect"): Promise<void> {
  return new Promise((resolve, reject) => {
    const close = () => reject(new Error("it closes the connection"));
    socket.once("error", reject);
    socket.once("close", close);
    socket.once(name, () => {
      socket.removeListener("error", reject);
      socket.removeListener("close", close);
      resolve();
    });
  });
}
