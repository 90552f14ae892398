/**
 * The permissions of a process as data: derived from its config by one pure function per service, and formatted as
 * flags for `deno run` or as the `permissions` of a `deno.json`.
 *
 * @module
 */
import { BlockList, isIP, isIPv4 } from "node:net";
import { dirname, isAbsolute, resolve, sep } from "node:path";
import { type CaKeyConfig, type CaKeySettings, planCaKeys } from "../ca/model.ts";
import { type AppError, configError } from "../errors.ts";
import type { UsedFile } from "../files/mod.ts";
import { parseListenAddress } from "../http/listener.ts";
import {
  describeHost,
  isPostgresUrl,
  parsePostgresUrl,
  type StateSettings,
} from "../state/postgres_settings.ts";
import { formatKeyPath } from "../text.ts";

/** Deno permissions of one process. Absent permissions are not granted. */
export interface PermissionSet {
  readonly read?: readonly string[];
  readonly write?: readonly string[];
  /** Absolute paths that stay forbidden inside a granted directory. */
  readonly denyWrite?: readonly string[];
  /** `host:port` in Deno's syntax, IPv6 addresses in brackets; `"any"` is every address and port. */
  readonly net?: readonly string[] | "any";
  /**
   * Environment variables that packages read without need. They appear to be unset. `"all"` is every
   * variable.
   */
  readonly ignoreEnv?: readonly string[] | "all";
  readonly env?: readonly string[];
  /** Facts about the machine, in Deno's words: `osRelease`. */
  readonly sys?: readonly string[];
}

/** A set as `permissions.<name>` of a `deno.json`; `true` grants everything. */
export interface PermissionJson {
  readonly read?: readonly string[];
  readonly write?: readonly string[] | {
    readonly allow: readonly string[];
    readonly deny: readonly string[];
  };
  readonly net?: readonly string[] | true;
  readonly env?: { readonly allow?: readonly string[]; readonly ignore?: readonly string[] | true };
  readonly sys?: readonly string[];
}

/** The config file of a service, and the absolute directory that relative paths start from. */
export interface ServiceLocation {
  readonly configPath: string;
  readonly workingFolder: string;
}

/** The settings of V8 for a process. */
export interface RunOptions {
  /**
   * The limit of V8's semi-space, by default 2: an idle service takes 5 MB less than with V8's own limit, at the same
   * speed. 1 saves 4 MB more and costs a busy service a fifth of its throughput. 4 suits many concurrent requests.
   */
  readonly semiSpaceMegabytes?: 1 | 2 | 4;
  /** The growth of the used memory before V8 collects garbage, in percent. V8's own limit is several hundred. */
  readonly heapGrowingPercent?: number;
  /**
   * Compiles hot functions one at a time, because the memory of concurrent compilers is not returned to the
   * system.
   */
  readonly compilesInTurn?: boolean;
}

/**
 * The flags of `deno run` for a set. Without `--cached-only`, an `import()` at run time fetches packages over
 * the network, regardless of `--allow-net`. Without the cache of compiled code an idle service takes 2 to 5
 * MB less, and starts up to 0.1 s later.
 *
 * @throws {AppError} `invalid_config` if a path has a comma, because Deno would split it
 */
export function formatFlags(set: PermissionSet, options: RunOptions = {}): string[] {
  const granted = [
    ["--allow-read", set.read],
    ["--allow-write", set.write],
    ["--deny-write", set.denyWrite],
    ["--allow-net", set.net],
    ["--allow-env", set.env],
    ["--ignore-env", set.ignoreEnv],
    ["--allow-sys", set.sys],
  ] as const;
  return [
    ...["--no-prompt", "--cached-only", "--no-code-cache", formatV8Flags(options)],
    ...granted.flatMap(([flag, values = []]) => {
      if (typeof values === "string") return [flag];
      const split = values.find((value) => value.includes(","));
      if (split === undefined) return values.length > 0 ? [`${flag}=${values.join(",")}`] : [];
      const message = `Cannot grant ${JSON.stringify(split)}: a path with a comma cannot be a flag`;
      throw invalid(message);
    }),
  ];
}

/** The flag of `deno run` and `deno compile` with the settings of V8. */
export function formatV8Flags(options: RunOptions): string {
  const { semiSpaceMegabytes = 2, heapGrowingPercent, compilesInTurn = false } = options;
  const flags = [
    `--max-semi-space-size=${semiSpaceMegabytes}`,
    ...heapGrowingPercent === undefined ? [] : [`--heap-growing-percent=${heapGrowingPercent}`],
    ...compilesInTurn ? ["--no-concurrent-recompilation"] : [],
  ];
  return `--v8-flags=${flags.join(",")}`;
}

