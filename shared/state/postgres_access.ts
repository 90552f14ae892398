/**
 * Access to the tables of a service in PostgreSQL, over a connection that is opened again when it breaks.
 *
 * @module
 */
import postgres from "postgres";
import { ChangeLock } from "./durable.ts";
import { type Clock, within } from "../clock.ts";
import { AppError, configError, errorText, staleError } from "../errors.ts";
import { readNamedText } from "../files/mod.ts";
import { readAll, readRows, type Row, type RowReader, type StateWarner, type Steps } from "./columns.ts";
import { migrate, type PostgresSchema } from "./postgres_schema.ts";
import { openSession, type PostgresSession } from "./postgres_session.ts";
import {
  describeTarget,
  parsePostgresUrl,
  type PostgresTarget,
  type StateSettings,
} from "./postgres_settings.ts";

export type { PostgresSession } from "./postgres_session.ts";

/** A database, and its warnings. */
export interface PostgresDatabase {
  readonly settings: StateSettings;
  readonly clock: Clock;
  /** Called for data that cannot be read and is skipped. */
  readonly warn: StateWarner;
  /** The time limit for a connection and for each statement; default {@linkcode TIMEOUT_MS}. */
  readonly timeoutMs?: number;
}

/** Runs a statement, for an action. */
export type Query = (
  text: string,
  parameters?: readonly (string | number | bigint)[],
) => ReturnType<PostgresSession["query"]>;

/** The time limit, so that a caller learns within 3 s that the database does not answer. */
const TIMEOUT_MS = 2_500;

/** A service's tables in a database that others use at the same time. */
export class PostgresAccess {
  readonly #schema: PostgresSchema;
  readonly #database: PostgresDatabase;
  readonly #target: PostgresTarget;
  readonly #lock = new ChangeLock();
  #session: PostgresSession | undefined;
  #connecting: Promise<PostgresSession> | undefined;
  #isClosed = false;

  private constructor(schema: PostgresSchema, database: PostgresDatabase) {
    this.#schema = schema;
    this.#database = database;
    this.#target = parsePostgresUrl(database.settings.state_db);
  }

