import { BlockList, isIP, isIPv4 } from "node:net";
import { AppError } from "../errors.ts";
import { parseListenAddress } from "../http/listener.ts";
import { dirname, isAbsolute, resolve, sep } from "node:path";
import { mergeSets, type PermissionSet } from "./set.ts";
import {
  describeHost,
  isPostgresUrl,
  parsePostgresUrl,
  type StateSettings,
} from "../state/postgres_settings.ts";
import { type CaKeyConfig, type CaKeySettings, planCaKeys } from "../ca/model.ts";
import type { UsedFile } from "../files/files.ts";
import { formatKeyPath } from "../text.ts";

/**
 * What a listener needs; nothing for an empty address.
 *
 * @throws {AppError} `invalid_config` for a host name other than `localhost`: a listener asks for the address
 *   that the name stands for, which only the machine itself knows
 */
export function listenPermissions(listen: string): readonly string[] {
  if (listen === "") return [];
  const { hostname, port } = parseListenAddress(listen);
  if (hostname === "localhost") return ["localhost", "127.0.0.1", "::1"].map((host) => join(host, port));
  if (isIP(hostname) === 0) {
    throw new AppError(
      "invalid_config",
      `Cannot derive permissions for listen address ${
        JSON.stringify(listen)
      }: use an IP address or localhost`,
    );
  }
  return [join(hostname, port)];
}

/** What a client of an `https:` or `http:` URL needs. */
export function urlPermissions(url: string): readonly string[] {
  const { hostname, port, protocol } = new URL(url);
  return [`${hostname}:${port === "" ? (protocol === "http:" ? 80 : 443) : port}`];
}

/**
 * What a connection to a host's `addr` needs: `host:port`, port 22 when it is left out.
 *
 * @throws {AppError} `invalid_config` when it is something else
 */
export function addressPermissions(addr: string): readonly string[] {
  if (isIP(addr) !== 0 || /^(?:\[[^\]]+\]|[^:[\]]+)$/.test(addr)) {
    return [join(addr.replace(/^\[|\]$/g, ""), 22)];
  }
  const { hostname, port } = parseListenAddress(addr);
  return [join(hostname, port)];
}

function join(hostname: string, port: number): string {
  return `${hostname.includes(":") ? `[${hostname}]` : hostname}:${port}`;
}

interface ServiceFiles {
  /** The absolute folder that relative paths start from. */
  readonly workingFolder: string;
  /** The path of the audit log. */
  readonly auditLog: string;
  /** Paths of the files it reads, by the config key that names them; an empty path means no file. */
  readonly files: Readonly<Record<string, string>>;
  /** Folders that it creates files in and reads nothing from, by config key; an empty path means no folder. */
  readonly outputFolders?: Readonly<Record<string, string>>;
}

/**
 * Read for the files, read and write for the audit log's folder: rotation renames the log and creates files
 * beside it. Write for the folders of its output. Files that the service reads stay read-only when they lie in a
 * folder that it writes to.
 *
 * @throws {AppError} `invalid_config` when a folder is the root of the file system, or a file is the log or
 *   its folder
 */
export function filePermissions(options: ServiceFiles): PermissionSet {
  const { workingFolder } = options;
  if (!isAbsolute(workingFolder)) {
    throw new TypeError(`workingFolder must be absolute: ${JSON.stringify(workingFolder)}`);
  }
  const log = resolve(workingFolder, options.auditLog);
  const folder = dirname(log);
  if (dirname(folder) === folder) {
    throw new AppError(
      "invalid_config",
      `Cannot use audit_log ${JSON.stringify(log)}: it needs a folder of its own`,
    );
  }
  const files = Object.entries(options.files).filter(([, path]) => path !== "")
    .map(([key, path]) => [key, resolve(workingFolder, path)] as const);
  for (const [key, path] of files) {
    if (path === log || path === folder) {
      throw new AppError(
        "invalid_config",
        `Cannot use ${key} ${JSON.stringify(path)}: it is the audit log or its folder`,
      );
    }
  }
  const paths = files.map(([, path]) => path);
  const write = [folder, ...resolveFolders(options)];
  return mergeSets({
    read: [...paths, folder],
    write,
    denyWrite: paths.filter((path) => write.some((written) => path.startsWith(written + sep))),
  });
}

function resolveFolders({ workingFolder, outputFolders = {} }: ServiceFiles): readonly string[] {
  return Object.entries(outputFolders).filter(([, path]) => path !== "").map(([key, path]) => {
    const folder = resolve(workingFolder, path);
    if (dirname(folder) !== folder) return folder;
    throw new AppError(
      "invalid_config",
      `Cannot use ${key} ${JSON.stringify(folder)}: it is the root of the file system`,
    );
  });
}

/**
 * The state database alone: SQLite's own files beside it are below what Deno looks at.
 *
 * @param state_db the path as in the config; nothing for an empty one
 * @param workingFolder the absolute folder that relative paths start from
 */
function stateFilePermissions(state_db: string, workingFolder: string): PermissionSet {
  if (state_db === "") return {};
  const path = resolve(workingFolder, state_db);
  return { read: [path], write: [path] };
}

const RANGE = /^(?<base>[\d.]+)\/(?<bits>\d{1,2}):(?<port>\d{1,5})$/;
const NAMES = /^\*(?<suffix>(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)+):(?<port>\d{1,5})$/;
const ADDRESS = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):(?<port>\d{1,5})$/;
const MAX_PORT = 65_535;

/** What {@linkcode isNetwork} takes, for messages. */
export const NETWORK_FORMS =
  "10.0.0.0/8:22, *.example.com:22 or host:port (the runtime knows no IPv6 ranges)";

