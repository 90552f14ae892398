/**
 * Kubernetes API: requests, tokens, clusters, masking of Secrets.
 *
 * @module
 */

export { type ApiAnswer, faultOf, readConflicts, readMessage } from "./api_answer.ts";
export { type ApiOutcome, type ApiRequest, ApiServer } from "./api_server.ts";
export { type ClusterAddress, type ClusterApi, connectClusters, loadClusterFiles } from "./cluster_api.ts";
export { maskObject, maskText } from "./secrets.ts";
export {
  type BoundSecret,
  type IssuedToken,
  readToken,
  type TokenHolder,
  tokenPath,
  tokenRequest,
  type TokenWish,
} from "./token_request.ts";
