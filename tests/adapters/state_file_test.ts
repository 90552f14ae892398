import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { errorText } from "@gateway/shared/errors";
import {
  MIGRATIONS as CONTROL_MIGRATIONS,
  openSqliteControlStore,
} from "../../control_plane/state/sqlite.ts";
import { approvalOf, EVER } from "../../control_plane/testing/sample_approval.ts";
import { MIGRATIONS } from "../../signer/live/state/schema.ts";
import { openSqliteStore } from "../../signer/live/state/store.ts";
import { freezeOf, StateFolder } from "./state_fixture.ts";

const SIGNER_ID = 0x67536967;
const CONTROL_PLANE_ID = 0x6743706c;

/** The approvals table of another control plane implementation, with times in seconds. */
const OTHER_APPROVALS = `CREATE TABLE approvals (id TEXT PRIMARY KEY, caller TEXT NOT NULL DEFAULT '',
  end_user TEXT NOT NULL DEFAULT '', host TEXT NOT NULL DEFAULT '', command TEXT NOT NULL DEFAULT '',
  sudo INTEGER NOT NULL DEFAULT 0, sudo_user TEXT NOT NULL DEFAULT '', rule TEXT NOT NULL DEFAULT '',
  status TEXT NOT NULL, consumed INTEGER NOT NULL DEFAULT 0, created_at INTEGER NOT NULL,
  decided_at INTEGER NOT NULL DEFAULT 0, decided_by TEXT NOT NULL DEFAULT '',
  learn_ttl_seconds INTEGER NOT NULL DEFAULT 0, request_json TEXT NOT NULL); PRAGMA user_version = 1;`;
const IN_SECONDS =
  "INSERT INTO approvals (id, status, created_at, request_json) VALUES ('a', 'pending', 1767323045, '{}');";

const OPEN = {
  signer: (path: string) => openSqliteStore({ path, warn: () => {}, lockWaitMs: 100 }),
  "control plane": (path: string) => openSqliteControlStore({ path, warn: () => {}, lockWaitMs: 100 }),
};

/** All content of a file, including its write-ahead log. */
function dump(path: string): unknown {
  using database = new DatabaseSync(path);
  const pragmas = ["application_id", "user_version", "journal_mode"];
  return [
    ...pragmas.map((pragma) => database.prepare(`PRAGMA ${pragma}`).get()),
    database.prepare("SELECT type, name, sql FROM sqlite_schema").all(),
  ];
}

const mark = (version: number, id: number) =>
  `PRAGMA user_version = ${version}; PRAGMA application_id = ${id}`;

const SIGNERS = MIGRATIONS.join("\n");
const CONTROL_PLANES = CONTROL_MIGRATIONS.join("\n");
const OWN_FILE = /name a separate or new file in state_db; this one was not changed$/;
const LATER = /start the program version that wrote it, or a later one; the file was not changed$/;
const BACKUP = /keep this file, and restore a backup; without a backup, move the file away, and its /;
const SECONDS = /another implementation wrote it, with times in seconds instead of milliseconds/;
const MELT = "CREATE TRIGGER melt AFTER INSERT ON freezes BEGIN DELETE FROM freezes; END";