/** The set for the `permissions` of a `deno.json`. */
export function formatJson(set: PermissionSet): PermissionJson {
  const { read = [], write = [], denyWrite = [], net = [], ignoreEnv = [], env = [], sys = [] } = set;
  return {
    ...(read.length > 0 && { read }),
    ...(write.length > 0 && { write: denyWrite.length > 0 ? { allow: write, deny: denyWrite } : write }),
    ...(net.length > 0 && { net: net === "any" ? true : net }),
    ...((ignoreEnv.length > 0 || env.length > 0) && {
      env: {
        ...(env.length > 0 && { allow: env }),
        ...(ignoreEnv.length > 0 && { ignore: ignoreEnv === "all" ? true : ignoreEnv }),
      },
    }),
    ...(sys.length > 0 && { sys }),
  };
}

/** The union of sets; each list is sorted and without duplicates. */
export function mergeSets(...sets: readonly PermissionSet[]): PermissionSet {
  const keys = ["read", "write", "denyWrite", "net", "ignoreEnv", "env", "sys"] as const;
  return Object.fromEntries(keys.flatMap((key) => {
    const values = sets.map((set) => set[key] ?? []);
    const all = values.find((value) => typeof value === "string");
    const union = [...new Set(values.flatMap((value) => value))].sort();
    return union.length === 0 ? [] : [[key, all ?? union]];
  }));
}

function invalid(message: string): AppError {
  return configError(message);
}

/**
 * The permissions of a listener; none for an empty address.
 *
 * @throws {AppError} `invalid_config` for a host name other than `localhost`: a listener requests the address behind
 *   the name, which only the machine itself knows
 */
export function listenPermissions(listen: string): readonly string[] {
  if (listen === "") return [];
  const { hostname, port } = parseListenAddress(listen);
  if (hostname === "localhost") return ["localhost", "127.0.0.1", "::1"].map((host) => join(host, port));
  if (isIP(hostname) !== 0) return [join(hostname, port)];
  throw invalid(
    `Cannot derive permissions for listen address ${JSON.stringify(listen)}: use an IP address or localhost`,
  );
}

/** The permissions of a client of an `https:` or `http:` URL. */
export function urlPermissions(url: string): readonly string[] {
  const { hostname, port, protocol } = new URL(url);
  return [`${hostname}:${port === "" ? (protocol === "http:" ? 80 : 443) : port}`];
}

/**
 * The permissions of a connection to a host's `addr`: `host:port`, by default port 22.
 *
 * @throws {AppError} `invalid_config` for another text
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

/**
 * The permissions for a service's files: read for its files, read and write for the audit log's directory, because
 * rotation renames the log and creates files next to it, and write for the directories of its output. A file that the
 * service reads stays read-only in a directory that it writes to.
 *
 * @throws {AppError} `invalid_config` if a directory is the root of the file system, or a file is the log or its
 *   directory
 */
export function filePermissions({ workingFolder, auditLog, files, outputFolders = {} }: {
  /** The absolute directory that relative paths start from. */
  readonly workingFolder: string;
  readonly auditLog: string;
  /** Paths by config key; an empty path means no file. */
  readonly files: Readonly<Record<string, string>>;
  /** Directories that it only creates files in, by config key; an empty path means none. */
  readonly outputFolders?: Readonly<Record<string, string>>;
}): PermissionSet {
  if (!isAbsolute(workingFolder)) {
    throw new TypeError(`workingFolder must be absolute: ${JSON.stringify(workingFolder)}`);
  }
  const resolveAll = (paths: Readonly<Record<string, string>>) =>
    Object.entries(paths).filter(([, path]) => path !== "")
      .map(([key, path]) => [key, resolve(workingFolder, path)] as const);
  const log = resolve(workingFolder, auditLog);
  const folder = dirname(log);
  const refuse = (key: string, path: string, why: string) =>
    invalid(`Cannot use ${key} ${JSON.stringify(path)}: ${why}`);
  if (dirname(folder) === folder) throw refuse("audit_log", log, "it needs its own directory");
  const read = resolveAll(files);
  for (const [key, path] of read) {
    if (path === log || path === folder) throw refuse(key, path, "it is the audit log or its directory");
  }
  const outputs = resolveAll(outputFolders);
  for (const [key, path] of outputs) {
    if (dirname(path) === path) throw refuse(key, path, "it is the root of the file system");
  }
  const paths = read.map(([, path]) => path);
  const write = [folder, ...outputs.map(([, path]) => path)];
  return mergeSets({
    read: [...paths, folder],
    write,
    denyWrite: paths.filter((path) => write.some((written) => path.startsWith(written + sep))),
  });
}

const RANGE = /^(?<base>[\d.]+)\/(?<bits>\d{1,2}):(?<port>\d{1,5})$/;
const NAMES = /^\*(?<suffix>(?:\.[A-Za-z0-9](?:[A-Za-z0-9-]*[A-Za-z0-9])?)+):(?<port>\d{1,5})$/;
const ADDRESS = /^(?:\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9][A-Za-z0-9.-]*):(?<port>\d{1,5})$/;
const MAX_PORT = 65_535;

/** The forms of {@linkcode isNetwork}, for messages. */
export const NETWORK_FORMS =
  "10.0.0.0/8:22, *.example.com:22 or host:port (the runtime knows no IPv6 ranges)";

