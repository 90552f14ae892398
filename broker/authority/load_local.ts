import { loadCaKeys } from "@gateway/shared/ca";
import { connectClusters, loadClusterFiles } from "@gateway/shared/kubernetes";
import { describeUnconnectable, findInertPolicies } from "@gateway/shared/policy";
import { finish } from "@gateway/shared/clock";
import { type BrokerConfig, localPolicy } from "../config/config.ts";
import { LOCAL_CALLER, LocalAuthority } from "./local.ts";
import { LocalClusters } from "./local_clusters.ts";
import { compileLocalPolicy } from "./local_policy.ts";
import type { AuthorityPorts, OpenWith } from "./open_authority.ts";

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
