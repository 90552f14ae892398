/**
 * HTTP: mTLS listeners, clients, bodies, problems, routes, TLS material.
 *
 * @module
 */

export { readBodyBytes, readJsonBody, requireJsonType } from "./body.ts";
export { callerFromCertificate, parseDeniedCallers } from "./caller.ts";
export { entityTagOf, isStrongEntityTag, namesEntityTag, readIfNoneMatch } from "./entity_tag.ts";
export {
  JsonClient,
  type JsonClientOptions,
  type JsonClientRequest,
  type JsonClientResponse,
} from "./json_client.ts";
export { FRESH_SECONDS, keepFresh, keepListenerFresh } from "./keep_fresh.ts";
export { parseListenAddress } from "./listen_address.ts";
export {
  ListenerMetrics,
  type ListenerOptions,
  type TlsServerOptions,
  type UnknownPeer,
} from "./listener.ts";
export type { Monitor } from "./monitor.ts";
export {
  type MtlsServer,
  type MtlsServerOptions,
  type Peer,
  type PeerHandler,
  startMtlsServer,
} from "./mtls_server.ts";
export { startPlainServer } from "./plain_server.ts";
export { describeProblem, type ErrorReply, problemResponse, readProblem, STATUS } from "./problem.ts";
export type { RouteHandler } from "./routes.ts";
export {
  loadListenerTls,
  loadSignerTls,
  loadTlsKeyPair,
  loadTlsMaterial,
  type TlsMaterial,
} from "./tls_material.ts";
export { startTlsServer } from "./tls_server.ts";
export { type TakeResult, TokenBuckets } from "./token_bucket.ts";
export { type UpstreamClient, UpstreamWatch } from "./upstream.ts";
export { type JsonService, openUpstreams, type Upstreams } from "./upstreams.ts";
