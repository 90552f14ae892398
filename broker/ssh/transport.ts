import { connect, isIPv6, type Socket } from "node:net";
import type { Duplex } from "node:stream";
import { type Clock, within } from "@gateway/shared/clock";
import { canceled, connectionFailure, forwardFailure, socketFailure } from "./failures.ts";
import { endedBy, type SshBounds } from "./limits.ts";
import type { Ssh2Channel, Ssh2Client } from "./ssh2_library.ts";

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
