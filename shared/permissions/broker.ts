/**
 * The exact permissions of a broker, from its config.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { brokerConfig } from "@gateway/shared/config/broker";
 * import { brokerPermissions } from "@gateway/shared/permissions/broker";
 *
 * const config = brokerConfig.parse({
 *   signer: { url: "https://127.0.0.1:9443", client_cert: "broker.crt", client_key: "broker.key", ca: "ca.crt" },
 *   audit_log: "log/audit.log",
 *   audit_key: "audit.seed",
 *   hosts: { web01: { addr: "10.0.0.5:22" } },
 * });
 * const location = { configPath: "config.json", workingFolder: "/srv" };
 * assert.deepEqual(brokerPermissions(config, { ...location, frontend: "serve-mcp" }).net, [
 *   "10.0.0.5:22",
 *   "127.0.0.1:9443",
 * ]);
 * ```
 *
 * @module
 */
import type { BrokerConfig } from "../config/broker.ts";
import { addressPermissions, listenPermissions, urlPermissions } from "./address.ts";
import { filePermissions } from "./audit_folder.ts";
import { mergeSets, type PermissionSet, type RunOptions } from "./set.ts";
import type { ServiceLocation } from "./signer.ts";

/** How agents reach a broker: HTTP with mTLS, or MCP over standard input and output. */
export const BROKER_FRONTENDS = ["serve-http", "serve-mcp"] as const;

/** One of {@linkcode BROKER_FRONTENDS}. */
export type BrokerFrontend = (typeof BROKER_FRONTENDS)[number];

/** Which broker is asked about. */
export interface BrokerLocation extends ServiceLocation {
  readonly frontend: BrokerFrontend;
}

/**
 * The files the config names, read-only; the audit log's folder; the signer; the listeners; the hosts. Over
 * stdio there is no listener, and the frontend's certificate is out of reach.
 *
 * The hosts' addresses come from the signer while the broker runs. When `hosts` in the config names some, the
 * process can connect to those and no other; when it is empty the process may connect to **any** address,
 * and what bounds a subverted broker is the network around it and that no host accepts it without a
 * certificate.
 *
 * @throws {AppError} `invalid_config` when the config names what no exact permission can be given for
 */
export function brokerPermissions(config: BrokerConfig, location: BrokerLocation): PermissionSet {
  const http = location.frontend === "serve-http";
  const hosts = Object.values(config.hosts);
  return mergeSets(
    filePermissions({
      workingFolder: location.workingFolder,
      auditLog: config.audit_log,
      files: {
        "the config": location.configPath,
        "signer.client_cert": config.signer.client_cert,
        "signer.client_key": config.signer.client_key,
        "signer.ca": config.signer.ca,
        audit_key: config.audit_key,
        ...(http && {
          server_cert: config.server_cert,
          server_key: config.server_key,
          client_ca: config.client_ca,
        }),
      },
    }),
    {
      net: [
        ...urlPermissions(config.signer.url),
        ...listenPermissions(config.monitor_listen),
        ...(http ? listenPermissions(config.listen) : []),
      ],
    },
    { net: hosts.length > 0 ? hosts.flatMap((host) => addressPermissions(host.addr)) : "any" },
    { ignoreEnv: "all" },
  );
}

/** How a broker is run: one over stdio stands idle beside every MCP client, and is kept small. */
export function brokerRunOptions(frontend: BrokerFrontend): RunOptions {
  return { semiSpaceMegabytes: frontend === "serve-mcp" ? 1 : 2 };
}
