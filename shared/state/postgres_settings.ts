/**
 * The config keys that select the storage of the state.
 *
 * @module
 */
import * as z from "@zod/zod";
import { AppError, configError } from "../errors.ts";
import type { UsedFile } from "../files/mod.ts";
import { createConnection, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

/** The keys of a config for its state. */
export interface StateSettings {
  readonly state_db: string;
  readonly state_db_password_file: string;
  readonly state_db_ca: string;
}

/** Schema of the keys for a database server. */
export const DATABASE_ACCESS_SHAPE: Readonly<
  Record<"state_db_password_file" | "state_db_ca", z.ZodType<string>>
> = {
  state_db_password_file: z.string().default("").describe(
    "file with the password of the database in state_db; read for each connection; empty means none",
  ),
  state_db_ca: z.string().default("").describe(
    "PEM file with the CAs of the database's certificate; empty means the CAs of the machine",
  ),
};

/** The problems of such keys, by key, without a part of a URL. */
export function findStateProblems(
  settings: StateSettings,
): readonly (readonly [keyof StateSettings, string])[] {
  const { state_db, state_db_password_file, state_db_ca } = settings;
  if (!isPostgresUrl(state_db)) {
    const without = "is for a state_db that is a postgres: URL";
    return [
      ...(state_db_password_file === "" ? [] : [["state_db_password_file", without] as const]),
      ...(state_db_ca === "" ? [] : [["state_db_ca", without] as const]),
    ];
  }
  try {
    const { password, hosts } = parsePostgresUrl(state_db);
    if (password !== "" && state_db_password_file !== "") {
      return [["state_db_password_file", "is set, and the URL in state_db has a password as well"]];
    }
    if (state_db_ca !== "" && !hosts.some((host) => host.kind === "tcp" && host.tls)) {
      return [["state_db_ca", "is set, and no host of state_db is used with TLS"]];
    }
    return [];
  } catch (error) {
    if (!(error instanceof AppError)) throw error;
    return [["state_db", error.message.replace(/^Cannot use state_db: /, "")]];
  }
}

/** The database for a log, without a password. */
export function describeStateDb(stateDb: string): string {
  return isPostgresUrl(stateDb) ? describeTarget(parsePostgresUrl(stateDb)) : stateDb;
}

/** The files that other users of the machine must not read or write. */
export function stateFiles(
  { state_db, state_db_password_file, state_db_ca }: StateSettings,
): readonly UsedFile[] {
  return [
    { key: "state_db", path: isPostgresUrl(state_db) ? "" : state_db, use: "relied_on" },
    { key: "state_db_password_file", path: state_db_password_file, use: "secret" },
    { key: "state_db_ca", path: state_db_ca, use: "relied_on" },
  ];
}

/** A server, by TCP or a Unix socket. */
export type PostgresHost =
  | { readonly kind: "tcp"; readonly hostname: string; readonly port: number; readonly tls: boolean }
  | { readonly kind: "socket"; readonly path: string };

/** A database and its user. */
export interface PostgresTarget {
  /** The hosts in the order in which they are tried. The one that is not a standby is used. */
  readonly hosts: readonly PostgresHost[];
  readonly user: string;
  /** The password in the URL; empty if there is none, or if it comes from a file. */
  readonly password: string;
  readonly database: string;
}

const DEFAULT_PORT = 5432;

/** Whether a `state_db` names a database server and not a file. */
export function isPostgresUrl(stateDb: string): boolean {
  return /^postgres(?:ql)?:/i.test(stateDb);
}

/**
 * Reads `postgres://user[:password]@host[:port][,host[:port]…]/database`. A host that begins with a slash, written as `%2F`, is
 * the directory of a Unix socket. `sslmode` is the only parameter: `disable` or `verify-full`; without it only loopback addresses
 * are used without TLS.
 *
 * @throws {AppError} `invalid_config` with the problem, and without a part of the URL
 */
export function parsePostgresUrl(url: string): PostgresTarget {
  const match = /^postgres(?:ql)?:\/\/(?:([^@/?#]*)@)?([^@/?#]*)\/([^/?#]*)(?:\?([^#]*))?$/i.exec(url);
  if (match === null) throw refusal("it is not of the form postgres://user@host:5432/database");
  const [, account = "", list = "", database = "", query = ""] = match;
  const [user = "", ...password] = account.split(":");
  const mode = readMode(query);
  const target: PostgresTarget = {
    hosts: list.split(",").map((text) => readHost(text, mode)),
    user: decode(user),
    password: decode(password.join(":")),
    database: decode(database),
  };
  if (target.user === "") throw refusal("it names no user");
  if (target.database === "") throw refusal("it names no database");
  return target;
}

/** The URL without the password. */
export function describeTarget({ hosts, user, database }: PostgresTarget): string {
  return `postgres://${encodeURIComponent(user)}@${hosts.map(describeHost).join(",")}/${
    encodeURIComponent(database)
  }`;
}

/** The server in messages: `db1:5432`, or the path of its socket. */
export function describeHost(host: PostgresHost): string {
  if (host.kind === "socket") return host.path;
  return `${host.hostname.includes(":") ? `[${host.hostname}]` : host.hostname}:${host.port}`;
}

type Mode = "by_address" | "disable" | "verify-full";

function readMode(query: string): Mode {
  const parameters = new URLSearchParams(query);
  if ([...parameters.keys()].some((name) => name !== "sslmode")) {
    throw refusal("sslmode is the only parameter that it may have");
  }
  const [mode, second] = parameters.getAll("sslmode");
  if (mode === undefined) return "by_address";
  if (second !== undefined || (mode !== "disable" && mode !== "verify-full")) {
    throw refusal("sslmode is disable or verify-full");
  }
  return mode;
}

function readHost(text: string, mode: Mode): PostgresHost {
  const match = /^(\[[0-9A-Fa-f:.]+\]|[^:[\]]+)(?::(\d{1,5}))?$/.exec(text);
  const hostname = decode((match?.[1] ?? "").replace(/^\[|\]$/g, ""));
  const port = Number(match?.[2] ?? DEFAULT_PORT);
  if (hostname === "" || port < 1 || port > 65_535) {
    throw refusal("a host in it is not of the form host:port");
  }
  if (hostname.startsWith("/")) return { kind: "socket", path: `${hostname}/.s.PGSQL.${port}` };
  if (/[^A-Za-z0-9._:-]/.test(hostname)) throw refusal("a host in it has a character that no host name has");
  const tls = mode === "by_address" ? !isLoopback(hostname) : mode === "verify-full";
  return { kind: "tcp", hostname, port, tls };
}

function isLoopback(hostname: string): boolean {
  if (hostname.toLowerCase() === "localhost" || hostname === "::1") return true;
  return isIP(hostname) === 4 && hostname.startsWith("127.");
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw refusal("a % in it is not followed by two hexadecimal digits");
  }
}

function refusal(cause: string): AppError {
  return configError(`Cannot use state_db: ${cause}`);
}

/** SSLRequest (PostgreSQL documentation, "Message Formats"). */
const SSL_REQUEST = new Uint8Array([0, 0, 0, 8, 4, 210, 22, 47]);
const YES = "S".charCodeAt(0);

/**
 * @param ca the CAs for TLS, PEM; `undefined`: those of the machine
 * @throws {Error} without a connection, or without TLS with a certificate for the host's name
 */
export async function connectSocket(
  host: PostgresHost,
  ca: string | undefined,
  signal: AbortSignal,
): Promise<Socket> {
  signal.throwIfAborted();
  const socket = host.kind === "socket"
    ? createConnection({ path: host.path })
    : createConnection({ host: host.hostname, port: host.port });
  const abort = () => void socket.destroy(new Error("it does not answer"));
  signal.addEventListener("abort", abort, { once: true });
  try {
    await event(socket, "connect");
    if (host.kind === "socket" || !host.tls) return socket;
    return await upgrade(socket, host.hostname, ca);
  } catch (error) {
    socket.destroy();
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

async function upgrade(socket: Socket, hostname: string, ca: string | undefined): Promise<Socket> {
  const answer = new Promise<Uint8Array>((resolve, reject) => {
    socket.once("data", resolve);
    socket.once("error", reject);
    socket.once("close", () => reject(new Error("it closes the connection")));
  });
  socket.write(SSL_REQUEST);
  const bytes = await answer;
  // Reject further bytes. An attacker in the network could have sent them, and they would be read as part of
  // the TLS stream.
  if (bytes.length !== 1 || bytes[0] !== YES) throw new Error("it has no TLS");
  socket.removeAllListeners();
  const secure = connectTls({
    socket,
    host: hostname,
    // An IP address has no server name. The certificate is then checked for the address.
    ...(isIP(hostname) === 0 && { servername: hostname }),
    minVersion: "TLSv1.3",
    ...(ca !== undefined && { ca }),
  });
  await event(secure, "secureConnect");
  if (!secure.authorized) throw new Error("its certificate is not valid for its name");
  return secure;
}

/** Waits for an event of a socket. Also rejects if the socket closes without an error. */
function event(socket: Socket, name: "connect" | "secureConnect"): Promise<void> {
  return new Promise((resolve, reject) => {
    const close = () => reject(new Error("it closes the connection"));
    socket.once("error", reject);
    socket.once("close", close);
    socket.once(name, () => {
      socket.removeListener("error", reject);
      socket.removeListener("close", close);
      resolve();
    });
  });
}
