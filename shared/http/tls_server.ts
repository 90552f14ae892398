/**
 * An HTTPS listener (TLS 1.3) that asks for no client certificate: who sends a request, its handler has to find
 * out from the request.
 *
 * ```ts ignore
 * import { startTlsServer } from "@gateway/shared/http";
 *
 * await using server = await startTlsServer({
 *   listen: "127.0.0.1:8443",
 *   cert,
 *   key,
 *   handler: (request) => new Response(`${request.method}\n`),
 *   onError: (error, requestId) => logger.error("request failed", { error, request_id: requestId }),
 * });
 * ```
 *
 * @module
 */
import {
  type RunningTlsListener,
  startListener,
  type TlsServerOptions,
  type UnknownPeer,
  UnknownPeers,
} from "./listener.ts";

export type { ConnectionCounts, ConnectionLimits } from "./connections.ts";
export type { ExchangeOptions } from "./exchange.ts";
export type {
  ListenerOptions,
  ListenerTimeouts,
  RunningListener,
  RunningTlsListener,
  TlsCredentials,
  TlsServerOptions,
} from "./listener.ts";
export type { UnknownPeer } from "./listener.ts";

/**
 * Starts the listener; resolves when it accepts connections. Long answers leave as the client takes them.
 *
 * @throws {AppError} `invalid_config` when the address, the certificate or the key cannot be used
 */
export function startTlsServer(options: TlsServerOptions<UnknownPeer>): Promise<RunningTlsListener> {
  const { cert, key } = options;
  return startListener({ isPaced: true, ...options }, new UnknownPeers(), { cert, key });
}
