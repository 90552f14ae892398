/**
 * The exact permissions of a signer, from its config.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { signerConfig } from "@gateway/shared/config/signer";
 * import { signerPermissions } from "@gateway/shared/permissions/signer";
 *
 * const config = signerConfig.parse({
 *   listen: "127.0.0.1:9443",
 *   server_cert: "pki/signer.crt",
 *   server_key: "pki/signer.key",
 *   client_ca: "pki/mtls_ca.crt",
 *   ca_key: "pki/ssh_ca",
 *   audit_log: "log/audit.log",
 *   audit_key: "audit.seed",
 * });
 * const set = signerPermissions(config, { configPath: "signer.json", workingFolder: "/srv" });
 * assert.deepEqual(set.net, ["127.0.0.1:9443"]);
 * assert.deepEqual(set.write, ["/srv/log"]);
 * ```
 *
 * @module
 */
import type { SignerConfig } from "../config/signer.ts";
import { listenPermissions } from "./address.ts";
import { filePermissions } from "./audit_folder.ts";
import { mergeSets, type PermissionSet } from "./set.ts";

/** Where a service's config file lies, and where its relative paths start. */
export interface ServiceLocation {
  /** The config file; relative to `workingFolder` when not absolute. */
  readonly configPath: string;
  /** The absolute working folder of the process. */
  readonly workingFolder: string;
}

/**
 * The files the config names, read-only; the audit log's folder; the listeners. No outbound connection, no
 * child process, no environment.
 *
 * @throws {AppError} `invalid_config` when the config names what no exact permission can be given for
 */
export function signerPermissions(config: SignerConfig, location: ServiceLocation): PermissionSet {
  return mergeSets(
    filePermissions({
      workingFolder: location.workingFolder,
      auditLog: config.audit_log,
      files: {
        "the config": location.configPath,
        server_cert: config.server_cert,
        server_key: config.server_key,
        client_ca: config.client_ca,
        ca_key: config.ca_key,
        audit_key: config.audit_key,
      },
    }),
    { net: [...listenPermissions(config.listen), ...listenPermissions(config.monitor_listen)] },
    { ignoreEnv: "all" },
  );
}
