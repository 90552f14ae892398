/**
 * The messages between the instances of a service, through PostgreSQL.
 *
 * @module
 */
import { readInteger, readText, type Row } from "../state/columns.ts";
import type { PostgresAccess, PostgresSession, Query } from "../state/postgres_access.ts";

/** The payload of a notification that an instance has confirmed a change. Any other notification is a change. */
const SEEN = "seen";
const OTHERS = "convert_to(i.name, 'UTF8') AS name, convert_to(i.session, 'UTF8') AS session, i.beat, i.seen";
const EPOCHS = `(SELECT value FROM epochs WHERE topic = 'state') AS state,
    (SELECT value FROM epochs WHERE topic = 'certificates') AS certificates`;

/**
 * One statement, so that all values are from one moment when this instance is a member. On a primary that was
 * replaced without noticing, the commit waits for a standby that never connects.
 */
const HEARTBEAT = `WITH mine AS (
    UPDATE instances SET beat = beat + 1, seen = $3 WHERE name = $1 AND session = $2 RETURNING 1
  ) SELECT (SELECT count(*) FROM mine) AS mine, (SELECT oldest FROM schema_version) AS oldest,
    (extract(epoch FROM clock_timestamp()) * 1000)::int8 AS now, ${EPOCHS},
    (SELECT count(pg_notify($4, '${SEEN}')) FROM mine
      WHERE $5 = 1 AND EXISTS (SELECT FROM instances WHERE session <> $2)) AS told, ${OTHERS}
  FROM (SELECT 1) AS once LEFT JOIN instances i ON i.session <> $2`;

const GROUP = `SELECT ${EPOCHS}, ${OTHERS} FROM (SELECT 1) AS once LEFT JOIN instances i ON i.session <> $1`;

/** The tables for a migration: the number of changes, and the live instances. */
export const INSTANCE_TABLES: string = `CREATE TABLE epochs (
      topic text COLLATE "C" NOT NULL PRIMARY KEY,
      value int8 NOT NULL
    );
    INSERT INTO epochs VALUES ('state', 1), ('certificates', 1);
    CREATE TABLE instances (
      name text COLLATE "C" NOT NULL PRIMARY KEY,
      session text COLLATE "C" NOT NULL,
      version text COLLATE "C" NOT NULL,
      beat int8 NOT NULL,
      seen int8 NOT NULL
    );`;

/**
 * Makes a change with its number and notifies the instances. There is no notification for certificates,
 * because hundreds a second may be issued. The number is taken first, so that changes are committed in the
 * order of their numbers.
 */
export async function inEpoch<T>(
  query: Query,
  { topic, schema }: { readonly topic: keyof Epochs; readonly schema: string },
  action: (epoch: bigint) => Promise<T>,
): Promise<T> {
  const [row] = await query("UPDATE epochs SET value = value + 1 WHERE topic = $1 RETURNING value", [topic]);
  if (row === undefined) throw new TypeError(`there is no epoch of ${topic}`);
  // PostgreSQL sends the notification after the commit.
  const done = action(readBigint(row, "value"));
  const notified = topic === "state" ? query(`NOTIFY ${schema}`) : undefined;
  // If the action fails, the server rejects this statement as well. The error of the action is the cause.
  notified?.catch(() => {});
  const result = await done;
  await notified;
  return result;
}

/** The connection of one instance to the others. Its methods reject if the connection is lost, or too slow. */
export class PostgresLink {
  readonly #session: PostgresSession;
  readonly #schema: string;
  /** The epoch of the last notification. */
  #notified = 0n;

  /** Connects, and calls `onNotice` for the notifications in the schema. @throws {NoServerError} */
  static async connect(
    access: PostgresAccess,
    schema: string,
    onNotice: (notice: Notice) => void,
  ): Promise<PostgresLink> {
    const session = await access.connect((payload) => onNotice(payload === SEEN ? "seen" : "change"));
    return new PostgresLink(session, schema);
  }

  private constructor(session: PostgresSession, schema: string) {
    this.#session = session;
    this.#schema = schema;
  }

  /** The name of the server for the operator. */
  get server(): string {
    return this.#session.server;
  }

