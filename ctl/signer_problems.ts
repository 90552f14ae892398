import { findPolicyProblems } from "@gateway/shared/policy";
import { findHostsWithoutKey, findMisplacedHosts, type SignerConfig } from "@gateway/signer/config";

/** Why the signer would not load a config whose keys are well-formed, each with the path of its key. */
export function findSignerProblems(config: SignerConfig): readonly string[] {
  const misplaced = findMisplacedHosts(config);
  return [
    ...findPolicyProblems(config),
    ...findHostsWithoutKey(config),
    ...misplaced === undefined ? [] : [misplaced],
  ];
}