/**
 * Whether a text is a network with a port: IPv4 addresses in CIDR form, all names below a domain, or one address. A name
 * does not include its address: the process requests the text of the host list.
 */
export function isNetwork(text: string): boolean {
  const port = Number((RANGE.exec(text) ?? NAMES.exec(text) ?? ADDRESS.exec(text))?.groups?.["port"]);
  if (!(port >= 1 && port <= MAX_PORT)) return false;
  const { base, bits } = RANGE.exec(text)?.groups ?? {};
  return base === undefined || (isIPv4(base) && Number(bits) <= 32);
}

/** Whether a host's `addr` is in a network; false for a malformed address or network. */
export function isInNetwork(addr: string, network: string): boolean {
  let wanted = "";
  try {
    [wanted = ""] = addressPermissions(addr);
  } catch {
    // A malformed address is in no network.
  }
  const [, hostname = "", port = ""] = /^(.*):(\d+)$/s.exec(wanted) ?? [];
  const range = RANGE.exec(network)?.groups;
  if (range !== undefined) {
    if (range["port"] !== port || !isNetwork(network) || !isIPv4(hostname)) return false;
    const list = new BlockList();
    list.addSubnet(range["base"] ?? "", Number(range["bits"]), "ipv4");
    return list.check(hostname, "ipv4");
  }
  const names = NAMES.exec(network)?.groups;
  if (names === undefined) return wanted.toLowerCase() === network.toLowerCase();
  return names["port"] === port && hostname.toLowerCase().endsWith((names["suffix"] ?? "").toLowerCase()) &&
    !isIPv4(hostname);
}

/**
 * The permissions for the state: a file, including SQLite's own files next to it; or a database's address or socket,
 * with its files.
 *
 * @param workingFolder the absolute directory that relative paths start from
 */
export function statePermissions(settings: StateSettings, workingFolder: string): PermissionSet {
  const { state_db, state_db_password_file, state_db_ca } = settings;
  const at = (path: string) => resolve(workingFolder, path);
  if (state_db === "") return {};
  if (!isPostgresUrl(state_db)) return { read: [at(state_db)], write: [at(state_db)] };
  const { hosts } = parsePostgresUrl(state_db);
  const sockets = hosts.flatMap((host) => host.kind === "socket" ? [host.path] : []);
  const files = [state_db_password_file, state_db_ca].filter((path) => path !== "");
  return {
    net: hosts.map((host) => host.kind === "socket" ? `unix:${host.path}` : describeHost(host)),
    read: [...files.map(at), ...sockets],
    write: sockets,
  };
}

/** The sign-in service for a key vault. */
const VAULT_SIGN_IN = "login.microsoftonline.com:443";
/** The service that gives a machine in the cloud its identity. */
const CLOUD_IDENTITY = "169.254.169.254:80";

/** All CA keys of a config, by config key. */
function caKeys(config: CaKeySettings): readonly (readonly [name: string, key: CaKeyConfig])[] {
  const ring = planCaKeys(config);
  if (ring === undefined) return [];
  const byGroup = [...ring.byGroup].map(([group, key]) => [formatKeyPath(["ca_keys", group]), key] as const);
  return [["ca_key", ring.fallback], ...byGroup];
}

/**
 * The permissions for CA keys that are not files: the agent's socket, or the vault and its sign-in service.
 *
 * @param workingFolder the absolute directory that relative paths start from
 * @throws {AppError} `invalid_config` if no exact permission exists
 */
export function caKeyPermissions(config: CaKeySettings, workingFolder: string): PermissionSet {
  return mergeSets(
    ...caKeys(config).map(([, key]): PermissionSet => {
      if (key.type === "pem") return {};
      if (key.type === "agent") {
        if (key.socket === "") {
          const what = "no exact permission exists for the value of SSH_AUTH_SOCK at run time";
          throw invalid(`Cannot use a CA key of type agent without socket: ${what}`);
        }
        const socket = resolve(workingFolder, key.socket);
        return { read: [socket], write: [socket], net: [`unix:${socket}`] };
      }
      const { credential, vault_url } = key;
      return {
        net: [...urlPermissions(vault_url), credential === undefined ? CLOUD_IDENTITY : VAULT_SIGN_IN],
        sys: ["osRelease"],
        ...(credential !== undefined && { env: [credential.client_secret_env] }),
      };
    }),
  );
}

/** The key files, by config key. */
export function caKeyFiles(config: CaKeySettings): Readonly<Record<string, string>> {
  return Object.fromEntries(
    caKeys(config).flatMap(([name, key]) =>
      key.type === "akv" ? [] : [[name, key.type === "pem" ? key.path : key.public_key_path]]
    ),
  );
}

/** The files that give access to the CA keys: key files, and sockets of agents. */
export function caKeyHolders(config: CaKeySettings): readonly UsedFile[] {
  return caKeys(config).flatMap(([name, key]): readonly UsedFile[] => {
    if (key.type === "akv") return [];
    return key.type === "pem"
      ? [{ key: name, path: key.path, use: "secret" }]
      : [{ key: `${name}.socket`, path: key.socket, use: "relied_on" }];
  });
}
