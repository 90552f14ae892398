/**
 * What the instances of a service tell each other by PostgreSQL.
 *
 * @module
 */
import { readInteger, readText, type Row } from "../state/columns.ts";
import type { PostgresAccess, PostgresSession, Query } from "../state/postgres_access.ts";
import type { Clock } from "../clock.ts";

/** In a notification: an instance decides by a change. Any other is of a change. */
const SEEN = "seen";
const OTHERS = "convert_to(i.name, 'UTF8') AS name, convert_to(i.session, 'UTF8') AS session, i.beat, i.seen";

/**
 * One statement, so that all of it is of one moment, and that this instance still counts is certain at that moment. On
 * a primary that was replaced without knowing it, the commit waits for a standby that will not come.
 */
const BEAT = `WITH mine AS (
    UPDATE instances SET beat = beat + 1, seen = $3 WHERE name = $1 AND session = $2 RETURNING 1
  ) SELECT (SELECT count(*) FROM mine) AS mine, (SELECT oldest FROM schema_version) AS oldest,
    (extract(epoch FROM clock_timestamp()) * 1000)::int8 AS now,
    (SELECT value FROM epochs WHERE topic = 'state') AS state,
    (SELECT value FROM epochs WHERE topic = 'certificates') AS certificates,
    (SELECT count(pg_notify($4, '${SEEN}')) FROM mine
      WHERE $5 = 1 AND EXISTS (SELECT FROM instances WHERE session <> $2)) AS told, ${OTHERS}
  FROM (SELECT 1) AS once LEFT JOIN instances i ON i.session <> $2`;

/** Likewise, without a word of its own. */
const LOOK = `SELECT (SELECT value FROM epochs WHERE topic = 'state') AS state,
    (SELECT value FROM epochs WHERE topic = 'certificates') AS certificates, ${OTHERS}
  FROM (SELECT 1) AS once LEFT JOIN instances i ON i.session <> $1`;

/** The tables that it needs, for a migration: how often what was changed, and who lives. */
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
 * Runs a change under its number, and wakes all that listen; not for certificates, of which there may be hundreds a
 * second: who waits for them looks for them. The number is taken first, so that changes are committed in the order of
 * their numbers.
 *
 * @param schema whose instances are woken
 */
export async function inEpoch<T>(
  query: Query,
  { topic, schema }: { readonly topic: keyof Epochs; readonly schema: string },
  action: (epoch: bigint) => Promise<T>,
): Promise<T> {
  const [row] = await query("UPDATE epochs SET value = value + 1 WHERE topic = $1 RETURNING value", [topic]);
  if (row === undefined) throw new TypeError(`there is no epoch of ${topic}`);
  // Nobody hears of it before the commit.
  const done = action(readBigint(row, "value"));
  const told = topic === "state" ? query(`NOTIFY ${schema}`) : undefined;
  // After a failed statement the server rejects all others. The failure of the action is the cause.
  told?.catch(() => {});
  const result = await done;
  await told;
  return result;
}

/** The link of one instance to the others, over a connection of its own that also listens. */
export class PostgresLink implements InstanceLink {
  readonly #session: PostgresSession;
  readonly #schema: string;
  /** The epoch that the others were last told. */
  #told = 0n;

  /**
   * Connects.
   *
   * @param schema whose instances they are
   * @param onNews told of what others do
   * @throws {Error} if no server accepts the connection
   */
  static async connect(
    access: PostgresAccess,
    schema: string,
    onNews: (news: News) => void,
  ): Promise<PostgresLink> {
    const session = await access.connect((payload) => onNews(payload === SEEN ? "seen" : "change"));
    return new PostgresLink(session, schema);
  }

  private constructor(session: PostgresSession, schema: string) {
    this.#session = session;
    this.#schema = schema;
  }

  get server(): string {
    return this.#session.server;
  }

  async beat({ name, session }: InstanceIdentity, seen: bigint): Promise<Beat> {
    const isNews = seen === this.#told ? 0 : 1;
    const rows = await this.#session.query(BEAT, [name, session, seen, this.#schema, isNews]);
    this.#told = seen;
    const [row] = rows;
    if (row === undefined) throw new TypeError("The beat gives no row");
    return {
      isMember: readInteger(row, "mine") === 1,
      schema: readInteger(row, "oldest"),
      now: readInteger(row, "now"),
      ...readSeen(rows),
    };
  }

