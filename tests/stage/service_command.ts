import { brokerConfig, UNSUPPORTED_BROKER_KEYS } from "@gateway/broker/config";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { loadConfig } from "@gateway/shared/config";
import { signerConfig, UNSUPPORTED_SIGNER_KEYS } from "@gateway/signer/config";
import { type BrokerFrontend, brokerPermissions, brokerRunOptions } from "@gateway/broker/permissions";
import { controlPlanePermissions } from "@gateway/control-plane/permissions";
import { formatFlags, type PermissionSet } from "@gateway/shared/permissions";
import { SIGNER_RUN_OPTIONS, signerPermissions } from "@gateway/signer/permissions";

/** The root directory of the workspace. */
export const ROOT = new URL("../../", import.meta.url).pathname;

/** Environment that `ctl/start.sh` sets for every service. */
export const START_ENV: Readonly<Record<string, string>> = { MALLOC_ARENA_MAX: "2" };

/** Command of one service, with its permissions and its monitor. */
export interface ServiceCommand {
  readonly name: "signer" | "control-plane" | BrokerFrontend;
  readonly permissions: PermissionSet;
  readonly args: readonly string[];
  /** Environment variables in addition to those of this process. */
  readonly env?: Readonly<Record<string, string>>;
  /** `host:port` of the monitor listener; empty if there is none. */
  readonly monitor: string;
}

/** Returns the command with which packages start the service: from a bundle, without a cache. */
export function fromBundles(command: ServiceCommand, bundles: string): ServiceCommand {
  const args = command.args.map((word) => {
    const [, folder] = /^(.*)\/main\.ts$/.exec(word.startsWith(ROOT) ? word.slice(ROOT.length) : "") ?? [];
    return folder === undefined ? word : `${bundles}/${folder}/main.js`;
  });
  return { ...command, args, env: { ...command.env, DENO_DIR: "/dev/null/none" } };
}

/** Returns the command of a signer under the exact permissions that its config needs. */
export async function signerCommand(configPath: string): Promise<ServiceCommand> {
  const config = await loadConfig({
    path: configPath,
    what: "signer config",
    schema: signerConfig,
    unsupported: UNSUPPORTED_SIGNER_KEYS,
  });
  const permissions = signerPermissions(config, { configPath, workingFolder: ROOT });
  return {
    name: "signer",
    permissions,
    args: [
      "run",
      ...formatFlags(permissions, SIGNER_RUN_OPTIONS),
      `${ROOT}signer/main.ts`,
      "--config",
      configPath,
    ],
    env: START_ENV,
    monitor: config.monitor_listen,
  };
}

/** Returns the command of a control plane under the exact permissions that its config needs. */
export async function controlPlaneCommand(configPath: string): Promise<ServiceCommand> {
  const config = await loadConfig({
    path: configPath,
    what: "control plane config",
    schema: controlPlaneConfig,
  });
  const permissions = controlPlanePermissions(config, { configPath, workingFolder: ROOT });
  return {
    name: "control-plane",
    permissions,
    args: ["run", ...formatFlags(permissions), `${ROOT}control_plane/main.ts`, "--config", configPath],
    env: START_ENV,
    monitor: config.monitor_listen,
  };
}

/** Returns the command of a broker under the exact permissions that its config needs. */
export async function brokerCommand(configPath: string, frontend: BrokerFrontend): Promise<ServiceCommand> {
  const config = await loadConfig({
    path: configPath,
    what: "broker config",
    schema: brokerConfig,
    unsupported: UNSUPPORTED_BROKER_KEYS,
  });
  const permissions = brokerPermissions(config, { configPath, workingFolder: ROOT, frontend });
  return {
    name: frontend,
    permissions,
    args: [
      "run",
      ...formatFlags(permissions, brokerRunOptions(frontend)),
      `${ROOT}broker/main.ts`,
      frontend,
      "--config",
      configPath,
    ],
    env: START_ENV,
    monitor: config.monitor_listen,
  };
}
