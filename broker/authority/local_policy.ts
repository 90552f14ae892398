import { AppError } from "@gateway/shared/errors";
import { type CompiledPolicy, compilePolicy } from "@gateway/shared/policy/compile";
import type { HostPolicy } from "@gateway/shared/policy/model";
import type { BrokerConfig } from "../config.ts";
import type { BrokerHost } from "../host_config.ts";

/** The part of the config that is the policy in local mode. */
export type LocalPolicyConfig = Pick<
  BrokerConfig,
  | "hosts"
  | "kubernetes"
  | "command_policies"
  | "group_command_policies"
  | "max_ttl_seconds"
  | "source_address"
>;

/**
 * The policy of a broker in local mode, compiled by the same code as the signer's. There is one caller, so there
 * is no callers table.
 *
 * @throws {AppError} `invalid_config` with every problem, one a line
 */
export function compileLocalPolicy(config: LocalPolicyConfig): CompiledPolicy {
  const { command_policies, group_command_policies, max_ttl_seconds, source_address } = config;
  const bastions = new Set(Object.values(config.hosts).map(({ jump = "" }) => jump));
  const hosts = Object.fromEntries(
    Object.entries(config.hosts).map(([name, host]) => [
      name,
      toHostPolicy(host, { sourceAddress: source_address, isJump: bastions.has(name) }),
    ]),
  );
  const compiled = compilePolicy({
    hosts,
    callers: {},
    command_policies,
    group_command_policies,
    max_ttl_seconds,
    ...(config.kubernetes !== undefined && { kubernetes: config.kubernetes }),
  });
  if (compiled.kind === "ok") return compiled.policy;
  throw new AppError("invalid_config", `Cannot use broker config: ${compiled.problems.join("\n  ")}`);
}

function toHostPolicy(
  host: BrokerHost,
  { sourceAddress, isJump }: { readonly sourceAddress: string; readonly isJump: boolean },
): HostPolicy {
  const { user = "", host_key = "", source_address = "", allow_as_bastion = false } = host;
  return {
    ...host,
    user,
    host_key,
    source_address: source_address === "" ? sourceAddress : source_address,
    allow_as_bastion: allow_as_bastion || isJump,
  };
}