  async look({ session }: InstanceIdentity): Promise<Seen> {
    return readSeen(await this.#session.query(LOOK, [session]));
  }

  async read<T>(action: (query: Query) => Promise<T>): Promise<T> {
    await this.#session.query("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY");
    const result = await action((text, parameters) => this.#session.query(text, parameters));
    await this.#session.query("COMMIT");
    return result;
  }

  async enter({ name, session }: InstanceIdentity, version: string): Promise<boolean> {
    const rows = await this.#session.query(
      "INSERT INTO instances VALUES ($1, $2, $3, 0, 0) ON CONFLICT DO NOTHING RETURNING 1",
      [name, session, version],
    );
    return rows.length === 1;
  }

  async list(): Promise<readonly OtherInstance[]> {
    return (await this.#session.query(`SELECT ${OTHERS} FROM instances i`)).map(readOther);
  }

  async evict({ name, session, beat }: OtherInstance): Promise<void> {
    await this.#session.query("DELETE FROM instances WHERE name = $1 AND session = $2 AND beat = $3", [
      name,
      session,
      beat,
    ]);
  }

  close(): void {
    this.#session.close();
  }
}

/** How often what was changed. */
export async function readEpochs(query: Query): Promise<Epochs> {
  const [row] = await query(
    `SELECT (SELECT value FROM epochs WHERE topic = 'state') AS state,
      (SELECT value FROM epochs WHERE topic = 'certificates') AS certificates`,
  );
  if (row === undefined) throw new TypeError("The epochs are gone");
  return { state: readBigint(row, "state"), certificates: readBigint(row, "certificates") };
}

function readSeen(rows: readonly Row[]): Seen {
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

/** How often something was changed: numbers that only grow. */
export interface Epochs {
  readonly state: bigint;
  /** Certificates that were issued; nothing of a control plane. */
  readonly certificates: bigint;
}

/** The time of the database, as an instance knows it between its looks. */
export interface InstanceClock extends Clock {
  /** By how much this machine's clock is certainly ahead of it, or behind it: negative. In milliseconds. */
  readonly offset: number;
}

/** Who an instance is; `session` is new with each start and each return. */
export interface InstanceIdentity {
  readonly name: string;
  /** An id that nobody has had before. */
  readonly session: string;
}

/** Another instance, as it was at its last beat. */
export interface OtherInstance extends InstanceIdentity {
  readonly beat: bigint;
  /** Decides by everything up to this epoch. */
  readonly seen: bigint;
}

/** Who has seen what. All of it was so at one moment after it was asked for. */
export interface Seen extends Epochs {
  /** All that are entered but this one. */
  readonly others: readonly OtherInstance[];
}

/** What a beat learns. */
export interface Beat extends Seen {
  /** False: others take this instance for gone, and no longer wait for it. */
  readonly isMember: boolean;
  /** The oldest version of the tables whose programs may use them. */
  readonly schema: number;
  /** What the database's clock showed; milliseconds since the epoch. */
  readonly now: number;
}

/** A connection of one instance to the others. Each call rejects where it is lost or takes too long. */
export interface InstanceLink {
  /** Which server it is to, for the operator. */
  readonly server: string;
  /**
   * Says that the instance lives, and by what it decides; those who wait for that hear of it where it is another state
   * than at the last beat. It is committed as durably as any change.
   */
  beat(self: InstanceIdentity, seen: bigint): Promise<Beat>;
  /** Who has seen what. It says nothing of whether what this instance decides by still holds. */
  look(self: InstanceIdentity): Promise<Seen>;
  /**
   * Reads at one moment, from the server that the beats are of: what it holds is in force, if a later beat succeeds.
   */
  read<T>(action: (query: Query) => Promise<T>): Promise<T>;
  /** Enters a name that nobody has. */
  enter(self: InstanceIdentity, version: string): Promise<boolean>;
  list(): Promise<readonly OtherInstance[]>;
  /** Takes an instance off the list, unless it has beaten since. */
  evict(silent: OtherInstance): Promise<void>;
  /** At once, whatever is under way. */
  close(): void;
}

/** What wakes an instance: the state has changed, or another instance decides by a change. */
export type News = "change" | "seen";

/** What instances share, as far as they know of each other by it. */
export interface Shared {
  /** The version of the tables that this program knows. */
  readonly schema: number;
  /**
   * A connection of its own.
   *
   * @param onNews told of what others do; it may also get lost
   */
  connect(onNews: (news: News) => void): Promise<InstanceLink>;
}
