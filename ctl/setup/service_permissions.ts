import { resolve } from "node:path";
import { type BrokerFrontend, brokerPermissions, brokerRunOptions } from "@gateway/broker/permissions";
import { controlPlanePermissions } from "@gateway/control-plane/permissions";
import { loadConfig } from "@gateway/shared/config";
import { formatFlags } from "@gateway/shared/permissions";
import { SIGNER_RUN_OPTIONS, signerPermissions } from "@gateway/signer/permissions";
import { CONFIG_KINDS } from "../kit/signer_file.ts";
import { invalid } from "../kit/output.ts";

export const SERVICES = ["signer", "control-plane", "broker"] as const;

type Service = (typeof SERVICES)[number];

/** Loads a service's config and derives the permissions of its process. */
export async function derivePermissions({ service, configPath, workingFolder, frontend }: {
  readonly service: Service;
  readonly configPath: string;
  readonly workingFolder: string;
  readonly frontend: BrokerFrontend;
}) {
  const path = resolve(workingFolder, configPath);
  const location = { configPath: path, workingFolder, frontend };
  if (service === "control-plane") {
    const set = controlPlanePermissions(await loadConfig({ path, ...CONFIG_KINDS.controlPlane }), location);
    return { set, flags: formatFlags(set) };
  }
  if (service === "broker") {
    const set = brokerPermissions(await loadConfig({ path, ...CONFIG_KINDS.broker }), location);
    return { set, flags: formatFlags(set, brokerRunOptions(frontend)) };
  }
  const set = signerPermissions(await loadConfig({ path, ...CONFIG_KINDS.signer }), location);
  return { set, flags: formatFlags(set, SIGNER_RUN_OPTIONS) };
}

interface Target {
  readonly service: Service;
  readonly frontend?: BrokerFrontend;
  readonly config: string;
}

export const TARGETS: Readonly<Record<Service | "mcp" | "mcp-http", Target>> = {
  signer: { service: "signer", config: "signer.json" },
  "control-plane": { service: "control-plane", config: "control-plane.json" },
  broker: { service: "broker", frontend: "serve-http", config: "config.json" },
  mcp: { service: "broker", frontend: "serve-mcp", config: "config.json" },
  "mcp-http": { service: "broker", frontend: "serve-mcp-http", config: "config.json" },
};

export type StartRequest = ReturnType<typeof parseStart>;

const CONFIG = /^--?config(?:=(?<value>.*))?$/s;

/** Reads `<signer|control-plane|broker|mcp|mcp-http> [--config file] [arguments of the service]`. */
export function parseStart(args: readonly string[]) {
  const [target = "", ...others] = args;
  if (!Object.hasOwn(TARGETS, target)) {
    throw invalid(
      `Cannot start ${JSON.stringify(target)}: expected signer, control-plane, broker, mcp or mcp-http`,
    );
  }
  const { config, ...request } = TARGETS[target as keyof typeof TARGETS];
  const configs: string[] = [];
  const rest: string[] = [];
  for (let index = 0; index < others.length; index++) {
    const arg = others[index] ?? "";
    const match = CONFIG.exec(arg);
    if (match === null) rest.push(arg);
    else configs.push(match.groups?.["value"] ?? others[++index] ?? "");
  }
  if (configs.includes("") || configs.length > 1) {
    throw invalid("Cannot start a service: --config needs one file");
  }
  return { ...request, config: configs[0] ?? config, rest };
}
