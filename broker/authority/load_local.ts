import { loadCaKeys } from "@gateway/shared/ca";
import { connectClusters, loadClusterFiles } from "@gateway/shared/kubernetes";
import {
  type CompiledPolicy,
  compilePolicy,
  describeUnconnectable,
  findInertPolicies,
} from "@gateway/shared/policy";
import { finish } from "@gateway/shared/clock";
import { type BrokerConfig, localPolicy, type LocalPolicyConfig } from "../config/config.ts";
import { LOCAL_CALLER, LocalAuthority } from "./local.ts";
import { LocalClusters } from "./local_clusters.ts";
import type { AuthorityPorts, OpenWith } from "./authority.ts";
import { AppError } from "@gateway/shared/errors";

/**
 * Loads the CA keys and compiles the policy of a broker in local mode.
 *
 * @throws {AppError} `invalid_config`
 */
export async function loadLocal(config: BrokerConfig, ports: AuthorityPorts): Promise<OpenWith> {
  const { clock, random, logger, readEnv } = ports;
  // Before keys are loaded: a broken policy is told at once.
  const policy = compileLocalPolicy(config);
  const cas = await loadClusterFiles(policy.clusters);
  const caKeys = await loadCaKeys(config, { what: "broker config", clock, readEnv });
  if ([caKeys.fallback, ...caKeys.byGroup.values()].some(({ backend }) => backend === "pem")) {
    logger.warn(
      "Lab use only: a CA key is a file that the process which talks to agents can read; " +
        "production keeps it in a signer, an agent or a vault",
    );
  }
  for (const path of finish(findInertPolicies(config))) {
    logger.warn(`${path}: mode is "off", so that its allow and deny patterns have no effect`);
  }
  for (const warning of describeUnconnectable(localPolicy(config).hosts)) logger.warn(warning);
  return (events) => {
    const api = connectClusters({ clock });
    const clusters = new LocalClusters({ policy, cas, api, clock, random, events, caller: LOCAL_CALLER });
    return {
      authority: new LocalAuthority({ policy, caKeys, clusters, clock, random, events }),
      signer: undefined,
      upstream: undefined,
      close: () => api.close(),
    };
  };
}

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
