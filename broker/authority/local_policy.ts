import { AppError } from "@gateway/shared/errors";
import { type CompiledPolicy, compilePolicy } from "@gateway/shared/policy";
import { localPolicy, type LocalPolicyConfig } from "../config/config.ts";

/**
 * The policy of a broker in local mode, compiled by the same code as the signer's.
 *
 * @throws {AppError} `invalid_config` with every problem, one a line
 */
export function compileLocalPolicy(config: LocalPolicyConfig): CompiledPolicy {
  const compiled = compilePolicy(localPolicy(config));
  if (compiled.kind === "ok") return compiled.policy;
  throw new AppError("invalid_config", `Cannot use broker config: ${compiled.problems.join("\n  ")}`);
}
