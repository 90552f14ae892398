import { connect, isIPv6, type Socket } from "node:net";
import { canceled, connectionFailure, socketFailure } from "./failures.ts";
import type { SshLimits } from "./limits.ts";
import { waitFor } from "./phase.ts";

const ADDRESS = /^(?:\[(?<v6>[^\]]+)\]|(?<name>[^\s:\[\]]+)):(?<port>\d{1,5})$/;
const MAX_PORT = 65_535;

/** Where to connect to. */
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
 * Connects a TCP socket. Whoever gets it has to destroy it.
 *
 * @throws {AppError} `upstream_failure`, or `canceled` when the signal is aborted
 */
export async function connectTcp(
  address: HostAddress,
  limits: SshLimits,
  signal: AbortSignal | undefined,
): Promise<Socket> {
  if (signal?.aborted) throw canceled("connection", signal.reason);
  // Without noDelay the second of two small packets waits for the host's delayed acknowledgement, some 40 ms.
  const socket = connect({ host: address.hostname, port: address.port, noDelay: true });
  try {
    await waitFor(connected(socket), {
      milliseconds: limits.connectMs,
      onTimeout: () => connectionFailure("connect timeout"),
      stops: [{ signal, onAbort: (reason) => canceled("connection", reason) }],
    });
    return socket;
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
