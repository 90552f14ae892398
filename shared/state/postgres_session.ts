/**
 * One connection to a PostgreSQL server that takes changes. It never comes back by itself: the driver would go on with
 * half of a transaction on another connection.
 *
 * @module
 */
import postgres from "postgres";
import { type Clock, within } from "../clock.ts";
import type { Row } from "./columns.ts";
import { connectSocket, describeHost, type PostgresHost, type PostgresTarget } from "./postgres_settings.ts";

/** How a {@linkcode PostgresSession} is opened. */
interface SessionOptions {
  readonly target: PostgresTarget;
  /** Read for each connection, so that it can be changed. */
  readonly password: () => Promise<string>;
  /** CAs for TLS, PEM; `undefined`: those of the machine. */
  readonly ca: () => Promise<string | undefined>;
  readonly schema: string;
  /** Shown to whoever looks at the server's connections. */
  readonly applicationName: string;
  readonly clock: Clock;
  /** How long a connection and each statement may take, in milliseconds. */
  readonly timeoutMs: number;
  /** Told of notifications on the channel of the schema's name. */
  readonly onNotify?: (payload: string) => void;
}

/** No server took the connection, for the reasons in its message, which is for the operator. */
class NoServerError extends Error {
  override readonly name = "NoServerError";
}

/** One connection. */
export interface PostgresSession {
  /** Which server it is to, for the operator. */
  readonly server: string;
  /** Whether a statement can be tried. */
  readonly isOpen: boolean;
  /**
   * Runs a statement; integers come as bigint, bytes as such.
   *
   * @throws {postgres.PostgresError} what the server says
   * @param ms where whoever waits for it has less time than a statement may take
   * @throws {Error} the connection is lost or the time is up: nobody knows whether it was done
   */
  query(
    text: string,
    parameters?: readonly (string | number | bigint)[],
    ms?: number,
  ): Promise<readonly Row[]>;
  /** At once, whatever is under way. */
  close(): void;
}

/**
 * Connects to the first server of the target that is no standby.
 *
 * @throws {NoServerError}
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
  throw new NoServerError(causes.join("; "));
}

/** `undefined` for a standby: asked of the server itself, because a standby need not be read-only by its settings. */
async function openOn(host: PostgresHost, options: SessionOptions): Promise<PostgresSession | undefined> {
  const { clock, timeoutMs } = options;
  const opening = new AbortController();
  const late = () => new Error("it does not answer");
  try {
    return await within({ clock, ms: timeoutMs, late }, async () => {
      const [password, ca] = [await options.password(), await options.ca()];
      const session = new Session(options, {
        server: describeHost(host),
        password,
        connect: () => connectSocket(host, { ca, signal: opening.signal }),
      });
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

/** What became of an attempt, for the operator: no statement, and no value in it. */
function describeCause(error: unknown): string {
  if (!(error instanceof Error)) return "no connection";
  const { code } = error as Error & { readonly code?: unknown };
  if (error instanceof postgres.PostgresError) return `${error.message} (SQLSTATE ${String(code)})`;
  return error.message === "" ? String(code) : error.message;
}

interface SessionPlug {
  readonly server: string;
  readonly password: string;
  readonly connect: () => ReturnType<typeof connectSocket>;
}

/** With what the driver's types leave out. */
type DriverOptions = postgres.Options<{ bigint: postgres.PostgresType<bigint> }> & {
  readonly socket: SessionPlug["connect"];
  readonly onnotify: (channel: string, payload: string) => void;
  readonly sslnegotiation: null;
  readonly max_pipeline: number;
};

class Session implements PostgresSession {
  readonly server: string;
  readonly #sql: postgres.Sql<{ bigint: bigint }>;
  readonly #options: SessionOptions;
  #isOpen = true;

  constructor(options: SessionOptions, { server, password, connect }: SessionPlug) {
    const { target: { user, database }, schema, applicationName, timeoutMs, onNotify } = options;
    this.#options = options;
    this.server = server;
    let connected = false;
    // Every key that the driver would look for in the environment otherwise.
    const driver: DriverOptions = {
      host: "none.invalid",
      port: 5432,
      user,
      database,
      // As a function: an empty one would be looked for elsewhere.
      password: () => password,
      ssl: false,
      sslnegotiation: null,
      prepare: true,
      debug: false,
      // What is asked at once, as the reads of one moment, is sent at once.
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
      onclose: () => void (this.#isOpen = false),
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
        // An account may have another: then what was acknowledged is lost with the server.
        synchronous_commit: "on",
        statement_timeout: timeoutMs,
        lock_timeout: timeoutMs,
        // Of an instance that is stopped in the middle: the others wait for what it holds.
        idle_in_transaction_session_timeout: 1000,
      },
    };
    this.#sql = postgres(driver);
  }

  get isOpen(): boolean {
    return this.#isOpen;
  }

  async query(
    text: string,
    parameters: readonly (string | number | bigint)[] = [],
    ms: number = Infinity,
  ): Promise<readonly Row[]> {
    if (!this.#isOpen) throw new Error("the connection is lost");
    const { clock, timeoutMs } = this.#options;
    const late = () => {
      this.close();
      return new Error("the database does not answer");
    };
    const answer = this.#sql.unsafe(text, [...parameters] as string[], { prepare: parameters.length > 0 });
    return await within({ clock, ms: Math.min(timeoutMs, ms), late }, answer.catch(failPlainly));
  }

  close(): void {
    this.#isOpen = false;
    void this.#sql.end({ timeout: 0 }).catch(() => {});
  }
}

/** The driver's words for a connection that ended name the host that it was told in place of the real one. */
function failPlainly(error: unknown): never {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  throw code.startsWith("CONNECTION_") ? new Error("the connection is lost") : error;
}

let isSwallowing = false;

/** The driver writes from a timer to a connection that has broken meanwhile: the error is nobody's, and ends the process. */
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