  /** Connects and migrates the tables. @throws {AppError} `invalid_config` with cause and fix */
  static async open(schema: PostgresSchema, database: PostgresDatabase): Promise<PostgresAccess> {
    const access = new PostgresAccess(schema, database);
    try {
      await access.#run(
        (query) => migrate({ server: "", isOpen: true, query, close: () => {} }, schema),
        Infinity,
      );
      return access;
    } catch (error) {
      await access.close();
      if (error instanceof AppError && error.code === "invalid_config") throw error;
      const cause = error instanceof AppError && error.cause !== undefined ? error.cause : error;
      throw configError(`Cannot open state_db ${describeTarget(access.#target)}: ${errorText(cause)}`, error);
    }
  }

  get schemaVersion(): number {
    return this.#schema.migrations.length;
  }

  /** Opens a separate connection, which the caller closes. @throws {Error} for the operator, if no server accepts it */
  connect(onNotify?: (payload: string) => void): Promise<PostgresSession> {
    const { settings, clock, timeoutMs = TIMEOUT_MS } = this.#database;
    return openSession({
      target: this.#target,
      password: () => readPassword(settings, this.#target),
      ca: async () =>
        settings.state_db_ca === "" ? undefined : await readNamedText("state_db_ca", settings.state_db_ca),
      schema: this.#schema.name,
      applicationName: `gateway ${this.#schema.owner}`,
      clock,
      timeoutMs,
      ...(onNotify !== undefined && { onNotify }),
    });
  }

  /**
   * Runs an action that reads one state of the database.
   *
   * @throws {AppError} `state_stale` if the database cannot be used now, `internal` if it rejects a statement
   */
  read<T>(action: (query: Query) => Promise<T>): Promise<T> {
    return this.#run((query) =>
      inTransaction(query, "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY", action)
    );
  }

  /**
   * Runs an action in a transaction: all or nothing, and durable when it resolves.
   *
   * @throws {AppError} `state_stale` if the database cannot be used now (the change may have been made if the connection broke at its
   * very end), `internal` if it rejects a statement
   */
  change<T>(action: (query: Query) => Promise<T>): Promise<T> {
    return this.#run((query) => inTransaction(query, "BEGIN", action));
  }

  /**
   * Resolves when every change so far is durable: its commit is on the disk, and on the disk of a synchronous
   * standby.
   */
  checkpoint(): Promise<void> {
    return this.#run(() => Promise.resolve(), Infinity);
  }

  readable<T>(rows: readonly Row[], reader: RowReader<T>): readonly T[] {
    return readRows(rows, reader, this.#database.warn);
  }

  /** The rows as values. @throws {AppError} `invalid_config` if one cannot be read */
  readAll<T>(rows: readonly Row[], what: string, decode: (row: Row) => T): readonly T[] {
    return readAll(rows, decode, (cause) => {
      const problem = `${what} can't be read: ${errorText(cause)}`;
      return configError(`Cannot use state_db ${describeTarget(this.#target)}: ${problem}`, cause);
    });
  }

  /** Closes the connection after the running actions. */
  close(): Promise<void> {
    return this.#lock.run(() => {
      this.#isClosed = true;
      this.#session?.close();
      return Promise.resolve();
    });
  }

  /** @param ms the time limit for the wait for other actions, the connection and the action together */
  #run<T>(
    action: (query: Query) => Promise<T>,
    ms: number = this.#database.timeoutMs ?? TIMEOUT_MS,
  ): Promise<T> {
    const { clock } = this.#database;
    const end = clock.now() + ms;
    const left = () => {
      // The clock may be set back, so limit the remaining time.
      const leftMs = Math.min(end - clock.now(), ms);
      if (leftMs > 0) return leftMs;
      throw new Error("the database does not answer");
    };
    return this.#lock.run(async () => {
      if (this.#isClosed) throw new AppError("internal", "The state store is closed");
      const session = await this.#open(left);
      try {
        return await action(async (text, parameters) => await session.query(text, parameters, left()));
      } catch (error) {
        if (isRefusal(error) && await rolledBack(session)) {
          if (error instanceof AppError) throw error;
          throw new AppError("internal", "The state database rejects the change", { cause: error });
        }
        session.close();
        throw unavailable(error);
      }
    });
  }

  async #open(left: () => number): Promise<PostgresSession> {
    try {
      const ms = left();
      if (this.#session?.isOpen === true) return this.#session;
      // The connection attempt continues after the last action timed out, because the available server may be
      // the last one of the list.
      this.#connecting ??= this.#connect().finally(() => this.#connecting = undefined);
      const late = () => new Error("the database does not answer");
      const bound = { clock: this.#database.clock, ...(ms < Infinity && { ms }), late };
      return await within(bound, this.#connecting);
    } catch (error) {
      throw unavailable(error);
    }
  }

  async #connect(): Promise<PostgresSession> {
    const session = await this.connect();
    if (this.#isClosed) session.close();
    return this.#session = session;
  }
}

/** The answer to a COMMIT was lost. */
class LostCommit extends Error {
  override readonly name = "LostCommit";
}

function unavailable(cause: unknown): AppError {
  const message = cause instanceof LostCommit
    ? "The state database did not confirm the commit: the change may have been made"
    : "The state database is not available";
  return staleError(message, cause);
}

async function inTransaction<T>(
  query: Query,
  begin: string,
  action: (query: Query) => Promise<T>,
): Promise<T> {
  await query(begin);
  const result = await whole(query, action);
  try {
    await query("COMMIT");
  } catch (cause) {
    // An error from the server is certain. The exception is the server's shutdown, which may follow the
    // commit.
    if (cause instanceof postgres.PostgresError && !/^(?:08|57|58)/.test(cause.code)) throw cause;
    throw new LostCommit("no answer to COMMIT", { cause });
  }
  return result;
}

/**
 * Runs the statements of an action. If one of several statements fails, a later one of the same action must
 * not run outside of the transaction.
 */
async function whole<T>(query: Query, action: (query: Query) => Promise<T>): Promise<T> {
  let isOver = false;
  try {
    return await action((text, parameters) => {
      return isOver ? Promise.reject(new Error("the transaction is over")) : query(text, parameters);
    });
  } finally {
    isOver = true;
  }
}

async function rolledBack(session: PostgresSession): Promise<boolean> {
  try {
    await session.query("ROLLBACK");
    return true;
  } catch {
    return false;
  }
}

/**
 * Whether the action or the statement is wrong. All other errors concern the server, its connection or its
 * resources, and may be temporary: read only (25006), too late (57014), shutting down, out of connections,
 * idle for too long.
 */
function isRefusal(error: unknown): boolean {
  if (error instanceof AppError || error instanceof TypeError) return true;
  if (!(error instanceof postgres.PostgresError)) return false;
  return !/^(?:08|25|40|53|55|57|58)/.test(error.code);
}

async function readPassword(
  { state_db_password_file }: StateSettings,
  target: PostgresTarget,
): Promise<string> {
  if (state_db_password_file === "") return target.password;
  const text = await readNamedText("state_db_password_file", state_db_password_file);
  return text.replace(/\r?\n$/, "");
}

/** Runs the statements of a transaction, for an action. */
export async function perform<T>(query: Query, steps: Steps<T>): Promise<T> {
  let step = steps.next();
  while (step.done !== true) {
    const statements = step.value;
    step = steps.next(await Promise.all(statements.map(({ text, parameters }) => query(text, parameters))));
  }
  return step.value;
}
