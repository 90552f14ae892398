/**
 * CA keys and certificate issuance: key files, ssh-agent, Azure Key Vault.
 *
 * @module
 */

export type { CaKey } from "./custody.ts";
export { type IssuedCertificate, issueUserCertificate } from "./issue.ts";
export { type CaKeyPorts, loadCaKeys } from "./load.ts";
export {
  type AgentCaKeyConfig,
  type AkvCaKeyConfig,
  CA_KEY_TYPES,
  type CaKeyConfig,
  caKeyConfig,
  type CaKeyRing,
  planCaKeys,
  selectCaKey,
} from "./model.ts";