Deno.test.each<[opener: keyof typeof OPEN, name: string, sql: string, cause: RegExp, remedy: RegExp]>([
  [
    "signer",
    "that is the control plane's",
    `${CONTROL_PLANES} PRAGMA application_id = ${CONTROL_PLANE_ID}`,
    /it is the state database of a control plane, not of a signer/,
    OWN_FILE,
  ],
  [
    "control plane",
    "that is the signer's",
    `${SIGNERS} ${mark(2, SIGNER_ID)}`,
    /it is the state database of a signer, not of a control plane/,
    OWN_FILE,
  ],
  [
    "signer",
    "that is marked as another program's",
    "PRAGMA application_id = 252006675",
    /it is another program's \(application_id 252006675\), not of a signer/,
    OWN_FILE,
  ],
  [
    "signer",
    "with a table of another program",
    "CREATE TABLE freezes (x)",
    /it is another program's: it has a table "freezes", which a signer's of version 0 has not/,
    OWN_FILE,
  ],
  [
    "signer",
    "of another program's version 2",
    "CREATE TABLE cookies (x); PRAGMA user_version = 2",
    /it is another program's: it has no table "freezes", which a signer's of version 2 has/,
    OWN_FILE,
  ],
  [
    "signer",
    "with a trigger that ends freezes",
    `${SIGNERS} ${mark(MIGRATIONS.length, SIGNER_ID)}; ${MELT}`,
    /it is damaged: it has a trigger "melt"/,
    BACKUP,
  ],
  [
    "control plane",
    "of another implementation, with approvals",
    `${OTHER_APPROVALS} ${IN_SECONDS}`,
    SECONDS,
    OWN_FILE,
  ],
  [
    "control plane",
    "of another implementation, without approvals",
    OTHER_APPROVALS,
    /it is another program's: it has no column "anomalies" in table "approvals"/,
    OWN_FILE,
  ],
  [
    "control plane",
    "with our tables and times in seconds",
    `${CONTROL_PLANES} PRAGMA user_version = ${CONTROL_MIGRATIONS.length}; ${IN_SECONDS}`,
    SECONDS,
    OWN_FILE,
  ],
  [
    "signer",
    "of a later version",
    mark(MIGRATIONS.length + 1, SIGNER_ID),
    /its version is 8 and this program knows 7/,
    LATER,
  ],
  [
    "control plane",
    "of a later version",
    mark(CONTROL_MIGRATIONS.length + 1, CONTROL_PLANE_ID),
    /its version is 7 and this program knows 6/,
    LATER,
  ],
  [
    "signer",
    "that has lost a table",
    `${MIGRATIONS[0]} ${mark(2, SIGNER_ID)}`,
    /it is damaged: it has no table "freezes"/,
    BACKUP,
  ],
])("a %s rejects a state_db %s with path, cause and fix, and leaves it unchanged", (...row) => {
  const [opener, , sql, cause, remedy] = row;
  using folder = new StateFolder();
  folder.exec(sql);
  const before = dump(folder.path);
  assert.throws(() => OPEN[opener](folder.path), (error) => {
    const text = errorText(error);
    assert.ok(text.startsWith(`Cannot open state_db ${JSON.stringify(folder.path)}: `), text);
    assert.match(text, cause);
    assert.match(text, remedy);
    return true;
  });
  assert.deepEqual(dump(folder.path), before);
  assert.throws(() => OPEN[opener](folder.path), { code: "invalid_config", message: cause }, "again");
});

Deno.test.each(["signer", "control plane"] as const)(
  "a %s rejects a state_db that is not a database, and leaves it unchanged",
  (opener) => {
    using folder = new StateFolder();
    Deno.writeTextFileSync(folder.path, "x".repeat(5000));
    assert.throws(() => OPEN[opener](folder.path), {
      code: "invalid_config",
      message:
        /file is not a database; name a separate or new file in state_db; .* If it was ours it is damaged: .*restore a backup/,
    });
    assert.equal(Deno.readTextFileSync(folder.path), "x".repeat(5000));
  },
);

const IDS = { signer: SIGNER_ID, "control plane": CONTROL_PLANE_ID };

Deno.test.each(["signer", "control plane"] as const)(
  "a %s marks a new state_db as its own",
  async (opener) => {
    using folder = new StateFolder();
    await OPEN[opener](folder.path).close();
    assert.deepEqual(folder.query("PRAGMA application_id"), [{ application_id: IDS[opener] }]);
  },
);

/** Opens the same file twice, the second time without its application ID. */
async function openTwice<S extends { close(): Promise<void> }>(
  opener: keyof typeof OPEN,
  open: (path: string) => S,
  use: (store: S, isAgain: boolean) => Promise<void>,
): Promise<void> {
  using folder = new StateFolder();
  for (const isAgain of [false, true]) {
    if (isAgain) folder.exec("PRAGMA application_id = 0");
    const store = open(folder.path);
    await use(store, isAgain);
    await store.close();
  }
  assert.deepEqual(folder.query("PRAGMA application_id"), [{ application_id: IDS[opener] }]);
}

Deno.test("a signer accepts and marks an unmarked state_db with its tables", () =>
  openTwice("signer", OPEN.signer, async (store, isAgain) => {
    if (!isAgain) return await store.putFreeze(freezeOf());
    assert.deepEqual(await store.loadFreezes(), [freezeOf()]);
  }));

Deno.test("a control plane accepts and marks an unmarked state_db with its tables", () =>
  openTwice("control plane", OPEN["control plane"], async (store, isAgain) => {
    if (!isAgain) return await store.insertApproval(approvalOf());
    assert.deepEqual(await store.loadApprovals(EVER), [approvalOf()]);
  }));