/**
 * Whether a text is a network with a port: IPv4 addresses in CIDR form, all names below a domain, or one address. A
 * name and the address that it stands for are two things: the process asks for what the host list says.
 */
export function isNetwork(text: string): boolean {
  const port = Number((RANGE.exec(text) ?? NAMES.exec(text) ?? ADDRESS.exec(text))?.groups?.["port"]);
  if (!(port >= 1 && port <= MAX_PORT)) return false;
  const { base, bits } = RANGE.exec(text)?.groups ?? {};
  return base === undefined || (isIPv4(base) && Number(bits) <= 32);
}

/**
 * Whether a host's `addr` lies in a network. What is no address or no network lies in none.
 *
 * @param addr `host:port`; the port is 22 when it is left out
 */
export function isInNetwork(addr: string, network: string): boolean {
  const [wanted = ""] = tryAddress(addr);
  const [, hostname = "", port = ""] = /^(.*):(\d+)$/s.exec(wanted) ?? [];
  const range = RANGE.exec(network)?.groups;
  if (range !== undefined) {
    return range["port"] === port && isNetwork(network) && isIPv4(hostname) && isInRange(hostname, range);
  }
  const names = NAMES.exec(network)?.groups;
  if (names === undefined) return wanted.toLowerCase() === network.toLowerCase();
  return names["port"] === port && hostname.toLowerCase().endsWith((names["suffix"] ?? "").toLowerCase()) &&
    !isIPv4(hostname);
}

function isInRange(address: string, { base = "", bits = "" }: Readonly<Record<string, string | undefined>>) {
  const list = new BlockList();
  list.addSubnet(base, Number(bits), "ipv4");
  return list.check(address, "ipv4");
}

function tryAddress(addr: string): readonly string[] {
  try {
    return addressPermissions(addr);
  } catch {
    return [];
  }
}

/**
 * What the state needs: the file; or the database's address or socket, and the files for it.
 *
 * @param workingFolder the absolute folder that relative paths start from
 */
export function statePermissions(settings: StateSettings, workingFolder: string): PermissionSet {
  const { state_db, state_db_password_file, state_db_ca } = settings;
  if (!isPostgresUrl(state_db)) return stateFilePermissions(state_db, workingFolder);
  const { hosts } = parsePostgresUrl(state_db);
  const sockets = hosts.flatMap((host) => host.kind === "socket" ? [host.path] : []);
  const files = [state_db_password_file, state_db_ca].filter((path) => path !== "");
  return {
    net: hosts.map((host) => host.kind === "socket" ? `unix:${host.path}` : describeHost(host)),
    read: [...files.map((path) => resolve(workingFolder, path)), ...sockets],
    write: sockets,
  };
}

/** Where an application signs in for a key vault. */
const VAULT_SIGN_IN = "login.microsoftonline.com:443";
/** Where a machine in the cloud gets its own identity. */
const CLOUD_IDENTITY = "169.254.169.254:80";

/**
 * What the keys that are not files need: the agent's socket, or the vault and where to sign in for it.
 *
 * @param workingFolder the absolute folder that relative paths start from
 * @throws {AppError} `invalid_config` when the config names what no exact permission can be given for
 */
export function caKeyPermissions(config: CaKeySettings, workingFolder: string): PermissionSet {
  const ring = planCaKeys(config);
  if (ring === undefined) return {};
  return mergeSets(...[ring.fallback, ...ring.byGroup.values()].map((key) => caKey(key, workingFolder)));
}

/** The key files, by the config key that names them. */
export function caKeyFiles(config: CaKeySettings): Readonly<Record<string, string>> {
  const ring = planCaKeys(config);
  if (ring === undefined) return {};
  const byGroup = [...ring.byGroup].map(([group, key]) => [formatKeyPath(["ca_keys", group]), key] as const);
  return Object.fromEntries([["ca_key", ring.fallback] as const, ...byGroup].flatMap(([name, key]) => {
    if (key.type === "akv") return [];
    return [[name, key.type === "pem" ? key.path : key.public_key_path]];
  }));
}

/** What gives its holder the CA keys, by the config key that names it: key files, and the sockets of agents. */
export function caKeyHolders(config: CaKeySettings): readonly UsedFile[] {
  const ring = planCaKeys(config);
  if (ring === undefined) return [];
  const byGroup = [...ring.byGroup].map(([group, key]) => [formatKeyPath(["ca_keys", group]), key] as const);
  return [["ca_key", ring.fallback] as const, ...byGroup].flatMap(([name, key]): readonly UsedFile[] => {
    switch (key.type) {
      case "pem":
        return [{ key: name, path: key.path, use: "secret" }];
      case "agent":
        return [{ key: `${name}.socket`, path: key.socket, use: "relied_on" }];
      case "akv":
        return [];
      default:
        return key satisfies never;
    }
  });
}

function caKey(key: CaKeyConfig, workingFolder: string): PermissionSet {
  const at = (path: string) => resolve(workingFolder, path);
  switch (key.type) {
    case "pem":
      return {};
    case "agent": {
      if (key.socket === "") {
        const what = "an exact permission can't be given for whatever SSH_AUTH_SOCK will name";
        throw new AppError("invalid_config", `Cannot use a CA key of type agent without socket: ${what}`);
      }
      const socket = at(key.socket);
      return { read: [socket], write: [socket], net: [`unix:${socket}`] };
    }
    case "akv": {
      const { credential } = key;
      return {
        net: [...urlPermissions(key.vault_url), credential === undefined ? CLOUD_IDENTITY : VAULT_SIGN_IN],
        sys: ["osRelease"],
        ...(credential === undefined ? {} : { env: [credential.client_secret_env] }),
      };
    }
    default:
      return key satisfies never;
  }
}
