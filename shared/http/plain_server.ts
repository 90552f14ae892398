/**
 * An HTTP listener without TLS, for loopback, private interfaces and proxies that end TLS in front of it.
 *
 * Not `Deno.serve`, which tells nothing of its connections: whoever opens enough of them and is silent holds all
 * that the process may have open.
 *
 * ```ts ignore
 * import { startPlainServer } from "@gateway/shared/http";
 *
 * await using server = await startPlainServer({
 *   listen: "127.0.0.1:8080",
 *   handler: (request, { address }) => new Response(`${request.method} from ${address}\n`),
 *   onError: (error, requestId) => logger.error("request failed", { error, request_id: requestId }),
 * });
 * ```
 *
 * @module
 */
import {
  type ListenerOptions,
  type RunningListener,
  startListener,
  type UnknownPeer,
  UnknownPeers,
} from "./listener.ts";

export type { ConnectionCounts, ConnectionLimits } from "./connections.ts";
export type { ExchangeOptions } from "./exchange.ts";
export type { ListenerOptions, ListenerTimeouts, RunningListener } from "./listener.ts";
export type { UnknownPeer } from "./listener.ts";

/**
 * Starts the listener; resolves when it accepts connections. Long answers leave as the client takes them.
 *
 * @throws {AppError} `invalid_config` when the address cannot be used
 */
export function startPlainServer(options: ListenerOptions<UnknownPeer>): Promise<RunningListener> {
  return startListener({ isPaced: true, ...options }, new UnknownPeers(), undefined);
}
