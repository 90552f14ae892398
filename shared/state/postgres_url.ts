/**
 * Where a PostgreSQL database is, from the URL in a config. Nothing here shows a password.
 *
 * ```ts
 * import assert from "node:assert/strict";
 * import { describeTarget, parsePostgresUrl } from "@gateway/shared/state/postgres_url";
 *
 * const target = parsePostgresUrl("postgres://app:secret@db1,db2:5433/gateway");
 * assert.equal(describeTarget(target), "postgres://app@db1:5432,db2:5433/gateway");
 * ```
 *
 * @module
 */
import { isIP } from "node:net";
import { AppError } from "../errors.ts";

/** One server. */
export type PostgresHost =
  | { readonly kind: "tcp"; readonly hostname: string; readonly port: number; readonly tls: boolean }
  /** `path` is the socket itself. */
  | { readonly kind: "socket"; readonly path: string };

/** A database, and as whom it is used. */
export interface PostgresTarget {
  /** Tried in this order; the one that is no standby is used. */
  readonly hosts: readonly PostgresHost[];
  /** The account. */
  readonly user: string;
  /** Empty: none, or from a file. */
  readonly password: string;
  /** Its name on the server. */
  readonly database: string;
}

const DEFAULT_PORT = 5432;

/** Whether a `state_db` names a database server and not a file. */
export function isPostgresUrl(stateDb: string): boolean {
  return /^postgres(?:ql)?:/i.test(stateDb);
}

/**
 * Reads `postgres://user[:password]@host[:port][,host[:port]…]/database`. A host that begins with a slash, written
 * with `%2F`, is the folder of a Unix socket. Of parameters there is `sslmode`: `disable` turns TLS off for every
 * host, `verify-full` on; without it loopback addresses are used without TLS, and all others with it.
 *
 * @throws {AppError} `invalid_config` saying what is wrong, and nothing of the URL
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

/** The URL without password. */
export function describeTarget({ hosts, user, database }: PostgresTarget): string {
  return `postgres://${encodeURIComponent(user)}@${hosts.map(describeHost).join(",")}/${
    encodeURIComponent(database)
  }`;
}

/** A server as it is named in messages: `db1:5432`, or the path of its socket. */
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
  return new AppError("invalid_config", `Cannot use state_db: ${cause}`);
}
