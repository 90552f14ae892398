/**
 * CA keys and certificate issuance: key files, ssh-agent, Azure Key Vault.
 *
 * @module
 */

export {
  type CaKey,
  type CaKeyRing,
  type IssuedCertificate,
  issueUserCertificate,
  selectCaKey,
} from "./issue.ts";
export { type CaKeyPorts, loadCaKeys } from "./load.ts";
export {
  type AgentCaKeyConfig,
  type AkvCaKeyConfig,
  CA_KEY_TYPES,
  type CaKeyConfig,
  caKeyConfig,
  planCaKeys,
} from "./model.ts";
