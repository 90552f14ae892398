/** The exact permissions of a signer, from its config. */
import { resolve } from "node:path";
import {
  caKeyFiles,
  caKeyHolders,
  caKeyPermissions,
  filePermissions,
  listenPermissions,
  mergeSets,
  type PermissionSet,
  type RunOptions,
  type ServiceLocation,
  statePermissions,
  urlPermissions,
} from "@gateway/shared/permissions";
import type { UsedFile } from "@gateway/shared/files";
import type { ClusterPolicy } from "@gateway/shared/policy";
import { isPostgresUrl, stateFiles } from "@gateway/shared/state";
import { editPath, type SignerConfig } from "./config.ts";

/**
 * V8 options of the signer. By default, V8 keeps the garbage of ten reloads of 10,000 hosts: 350 MB, 190 MB with these
 * options.
 *
 * A semi-space of 4 MB: with 2 MB, V8 promotes much of the data of concurrent requests. Measured as installed, after
 * other loads and 60 s at 64 connections: 122 MB with 2 MB, 125 to 127 MB with 4 MB, 131 to 137 MB with 8 MB. Compared
 * with 2 MB, 4 MB gives up to 10% and 8 MB 20% more signatures per second.
 *
 * No concurrent optimization: when a load begins, V8 optimizes 650 functions within two seconds. Concurrently, that
 * takes 20 to 33 MB at once, which glibc does not return; one at a time, it takes 5 MB.
 */
export const SIGNER_RUN_OPTIONS: RunOptions = {
  semiSpaceMegabytes: 4,
  heapGrowingPercent: 50,
  compilesInTurn: true,
};

/** @throws {AppError} `invalid_config` if a value of the config has no exact permission */
export function signerPermissions(config: SignerConfig, location: ServiceLocation): PermissionSet {
  const { end_user_oidc: oidc } = config;
  const clusters = clustersOf(config);
  const path = resolve(location.workingFolder, location.configPath);
  const edited = editPath(path);
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
        policy_tests: config.policy_tests,
        audit_key: config.audit_key,
        envelope_key: config.envelope_key,
        ...caKeyFiles(config),
        ...Object.fromEntries(
          clusters.flatMap(({ ca_cert, token_file }, index) => [
            [`ca_cert of cluster ${index}`, ca_cert],
            [`token_file of cluster ${index}`, token_file],
          ]),
        ),
      },
    }),
    caKeyPermissions(config, location.workingFolder),
    // The config does not name the host of the issuer's keys. If the keys are on another host, the load error
    // names that host.
    { net: oidc === undefined ? [] : urlPermissions(oidc.issuer) },
    // The policy rejects a value that is not a URL, and names its key.
    {
      net: clusters.map(({ api_server }) => api_server).filter((url) => URL.canParse(url)).flatMap(
        urlPermissions,
      ),
    },
    statePermissions(config, location.workingFolder),
    isPostgresUrl(config.state_db) && config.instance === "" ? { sys: ["hostname"] } : {},
    config.reload_callers.length === 0 ? {} : { read: [edited], write: [path, edited] },
    { net: [...listenPermissions(config.listen), ...listenPermissions(config.monitor_listen)] },
    { ignoreEnv: "all" },
  );
}

/** The files that other users of the machine must not write, and in most cases not read. */
export function signerUsedFiles(config: SignerConfig, configPath: string): readonly UsedFile[] {
  return [
    { key: "the config", path: configPath, use: "config" },
    { key: "server_key", path: config.server_key, use: "secret" },
    { key: "client_ca", path: config.client_ca, use: "relied_on" },
    { key: "denied_callers", path: config.denied_callers, use: "relied_on" },
    { key: "policy_tests", path: config.policy_tests, use: "relied_on" },
    ...caKeyHolders(config),
    { key: "audit_key", path: config.audit_key, use: "secret" },
    { key: "envelope_key", path: config.envelope_key, use: "secret" },
    { key: "audit_log", path: config.audit_log, use: "relied_on" },
    ...stateFiles(config),
    ...clustersOf(config).flatMap(({ token_file, ca_cert }): readonly UsedFile[] => [
      { key: "token_file", path: token_file, use: "secret" },
      { key: "ca_cert", path: ca_cert, use: "relied_on" },
    ]),
  ];
}

function clustersOf({ kubernetes }: SignerConfig): readonly ClusterPolicy[] {
  return Object.values(kubernetes?.clusters ?? {});
}
