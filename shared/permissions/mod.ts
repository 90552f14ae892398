/**
 * Deno permission sets derived from configs.
 *
 * @module
 */

export {
  addressPermissions,
  caKeyFiles,
  caKeyHolders,
  caKeyPermissions,
  filePermissions,
  isInNetwork,
  isNetwork,
  listenPermissions,
  NETWORK_FORMS,
  statePermissions,
  urlPermissions,
} from "./entries.ts";
export {
  formatFlags,
  formatJson,
  formatV8Flags,
  mergeSets,
  type PermissionSet,
  type RunOptions,
  type ServiceLocation,
} from "./set.ts";
