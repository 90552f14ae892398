/**
 * HTTP: listeners, clients, request bodies, problems, TLS files.
 *
 * @module
 */

export {
  JsonClient,
  type JsonClientOptions,
  type JsonClientRequest,
  type JsonClientResponse,
} from "./client.ts";
export { sourceOf, type TakeResult, TokenBuckets } from "./limits.ts";
export {
  callerFromCertificate,
  callerFromSignIn,
  ListenerMetrics,
  type ListenerOptions,
  type MtlsServer,
  type MtlsServerOptions,
  parseListenAddress,
  type Peer,
  type PeerHandler,
  startMtlsServer,
  startPlainServer,
  startTlsServer,
  type TlsServerOptions,
  type UnknownPeer,
} from "./listener.ts";
export { readBodyBytes, readJsonBody, requireJsonType } from "./messages.ts";
export {
  describeProblem,
  entityTagOf,
  type ErrorReply,
  isStrongEntityTag,
  namesEntityTag,
  problemResponse,
  readIfNoneMatch,
  readProblem,
} from "./problem.ts";
export type { RouteHandler } from "./routes.ts";
export {
  FRESH_SECONDS,
  keepFresh,
  keepListenerFresh,
  loadListenerTls,
  loadSignerTls,
  loadTlsKeyPair,
  loadTlsMaterial,
  parseDeniedCallers,
  type TlsMaterial,
} from "./tls_files.ts";
export {
  type JsonService,
  openUpstreams,
  type UpstreamClient,
  type Upstreams,
  UpstreamWatch,
} from "./upstreams.ts";
