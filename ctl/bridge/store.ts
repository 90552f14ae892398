import {
  insertInto,
  readFlag,
  readInteger,
  readText,
  type Row,
  selectColumns,
  SqliteAccess,
  type StateFile,
  type StateSchema,
} from "@gateway/shared/state";
import type { Verb } from "./card.ts";
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
    // The ids of the identical requests that the message shows, separated by spaces.
    "ALTER TABLE messages ADD COLUMN joined TEXT NOT NULL DEFAULT '';",
  ],
  loss: "what waits is posted once more, and the buttons of the messages before do nothing",
};

/** An approval that is in the chat, or is about to be. */
export interface Posted {
  readonly approval: string;
  readonly nonce: string;
  /** Of what it asked for when it was posted. */
  readonly content: string;
  /** The identical requests that its buttons decide too: those of the time when it was posted, and none that came later. */
  readonly joined: readonly string[];
  /** Empty: it was to be posted, and nobody knows what came of it. */
  readonly message: string;
  /** What the message looks like; empty: not known. */
  readonly shown: string;
  /** Milliseconds since the epoch. */
  readonly begunAt: number;
}

const TEXTS = ["approval", "nonce", "content", "joined", "message", "shown"] as const;
const CLICK_TEXTS = ["key", "message", "nonce", "user", "verb"] as const;
const POSTED = `SELECT ${selectColumns(TEXTS, ["begun_at"])} FROM messages ORDER BY begun_at, rowid`;
const CLICKS = `SELECT ${selectColumns(CLICK_TEXTS, ["ttl_seconds", "is_done"])} FROM clicks
  WHERE is_done = 0 ORDER BY taken_at, rowid`;
const VERBS: readonly string[] = ["approve", "deny", "learn"];

/** What the bridge must not forget when it ends, however that happens; every change is on the disk when it resolves. */
export class BridgeStore {
  readonly #database: SqliteAccess;

  private constructor(database: SqliteAccess) {
    this.#database = database;
  }

  /** @throws {AppError} `invalid_config` with cause and remedy when the file can't be used */
  static open(file: StateFile): BridgeStore {
    return new BridgeStore(SqliteAccess.open(SCHEMA, file));
  }

  posted(): Promise<readonly Posted[]> {
    return this.#database.read(() => this.#database.rows(POSTED).map(readPosted));
  }

  /** Notes that something is about to be posted. */
  begin({ approval, nonce, content, joined, begunAt }: Omit<Posted, "message" | "shown">): Promise<void> {
    const row = { approval, nonce, content, joined: joined.join(" "), begun_at: begunAt };
    return this.#change(insertInto("messages", Object.keys(row)), row);
  }

  /** Notes what a message is, and what it looks like. */
  show(approval: string, message: string, shown: string): Promise<void> {
    const sql = "UPDATE messages SET message = :message, shown = :shown WHERE approval = :approval";
    return this.#change(sql, { approval, message, shown });
  }

  forget(approval: string): Promise<void> {
    return this.#change("DELETE FROM messages WHERE approval = :approval", { approval });
  }

  /** Notes a click. @returns whether it is new */
  async take({ key, message, nonce = "", user, verb }: Click, takenAt: number): Promise<boolean> {
    const row = { key, message, nonce, user, verb: verb.kind, ttl_seconds: ttlOf(verb), taken_at: takenAt };
    const sql = `${insertInto("clicks", Object.keys(row))} ON CONFLICT (key) DO NOTHING`;
    return await this.#database.change(() => this.#database.run(sql, row)) === 1;
  }

  /** The clicks that nothing has come of yet. */
  undone(): Promise<readonly Click[]> {
    return this.#database.read(() => this.#database.rows(CLICKS).map(readClick));
  }

  /** Notes that something has come of a click. */
  done(key: string): Promise<void> {
    return this.#change("UPDATE clicks SET is_done = 1 WHERE key = :key", { key });
  }

  /** Forgets the clicks that no chat delivers again. */
  forgetClicks(before: number): Promise<void> {
    return this.#change("DELETE FROM clicks WHERE is_done = 1 AND taken_at < :before", { before });
  }

  close(): Promise<void> {
    return this.#database.close();
  }

  async #change(sql: string, parameters: Record<string, string | number>): Promise<void> {
    await this.#database.change(() => this.#database.run(sql, parameters));
  }
}

function ttlOf(verb: Verb): number {
  return verb.kind === "learn" ? verb.ttlSeconds : 0;
}

function readPosted(row: Row): Posted {
  return {
    approval: readText(row, "approval"),
    nonce: readText(row, "nonce"),
    content: readText(row, "content"),
    joined: readText(row, "joined").split(" ").filter(Boolean),
    message: readText(row, "message"),
    shown: readText(row, "shown"),
    begunAt: readInteger(row, "begun_at"),
  };
}

function readClick(row: Row): Click {
  readFlag(row, "is_done");
  const kind = readText(row, "verb");
  const nonce = readText(row, "nonce");
  if (!VERBS.includes(kind)) throw new TypeError("column verb is no verb");
  return {
    key: readText(row, "key"),
    message: readText(row, "message"),
    ...(nonce !== "" && { nonce }),
    user: readText(row, "user"),
    verb: kind === "learn"
      ? { kind, ttlSeconds: readInteger(row, "ttl_seconds") }
      : { kind: kind as "approve" | "deny" },
  };
}
