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
 *
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
import { type BrokerConfig, socketAside } from "./config.ts";

/** How agents reach a broker: HTTP with mTLS, MCP over standard input and output, or MCP over HTTP with tokens. */
export const BROKER_FRONTENDS = ["serve-http", "serve-mcp", "serve-mcp-http"] as const;

/** One of {@linkcode BROKER_FRONTENDS}. */
export type BrokerFrontend = (typeof BROKER_FRONTENDS)[number];

interface BrokerLocation extends ServiceLocation {
  readonly frontend: BrokerFrontend;
}

/**
 * The files the config names, read-only; the audit log's folder; the recordings' folder, to write; the signer;
 * the listeners; the hosts. Over stdio there is no listener, and the frontend's certificate is out of reach. With
 * tokens there is the OpenID provider beside them; where its keys are at another host than its name, the load
 * error names that host.
 *
 * In local mode the CA keys take the signer's place, and the hosts are those of the config: no other address.
 *
 * In remote mode the addresses of hosts and clusters come from the signer while the broker runs, and `hosts` is ignored.
 * If `networks` or `api_servers` names any address, the process can connect to no others. A running process can connect
 * to a host that is added within `networks`. If both are empty, the process may connect to **any** address. A compromised
 * broker is then bounded by the network around it, and by the hosts, which accept no connection without a certificate.
 *
 * @throws {AppError} `invalid_config` when the config names what no exact permission can be given for
 */
export function brokerPermissions(config: BrokerConfig, location: BrokerLocation): PermissionSet {
  const { frontend } = location;
  const listens = frontend !== "serve-mcp";
  const { signer } = config;
  const sockets = listens ? config.sockets : [];
  return mergeSets(
    filePermissions({
      workingFolder: location.workingFolder,
      auditLog: config.audit_log,
      files: {
        "the config": location.configPath,
        ...(signer === undefined ? { ...caKeyFiles(config), ...clusterFiles(config) } : {
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
        ...Object.fromEntries(sockets.map(({ path }, index) => [`sockets[${index}].path`, dirname(path)])),
      },
    }),
    signer === undefined ? caKeyPermissions(config, location.workingFolder) : {
      net: signerUrls(signer).flatMap(urlPermissions),
    },
    {
      net: [
        ...listenPermissions(config.monitor_listen),
        ...(listens ? listenPermissions(config.listen) : []),
        ...(frontend === "serve-mcp-http" && config.oauth !== undefined
          ? urlPermissions(config.oauth.issuer)
          : []),
      ],
    },
    socketPermissions(sockets, location.workingFolder),
    hosts(config),
    { ignoreEnv: "all" },
  );
}

/** The directory of a socket is also read, for its mode: it should hold nothing else. */
function socketPermissions(sockets: BrokerConfig["sockets"], workingFolder: string): PermissionSet {
  const paths = sockets.map(({ path }) => resolve(workingFolder, path));
  return {
    read: paths.map((path) => dirname(path)),
    net: paths.flatMap((path) => [`unix:${path}`, `unix:${socketAside(path).socket}`]),
  };
}

/** What other users of the machine must not write, and mostly not read either. */
export function brokerUsedFiles(
  config: BrokerConfig,
  { configPath, frontend }: Pick<BrokerLocation, "configPath" | "frontend">,
): readonly UsedFile[] {
  const { signer } = config;
  return [
    { key: "the config", path: configPath, use: "config" },
    ...(frontend === "serve-mcp" ? [] : [
      { key: "server_key", path: config.server_key, use: "secret" },
      { key: "client_ca", path: config.client_ca, use: "relied_on" },
      { key: "denied_callers", path: config.denied_callers, use: "relied_on" },
    ] as const),
    ...(signer === undefined ? [...caKeyHolders(config), ...clusterHolders(config)] : [
      { key: "signer.client_key", path: signer.client_key, use: "secret" },
      { key: "signer.ca", path: signer.ca, use: "relied_on" },
    ] as const),
    { key: "audit_key", path: config.audit_key, use: "secret" },
    { key: "audit_log", path: config.audit_log, use: "relied_on" },
  ];
}

function clusterHolders({ kubernetes }: BrokerConfig): readonly UsedFile[] {
  return Object.entries(kubernetes?.clusters ?? {}).flatMap(([name, { token_file, ca_cert }]) =>
    [
      { key: `kubernetes.clusters.${name}.token_file`, path: token_file, use: "secret" },
      { key: `kubernetes.clusters.${name}.ca_cert`, path: ca_cert, use: "relied_on" },
    ] as const
  );
}

/** The files of clusters: in remote mode those are the signer's. */
function clusterFiles({ kubernetes }: BrokerConfig): Readonly<Record<string, string>> {
  return Object.fromEntries(
    Object.values(kubernetes?.clusters ?? {}).flatMap(({ ca_cert, token_file }, index) => [
      [`ca_cert of cluster ${index}`, ca_cert],
      [`token_file of cluster ${index}`, token_file],
    ]),
  );
}

/** In local mode a host behind a bastion is only reached through it. */
function hosts({ hosts, networks, api_servers: servers, kubernetes, signer }: BrokerConfig): PermissionSet {
  if (signer === undefined) {
    const reached = Object.values(hosts).filter(({ addr, jump = "" }) => addr !== "" && jump === "");
    // What is no URL, the policy refuses by its key.
    const urls = Object.values(kubernetes?.clusters ?? {}).map(({ api_server }) => api_server);
    return {
      net: [
        ...reached.flatMap(({ addr }) => addressPermissions(addr)),
        ...urls.filter((url) => URL.canParse(url)).flatMap(urlPermissions),
      ],
    };
  }
  const named = [...networks, ...servers.flatMap(urlPermissions)];
  return { net: named.length === 0 ? "any" : named };
}

/**
 * How a broker is run: one that speaks MCP holds the libraries for it, waits most of the time, and is kept small. Each
 * command leaves 14 KB of garbage that only a full collection finds: left to itself V8 lets that of a busy broker
 * pile up to 60 MB, with this to 15 MB.
 */
export function brokerRunOptions(frontend: BrokerFrontend): RunOptions {
  return { semiSpaceMegabytes: frontend === "serve-http" ? 2 : 1, heapGrowingPercent: 50 };
}
