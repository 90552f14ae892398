/**
 * Kubernetes API: requests, tokens, clusters, masking of Secrets.
 *
 * @module
 */

export {
  type ApiAnswer,
  type ApiOutcome,
  type ApiRequest,
  ApiServer,
  faultOf,
  readConflicts,
  readMessage,
} from "./api_server.ts";
export {
  type BoundSecret,
  type ClusterAddress,
  type ClusterApi,
  connectClusters,
  type IssuedToken,
  loadClusterFiles,
  readToken,
  type TokenHolder,
  tokenPath,
  tokenRequest,
  type TokenWish,
} from "./cluster_api.ts";
export { maskObject, maskText } from "./secrets.ts";
