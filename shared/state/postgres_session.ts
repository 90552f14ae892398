/**
 * One connection to a PostgreSQL server that accepts changes. It is never reopened: the driver would continue half of a
 * transaction on another connection.
 *
 * @module
 */
import postgres from "postgres";
import { type Clock, within } from "../clock.ts";
import type { Row } from "./columns.ts";
import { connectSocket, describeHost, type PostgresHost, type PostgresTarget } from "./postgres_settings.ts";

interface SessionOptions {
  readonly target: PostgresTarget;
  /** The password, read for each connection, so that it can be changed while the service runs. */
  readonly password: () => Promise<string>;
  readonly ca: () => Promise<string | undefined>;
  readonly schema: string;
  readonly applicationName: string;
  readonly clock: Clock;
  readonly timeoutMs: number;
  /** Called for notifications on the channel of the schema's name. */
  readonly onNotify?: (payload: string) => void;
}

/** A connection. */
export interface PostgresSession {
  readonly server: string;
  readonly isOpen: boolean;
  /**
   * Runs a statement; integers are returned as bigint, texts of {@linkcode selectAsBytes} as bytes.
   *
   * @param ms if the caller has less time than a statement may take
   * @throws {postgres.PostgresError} an error of the server
   * @throws {Error} the connection is lost or the time is up: the statement may have run
   */
  query(
    text: string,
    parameters?: readonly (string | number | bigint)[],
    ms?: number,
  ): Promise<readonly Row[]>;
  /** Closes the connection immediately, even during a statement. */
  close(): void;
}

/**
 * Connects to the first server of the target that is not a standby.
 *
 * @throws {Error} with the reason for each server, for the operator
 */
export async function openSession(options: SessionOptions): Promise<PostgresSession> {
  swallowDriverFault();
  const causes: string[] = [];
  for (const host of options.target.hosts) {
    try {
      const session = await openOn(host, options);
      if (session !== undefined) return session;
      causes.push(`${describeHost(host)}: it is a standby`);
    } catch (error) {
      causes.push(`${describeHost(host)}: ${describeCause(error)}`);
    }
  }
  throw new Error(causes.join("; "));
}

/**
 * Connects to one server; `undefined` for a standby. Queries the server's role, because the settings of a
 * standby need not be read-only.
 */
async function openOn(host: PostgresHost, options: SessionOptions): Promise<PostgresSession | undefined> {
  const { clock, timeoutMs } = options;
  const opening = new AbortController();
  const late = () => new Error("it does not answer");
  try {
    return await within({ clock, ms: timeoutMs, late }, async () => {
      const [password, ca] = [await options.password(), await options.ca()];
      const connect = () => connectSocket(host, ca, opening.signal);
      const session = createSession(options, describeHost(host), password, connect);
      opening.signal.addEventListener("abort", () => session.close(), { once: true });
      const [row] = await session.query("SELECT pg_is_in_recovery()::int::int8 AS standby");
      if (row?.["standby"] !== 0n) {
        session.close();
        return undefined;
      }
      if (options.onNotify !== undefined) await session.query(`LISTEN ${options.schema}`);
      return session;
    });
  } catch (error) {
    opening.abort();
    throw error;
  }
}

/** The cause for the operator, without a statement or a value. */
function describeCause(error: unknown): string {
  if (!(error instanceof Error)) return "no connection";
  const { code } = error as Error & { readonly code?: unknown };
  if (error instanceof postgres.PostgresError) return `${error.message} (SQLSTATE ${String(code)})`;
  return error.message === "" ? String(code) : error.message;
}

/** The driver's options, including keys that the driver's types omit. */
type DriverOptions = postgres.Options<{ bigint: postgres.PostgresType<bigint> }> & {
  readonly socket: () => ReturnType<typeof connectSocket>;
  readonly onnotify: (channel: string, payload: string) => void;
  readonly sslnegotiation: null;
  readonly max_pipeline: number;
};

function createSession(
  { target: { user, database }, schema, applicationName, clock, timeoutMs, onNotify }: SessionOptions,
  server: string,
  password: string,
  connect: DriverOptions["socket"],
): PostgresSession {
  let isOpen = true;
  let connected = false;
  // Set every key that the driver would otherwise read from the environment.
  const driver: DriverOptions = {
    host: "none.invalid",
    port: 5432,
    user,
    database,
    // Pass a function, because the driver would replace an empty text by a value from the environment.
    password: () => password,
    ssl: false,
    sslnegotiation: null,
    prepare: true,
    debug: false,
    // Statements that are sent together, such as the reads of one snapshot, need not wait for each other.
    max_pipeline: 16,
    max: 1,
    idle_timeout: 0,
    max_lifetime: null,
    connect_timeout: Math.ceil(timeoutMs / 1000),
    keep_alive: 5,
    backoff: false,
    fetch_types: false,
    publications: "none",
    onnotice: () => {},
    onclose: () => void (isOpen = false),
    types: { bigint: postgres.BigInt },
    socket: () => {
      if (connected) throw new Error("the connection is lost");
      connected = true;
      return connect();
    },
    onnotify: (_channel, payload) => onNotify?.(payload),
    connection: {
      application_name: applicationName,
      search_path: schema,
      // Override the account's setting, with which an acknowledged change could be lost if the server fails.
      synchronous_commit: "on",
      statement_timeout: timeoutMs,
      lock_timeout: timeoutMs,
      // If an instance is suspended during a transaction, the other instances wait for its locks.
      idle_in_transaction_session_timeout: 1000,
    },
  };
  const sql = postgres(driver);
  const session: PostgresSession = {
    server,
    get isOpen() {
      return isOpen;
    },
    async query(text, parameters = [], ms = Infinity) {
      if (!isOpen) throw new Error("the connection is lost");
      const late = () => {
        session.close();
        return new Error("the database does not answer");
      };
      const answer = sql.unsafe(text, [...parameters] as string[], { prepare: parameters.length > 0 });
      return await within({ clock, ms: Math.min(timeoutMs, ms), late }, answer.catch(failPlainly));
    },
    close() {
      isOpen = false;
      void sql.end({ timeout: 0 }).catch(() => {});
    },
  };
  return session;
}

/**
 * Throws an error with a useful text: for an ended connection, the driver names a placeholder instead of the
 * real host.
 */
function failPlainly(error: unknown): never {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  throw code.startsWith("CONNECTION_") ? new Error("the connection is lost") : error;
}

let isSwallowing = false;

/**
 * Ignores an error of the driver, which writes from a timer to a connection that is already broken. Otherwise
 * the error would end the process.
 */
function swallowDriverFault(): void {
  if (isSwallowing) return;
  isSwallowing = true;
  globalThis.addEventListener("error", (event) => {
    const { error } = event;
    const isKnown = error instanceof TypeError && /reading 'write'/.test(error.message) &&
      /\bnextWrite\b.*postgres/.test(error.stack ?? "");
    if (isKnown) event.preventDefault();
  });
}
