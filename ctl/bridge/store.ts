import {
  insertInto,
  readInteger,
  readText,
  type Row,
  selectColumns,
  SqliteAccess,
  type StateFile,
  type StateSchema,
} from "@gateway/shared/state";
import type { Click } from "./chat.ts";

const SCHEMA: StateSchema = {
  owner: "approval bridge",
  migrations: [
    `CREATE TABLE messages (
      approval TEXT PRIMARY KEY,
      nonce TEXT NOT NULL,
      content TEXT NOT NULL,
      message TEXT NOT NULL DEFAULT '',
      shown TEXT NOT NULL DEFAULT '',
      begun_at INTEGER NOT NULL
    );
    CREATE TABLE clicks (
      key TEXT PRIMARY KEY,
      message TEXT NOT NULL,
      nonce TEXT NOT NULL,
      user TEXT NOT NULL,
      verb TEXT NOT NULL,
      ttl_seconds INTEGER NOT NULL,
      taken_at INTEGER NOT NULL,
      is_done INTEGER NOT NULL DEFAULT 0
    );`,
    // The IDs of the identical requests that the message shows, separated by spaces.
    "ALTER TABLE messages ADD COLUMN joined TEXT NOT NULL DEFAULT '';",
  ],
  loss: "pending requests are posted again, and the buttons of earlier messages stop working",
};

const TEXTS = ["approval", "nonce", "content", "joined", "message", "shown"] as const;
const CLICK_TEXTS = ["key", "message", "nonce", "user", "verb"] as const;
const POSTED = `SELECT ${selectColumns(TEXTS, ["begun_at"])} FROM messages ORDER BY begun_at, rowid`;
const CLICKS = `SELECT ${selectColumns(CLICK_TEXTS, ["ttl_seconds"])} FROM clicks
  WHERE is_done = 0 ORDER BY taken_at, rowid`;

/** An approval whose message is in the chat, or is being posted. */
export type Posted = ReturnType<typeof readPosted>;

/** The bridge's durable state: a change is on the disk when its promise resolves. */
export class BridgeStore {
  readonly #database: SqliteAccess;

  private constructor(database: SqliteAccess) {
    this.#database = database;
  }

  static open(file: StateFile): BridgeStore {
    return new BridgeStore(SqliteAccess.open(SCHEMA, file));
  }

  posted(): Promise<readonly Posted[]> {
    return this.#database.read(() => this.#database.rows(POSTED).map(readPosted));
  }

  async begin({ approval, nonce, content, joined, begunAt }: Omit<Posted, "message" | "shown">) {
    const row = { approval, nonce, content, joined: joined.join(" "), begun_at: begunAt };
    await this.#change(insertInto("messages", Object.keys(row)), row);
  }

  async show(approval: string, message: string, shown: string): Promise<void> {
    const sql = "UPDATE messages SET message = :message, shown = :shown WHERE approval = :approval";
    await this.#change(sql, { approval, message, shown });
  }

  async forget(approval: string): Promise<void> {
    await this.#change("DELETE FROM messages WHERE approval = :approval", { approval });
  }

  /** Records a click. @returns whether it is new */
  async take({ key, message, nonce = "", user, verb }: Click, takenAt: number): Promise<boolean> {
    const ttl_seconds = verb.kind === "learn" ? verb.ttlSeconds : 0;
    const row = { key, message, nonce, user, verb: verb.kind, ttl_seconds, taken_at: takenAt };
    const sql = `${insertInto("clicks", Object.keys(row))} ON CONFLICT (key) DO NOTHING`;
    return await this.#change(sql, row) === 1;
  }

  undone(): Promise<readonly Click[]> {
    return this.#database.read(() => this.#database.rows(CLICKS).map(readClick));
  }

  async done(key: string): Promise<void> {
    await this.#change("UPDATE clicks SET is_done = 1 WHERE key = :key", { key });
  }

  /** Removes the clicks that no chat delivers again. */
  async forgetClicks(before: number): Promise<void> {
    await this.#change("DELETE FROM clicks WHERE is_done = 1 AND taken_at < :before", { before });
  }

  close(): Promise<void> {
    return this.#database.close();
  }

  #change(sql: string, parameters: Record<string, string | number>) {
    return this.#database.change(() => this.#database.run(sql, parameters));
  }
}

function readPosted(row: Row) {
  return {
    approval: readText(row, "approval"),
    nonce: readText(row, "nonce"),
    /** The digest of the request's content when it was posted. */
    content: readText(row, "content"),
    /** The identical requests at the time of the post, which the buttons decide too. Later ones are not included. */
    joined: readText(row, "joined").split(" ").filter(Boolean) as readonly string[],
    /** Empty: a post was started, and its result is unknown. */
    message: readText(row, "message"),
    /** The digest of the message's content; empty: unknown. */
    shown: readText(row, "shown"),
    begunAt: readInteger(row, "begun_at"),
  };
}

function readClick(row: Row): Click {
  const kind = readText(row, "verb");
  const nonce = readText(row, "nonce");
  if (kind !== "approve" && kind !== "deny" && kind !== "learn") {
    throw new TypeError("column verb has an unknown value");
  }
  return {
    key: readText(row, "key"),
    message: readText(row, "message"),
    ...(nonce !== "" && { nonce }),
    user: readText(row, "user"),
    verb: kind === "learn" ? { kind, ttlSeconds: readInteger(row, "ttl_seconds") } : { kind },
  };
}
