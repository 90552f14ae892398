/**
 * The exact permissions of a control plane, from its config.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { controlPlaneConfig } from "@gateway/control-plane/config";
 * import { controlPlanePermissions } from "@gateway/control-plane/permissions";
 *
 * const config = controlPlaneConfig.parse({
 *   listen: "127.0.0.1:7443",
 *   server_cert: "cp.crt",
 *   server_key: "cp.key",
 *   client_ca: "ca.crt",
 *   signer: { url: "https://127.0.0.1:9443", client_cert: "client.crt", client_key: "client.key", ca: "ca.crt" },
 *   audit_log: "log/audit.log",
 *   audit_key: "audit.seed",
 * });
 * const set = controlPlanePermissions(config, { configPath: "control-plane.json", workingFolder: "/srv" });
 * assert.deepEqual(set.net, ["127.0.0.1:7443", "127.0.0.1:9443"]);
 * assert.deepEqual(set.write, ["/srv/log"]);
 * ```
 *
 * @module
 */
import { signerUrls } from "@gateway/shared/config";
import type { UsedFile } from "@gateway/shared/files";
import {
  filePermissions,
  listenPermissions,
  mergeSets,
  type PermissionSet,
  type ServiceLocation,
  statePermissions,
  urlPermissions,
} from "@gateway/shared/permissions";
import { isPostgresUrl, stateFiles } from "@gateway/shared/state";
import type { ControlPlaneConfig } from "./config.ts";

/** @throws {AppError} `invalid_config` if there is no exact permission for a value of the config */
export function controlPlanePermissions(
  config: ControlPlaneConfig,
  location: ServiceLocation,
): PermissionSet {
  const { signer, ui } = config;
  return mergeSets(
    filePermissions({
      workingFolder: location.workingFolder,
      auditLog: config.audit_log,
      files: {
        "the config": location.configPath,
        server_cert: config.server_cert,
        server_key: config.server_key,
        client_ca: config.client_ca,
        denied_callers: config.denied_callers,
        "signer.client_cert": signer.client_cert,
        "signer.client_key": signer.client_key,
        "signer.ca": signer.ca,
        audit_key: config.audit_key,
        ...ui && {
          "ui.server_cert": ui.server_cert,
          "ui.server_key": ui.server_key,
          "ui.issuer_ca": ui.issuer_ca,
          "ui.client_secret_file": ui.client_secret_file,
        },
      },
    }),
    statePermissions(config, location.workingFolder),
    isPostgresUrl(config.state_db) && config.instance === "" ? { sys: ["hostname"] } : {},
    notifications(config),
    {
      net: [
        ...listenPermissions(config.listen),
        ...listenPermissions(config.monitor_listen),
        ...signerUrls(signer).flatMap(urlPermissions),
        ...listenPermissions(config.ui_listen),
        ...(ui === undefined ? [] : urlPermissions(ui.issuer)),
      ],
    },
    { ignoreEnv: "all" },
  );
}

/** The files that other users of the machine must not write, and mostly not read. */
export function controlPlaneUsedFiles(config: ControlPlaneConfig, configPath: string): readonly UsedFile[] {
  const { ui } = config;
  return [
    { key: "the config", path: configPath, use: "config" },
    { key: "server_key", path: config.server_key, use: "secret" },
    { key: "client_ca", path: config.client_ca, use: "relied_on" },
    { key: "denied_callers", path: config.denied_callers, use: "relied_on" },
    { key: "signer.client_key", path: config.signer.client_key, use: "secret" },
    { key: "signer.ca", path: config.signer.ca, use: "relied_on" },
    { key: "audit_key", path: config.audit_key, use: "secret" },
    { key: "audit_log", path: config.audit_log, use: "relied_on" },
    ...(ui === undefined ? [] : [
      { key: "ui.server_key", path: ui.server_key, use: "secret" },
      { key: "ui.client_secret_file", path: ui.client_secret_file, use: "secret" },
      { key: "ui.issuer_ca", path: ui.issuer_ca, use: "relied_on" },
    ] as const),
    ...stateFiles(config),
  ];
}

/**
 * The permissions for notifications. An address that the configured notifier does not use gets no permission.
 */
function notifications({ approval }: ControlPlaneConfig): PermissionSet {
  const { notifier, webhook_url, webhook_secret_env } = approval;
  if (notifier === "log") return {};
  return {
    net: urlPermissions(webhook_url),
    ...(webhook_secret_env !== "" && { env: [webhook_secret_env] }),
  };
}