  /** Sends a heartbeat with the epoch of this instance's state, and notifies the others if the epoch has changed. */
  async heartbeat({ name, session }: InstanceIdentity, seen: bigint): Promise<Heartbeat> {
    const isChanged = seen === this.#notified ? 0 : 1;
    const rows = await this.#session.query(HEARTBEAT, [name, session, seen, this.#schema, isChanged]);
    this.#notified = seen;
    const [row] = rows;
    if (row === undefined) throw new TypeError("The heartbeat returned no row");
    return {
      isMember: readInteger(row, "mine") === 1,
      schema: readInteger(row, "oldest"),
      now: readInteger(row, "now"),
      ...readSeen(rows),
    };
  }

  /** Reads which epochs others have confirmed. It does not prove that the state of this instance is current. */
  async readGroup({ session }: InstanceIdentity): Promise<GroupState> {
    return readSeen(await this.#session.query(GROUP, [session]));
  }

  /** Reads at one moment, from the server of the heartbeats. The result is valid if a later heartbeat succeeds. */
  async read<T>(action: (query: Query) => Promise<T>): Promise<T> {
    await this.#session.query("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY");
    const result = await action((text, parameters) => this.#session.query(text, parameters));
    await this.#session.query("COMMIT");
    return result;
  }

  /** Registers a name. @returns false if another instance has it */
  async enter({ name, session }: InstanceIdentity, version: string): Promise<boolean> {
    const rows = await this.#session.query(
      "INSERT INTO instances VALUES ($1, $2, $3, 0, 0) ON CONFLICT DO NOTHING RETURNING 1",
      [name, session, version],
    );
    return rows.length === 1;
  }

  /** All instances. */
  async list(): Promise<readonly OtherInstance[]> {
    return (await this.#session.query(`SELECT ${OTHERS} FROM instances i`)).map(readOther);
  }

  /** Removes an instance, unless it has sent a heartbeat since. */
  async evict({ name, session, beat }: OtherInstance): Promise<void> {
    const statement = "DELETE FROM instances WHERE name = $1 AND session = $2 AND beat = $3";
    await this.#session.query(statement, [name, session, beat]);
  }

  /** Closes the connection immediately. */
  close(): void {
    this.#session.close();
  }
}

/** The current epochs. */
export async function readEpochs(query: Query): Promise<Epochs> {
  const [row] = await query(`SELECT ${EPOCHS}`);
  if (row === undefined) throw new TypeError("The epochs are gone");
  return { state: readBigint(row, "state"), certificates: readBigint(row, "certificates") };
}

function readSeen(rows: readonly Row[]): GroupState {
  const [row = {}] = rows;
  return {
    state: readBigint(row, "state"),
    certificates: readBigint(row, "certificates"),
    others: rows.filter((each) => each["name"] !== null).map(readOther),
  };
}

function readOther(row: Row): OtherInstance {
  return {
    name: readText(row, "name"),
    session: readText(row, "session"),
    beat: readBigint(row, "beat"),
    seen: readBigint(row, "seen"),
  };
}

function readBigint(row: Row, column: string): bigint {
  const value = row[column];
  if (typeof value !== "bigint") throw new TypeError(`column ${column} is not an integer`);
  return value;
}

/** The numbers of the last changes. They only grow. */
export interface Epochs {
  readonly state: bigint;
  /** Issued certificates; constant in a control plane. */
  readonly certificates: bigint;
}

/** A name, and a session that is new with each start and each return. */
export interface InstanceIdentity {
  readonly name: string;
  readonly session: string;
}

/** Another instance at its last heartbeat. It enforces all changes up to the epoch `seen`. */
export interface OtherInstance extends InstanceIdentity {
  readonly beat: bigint;
  readonly seen: bigint;
}

/** The epochs and the other instances, at one moment after the query. */
export interface GroupState extends Epochs {
  readonly others: readonly OtherInstance[];
}

/** The result of a heartbeat. */
export interface Heartbeat extends GroupState {
  /** False if others have evicted this instance, and no longer wait for it. */
  readonly isMember: boolean;
  /** The oldest version of the tables whose programs may use the current tables. */
  readonly schema: number;
  /** The time of the database, in milliseconds since the epoch. */
  readonly now: number;
}

/** A connection of one instance to the others. */
export type InstanceLink = Pick<PostgresLink, keyof PostgresLink>;

/** The state has changed, or another instance has confirmed a change. */
export type Notice = "change" | "seen";

/** The shared state, seen from one instance. */
export interface Shared {
  /** The version of the tables that this program knows. */
  readonly schema: number;
  /** Opens a connection. Notifications can get lost. */
  connect(onNotice: (notice: Notice) => void): Promise<InstanceLink>;
}
