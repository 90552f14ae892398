/**
 * Config files: loading, checking, editing, reference pages.
 *
 * @module
 */

export { appendToList, removeFromList, removeMember, setValue, type ValuePath } from "./edit.ts";
export { type ConfigKind, loadConfig, parseConfig, parseConfigSteps, readConfigText } from "./load.ts";
export { describeConfig } from "./reference.ts";
export {
  findUrlProblems,
  SIGNER_CLIENT_SHAPE,
  type SignerClientConfig,
  signerClientConfig,
  signerUrls,
} from "./signer_client.ts";
