/**
 * An HTTPS listener (TLS 1.3) that asks for no client certificate: who sends a request, its handler has to find
 * out from the request.
 *
 * ```ts ignore
 * import { startTlsServer } from "@gateway/shared/http/tls_server";
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
import { startListener, type TlsServer, type TlsServerOptions } from "./tls_listener.ts";

export type { TlsServer, TlsServerOptions } from "./tls_listener.ts";

/** A peer of whom nothing is known. */
export type UnknownPeer = undefined;

const UNKNOWN_PEERS = { begin: () => {}, identify: (): UnknownPeer => undefined };

/**
 * Starts the listener; resolves when it accepts connections. Long answers leave as the client takes them.
 *
 * @throws {AppError} `invalid_config` when the address, the certificate or the key cannot be used
 */
export function startTlsServer(options: TlsServerOptions<UnknownPeer>): Promise<TlsServer> {
  return startListener({ isPaced: true, ...options }, UNKNOWN_PEERS, undefined);
}
