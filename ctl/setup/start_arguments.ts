import { AppError } from "@gateway/shared/errors";
import type { BrokerFrontend } from "@gateway/broker/permissions";
import type { Service } from "./service_permissions.ts";

export interface StartRequest {
  readonly service: Service;
  readonly frontend?: BrokerFrontend;
  readonly config: string;
  /** What is passed on to the service. */
  readonly rest: readonly string[];
}

const TARGETS = {
  signer: { service: "signer", config: "signer.json" },
  "control-plane": { service: "control-plane", config: "control-plane.json" },
  broker: { service: "broker", frontend: "serve-http", config: "config.json" },
  mcp: { service: "broker", frontend: "serve-mcp", config: "config.json" },
  "mcp-http": { service: "broker", frontend: "serve-mcp-http", config: "config.json" },
} as const;

const CONFIG = /^--?config(?:=(?<value>.*))?$/s;

/**
 * Reads `<signer|control-plane|broker|mcp|mcp-http> [--config file] [what the service is to be told]`.
 *
 * @throws {AppError} `invalid_request` for another target, or a config that is missing or given twice
 */
export function parseStart(args: readonly string[]): StartRequest {
  const [target = "", ...others] = args;
  if (!Object.hasOwn(TARGETS, target)) {
    throw new AppError(
      "invalid_request",
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
    throw new AppError("invalid_request", "Cannot start a service: --config wants one file");
  }
  return { ...request, config: configs[0] ?? config, rest };
}
