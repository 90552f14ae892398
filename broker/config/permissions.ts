/**
 * The exact permissions of a broker, from its config.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { brokerConfig } from "@gateway/broker/config";
 * import { brokerPermissions } from "@gateway/broker/permissions";
 *
 * const config = brokerConfig.parse({
 *   signer: { url: "https://127.0.0.1:9443", client_cert: "broker.crt", client_key: "broker.key", ca: "ca.crt" },
 *   audit_log: "log/audit.log",
 *   audit_key: "audit.seed",
 *   networks: ["10.0.0.5:22"],
 * });
 * const location = { configPath: "config.json", workingFolder: "/srv" };
 * assert.deepEqual(brokerPermissions(config, { ...location, frontend: "serve-mcp" }).net, [
 *   "10.0.0.5:22",
 *   "127.0.0.1:9443",
 * ]);
 * ```
 * @module
 */
import { dirname, resolve } from "node:path";
import { signerUrls } from "@gateway/shared/config";
import type { UsedFile } from "@gateway/shared/files";
import {
  addressPermissions,
  caKeyFiles,
  caKeyHolders,
  caKeyPermissions,
  filePermissions,
  listenPermissions,
  mergeSets,
  type PermissionSet,
  type RunOptions,
  type ServiceLocation,
  urlPermissions,
} from "@gateway/shared/permissions";
import { type BrokerConfig, privateSocketPath } from "./config.ts";

export const BROKER_FRONTENDS = ["serve-http", "serve-mcp", "serve-mcp-http"] as const;

export type BrokerFrontend = (typeof BROKER_FRONTENDS)[number];

interface BrokerLocation extends ServiceLocation {
  readonly frontend: BrokerFrontend;
}

/**
 * The permissions for the files in the config (read-only), the directories of the audit log and of the recordings, the
 * signer, the listeners and the hosts. Over stdio there is no listener and no frontend certificate. With tokens there is
 * also the OpenID provider. If its keys are on another host than its issuer, the load error names that host.
 *
 * In local mode the CA keys replace the signer, and only the hosts of the config are reachable.
 *
 * In remote mode the addresses of hosts and clusters come from the signer at runtime, and `hosts` is ignored. If
 * `networks` or `api_servers` names any address, the process can connect to no others. A running process can connect
 * to a host that is added within `networks`. If both are empty, the process may connect to **any** address. A compromised
 * broker is then bounded by the network around it, and by the hosts, which accept no connection without a certificate.
 * @throws {AppError} `invalid_config` if the config names something without an exact permission
 */
export function brokerPermissions(config: BrokerConfig, location: BrokerLocation): PermissionSet {
  const { signer } = config;
  const { frontend, workingFolder } = location;
  const listens = frontend !== "serve-mcp";
  const sockets = listens ? config.sockets.map(({ path }) => resolve(workingFolder, path)) : [];
  const clusters = clustersOf(config).flatMap(([, { ca_cert, token_file }], index) => [
    [`ca_cert of cluster ${index}`, ca_cert],
    [`token_file of cluster ${index}`, token_file],
  ]);
  const local = [["policy_tests", config.policy_tests], ...clusters];
  return mergeSets(
    filePermissions({
      workingFolder,
      auditLog: config.audit_log,
      files: {
        "the config": location.configPath,
        ...(signer === undefined ? { ...caKeyFiles(config), ...Object.fromEntries(local) } : {
          "signer.client_cert": signer.client_cert,
          "signer.client_key": signer.client_key,
          "signer.ca": signer.ca,
        }),
        audit_key: config.audit_key,
        ...(listens && { server_cert: config.server_cert, server_key: config.server_key }),
        ...(frontend === "serve-http" &&
          { client_ca: config.client_ca, denied_callers: config.denied_callers }),
      },
      outputFolders: {
        session_recording_dir: config.session_recording_dir,
        ...Object.fromEntries(sockets.map((path, index) => [`sockets[${index}].path`, dirname(path)])),
      },
    }),
    signer === undefined
      ? caKeyPermissions(config, workingFolder)
      : { net: signerUrls(signer).flatMap(urlPermissions) },
    {
      // Reading the mode of a socket's directory needs permission to read the directory, so it should contain
      // nothing else.
      read: sockets.map((path) => dirname(path)),
      net: [
        ...listenPermissions(config.monitor_listen),
        ...(listens ? listenPermissions(config.listen) : []),
        ...(frontend === "serve-mcp-http" && config.oauth ? urlPermissions(config.oauth.issuer) : []),
        ...sockets.flatMap((path) => [`unix:${path}`, `unix:${privateSocketPath(path).socket}`]),
      ],
    },
    hosts(config),
    { ignoreEnv: "all" },
  );
}

/** The files that other users of the machine must not write, and in most cases not read. */
export function brokerUsedFiles(
  config: BrokerConfig,
  { configPath, frontend }: Pick<BrokerLocation, "configPath" | "frontend">,
): readonly UsedFile[] {
  const { signer } = config;
  const clusters = clustersOf(config).flatMap(([name, { token_file, ca_cert }]) =>
    [
      { key: `kubernetes.clusters.${name}.token_file`, path: token_file, use: "secret" },
      { key: `kubernetes.clusters.${name}.ca_cert`, path: ca_cert, use: "relied_on" },
    ] as const
  );
  const tests = { key: "policy_tests", path: config.policy_tests, use: "relied_on" } as const;
  return [
    { key: "the config", path: configPath, use: "config" },
    ...(frontend === "serve-mcp" ? [] : [
      { key: "server_key", path: config.server_key, use: "secret" },
      { key: "client_ca", path: config.client_ca, use: "relied_on" },
      { key: "denied_callers", path: config.denied_callers, use: "relied_on" },
    ] as const),
    ...(signer === undefined ? [tests, ...caKeyHolders(config), ...clusters] : [
      { key: "signer.client_key", path: signer.client_key, use: "secret" },
      { key: "signer.ca", path: signer.ca, use: "relied_on" },
    ] as const),
    { key: "audit_key", path: config.audit_key, use: "secret" },
    { key: "audit_log", path: config.audit_log, use: "relied_on" },
  ];
}

function clustersOf({ kubernetes }: BrokerConfig) {
  return Object.entries(kubernetes?.clusters ?? {});
}

function hosts(config: BrokerConfig): PermissionSet {
  if (config.signer === undefined) {
    // A host behind a bastion is reached only through the bastion.
    const reached = Object.values(config.hosts).filter(({ addr, jump = "" }) => addr !== "" && jump === "");
    // The policy reports a malformed URL with its key.
    const urls = clustersOf(config).map(([, { api_server }]) => api_server).filter((url) =>
      URL.canParse(url)
    );
    return {
      net: [...reached.flatMap(({ addr }) => addressPermissions(addr)), ...urls.flatMap(urlPermissions)],
    };
  }
  const named = [...config.networks, ...config.api_servers.flatMap(urlPermissions)];
  return { net: named.length === 0 ? "any" : named };
}

/**
 * The V8 options of a broker. An MCP broker is idle most of the time and is kept small. Each command leaves 14 KB of
 * garbage that only a full collection finds: by default a busy broker piles up to 60 MB, with this option up to 15 MB.
 */
export function brokerRunOptions(frontend: BrokerFrontend): RunOptions {
  return { semiSpaceMegabytes: frontend === "serve-http" ? 2 : 1, heapGrowingPercent: 50 };
}
