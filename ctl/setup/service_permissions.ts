import { resolve } from "node:path";
import { brokerConfig, UNSUPPORTED_BROKER_KEYS } from "@gateway/broker/config";
import { controlPlaneConfig } from "@gateway/control-plane/config";
import { loadConfig } from "@gateway/shared/config";
import { signerConfig, UNSUPPORTED_SIGNER_KEYS } from "@gateway/signer/config";
import { type BrokerFrontend, brokerPermissions, brokerRunOptions } from "@gateway/broker/permissions";
import { controlPlanePermissions } from "@gateway/control-plane/permissions";
import { formatFlags, type PermissionSet } from "@gateway/shared/permissions";
import { SIGNER_RUN_OPTIONS, signerPermissions } from "@gateway/signer/permissions";

/** The services whose permissions can be derived. */
export const SERVICES = ["signer", "control-plane", "broker"] as const;

/** One of {@linkcode SERVICES}. */
export type Service = (typeof SERVICES)[number];

export interface ServiceProcess {
  readonly service: Service;
  /** The config file; relative to `workingFolder` when not absolute. */
  readonly configPath: string;
  readonly workingFolder: string;
  /** How agents reach the broker; unused for the others. */
  readonly frontend: BrokerFrontend;
}

/**
 * Loads a service's config and derives what its process may do.
 *
 * @throws {AppError} `invalid_config` when the config is broken
 */
export async function derivePermissions(
  process: ServiceProcess,
): Promise<{ readonly set: PermissionSet; readonly flags: readonly string[] }> {
  const path = resolve(process.workingFolder, process.configPath);
  const location = { ...process, configPath: path };
  switch (process.service) {
    case "signer": {
      const kind = { what: "signer config", schema: signerConfig, unsupported: UNSUPPORTED_SIGNER_KEYS };
      const set = signerPermissions(await loadConfig({ path, ...kind }), location);
      return { set, flags: formatFlags(set, SIGNER_RUN_OPTIONS) };
    }
    case "control-plane": {
      const kind = { what: "control plane config", schema: controlPlaneConfig };
      const set = controlPlanePermissions(await loadConfig({ path, ...kind }), location);
      return { set, flags: formatFlags(set) };
    }
    case "broker": {
      const kind = { what: "broker config", schema: brokerConfig, unsupported: UNSUPPORTED_BROKER_KEYS };
      const set = brokerPermissions(await loadConfig({ path, ...kind }), location);
      return { set, flags: formatFlags(set, brokerRunOptions(process.frontend)) };
    }
    default:
      return process.service satisfies never;
  }
}

/** The member of the workspace that a service is. */
export function memberOf(service: Service): string {
  return service.replaceAll("-", "_");
}
