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

/** How another implementation of the control plane keeps approvals, in whole seconds. */
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

/** All of a file, also what its log still holds. */
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

interface Row {
  readonly name: string;
  readonly opener: keyof typeof OPEN;
  readonly sql: string;
  readonly cause: RegExp;
  /** By default another file. */
  readonly remedy?: RegExp;
}

const OWN_FILE = /name a separate or new file in state_db; this one was not changed$/;
const LATER = /start the program version that wrote it, or a later one; the file was not changed$/;
const BACKUP = /keep this file, and restore a backup; without a backup, move the file away, and its /;

Deno.test.each<Row>([
  {
    name: "that is the control plane's",
    opener: "signer",
    sql: `${CONTROL_MIGRATIONS.join("\n")} PRAGMA application_id = ${CONTROL_PLANE_ID}`,
    cause: /it is the state database of a control plane, not of a signer/,
  },
  {
    name: "that is the signer's",
    opener: "control plane",
    sql: `${MIGRATIONS.join("\n")} PRAGMA user_version = 2; PRAGMA application_id = ${SIGNER_ID}`,
    cause: /it is the state database of a signer, not of a control plane/,
  },
  {
    name: "that is marked as another program's",
    opener: "signer",
    sql: "PRAGMA application_id = 252006675",
    cause: /it is another program's \(application_id 252006675\), not of a signer/,
  },
  {
    name: "with a table of another program",
    opener: "signer",
    sql: "CREATE TABLE freezes (x)",
    cause: /it is another program's: it has a table "freezes", which a signer's of version 0 has not/,
  },
  {
    name: "of another program's version 2",
    opener: "signer",
    sql: "CREATE TABLE cookies (x); PRAGMA user_version = 2",
    cause: /it is another program's: it has no table "freezes", which a signer's of version 2 has/,
  },
  {
    name: "with a trigger that ends freezes",
    opener: "signer",
    sql: `${MIGRATIONS.join("\n")} ${mark(MIGRATIONS.length, SIGNER_ID)};
      CREATE TRIGGER melt AFTER INSERT ON freezes BEGIN DELETE FROM freezes; END`,
    cause: /it is damaged: it has a trigger "melt"/,
    remedy: BACKUP,
  },
  {
    name: "of another implementation, with approvals",
    opener: "control plane",
    sql: `${OTHER_APPROVALS} ${IN_SECONDS}`,
    cause: /another implementation wrote it, with times in seconds instead of milliseconds/,
  },
  {
    name: "of another implementation, without approvals",
    opener: "control plane",
    sql: OTHER_APPROVALS,
    cause: /it is another program's: it has no column "anomalies" in table "approvals"/,
  },
  {
    name: "with our tables and times in seconds",
    opener: "control plane",
    sql: `${CONTROL_MIGRATIONS.join("\n")} PRAGMA user_version = ${CONTROL_MIGRATIONS.length}; ${IN_SECONDS}`,
    cause: /another implementation wrote it, with times in seconds instead of milliseconds/,
  },
  {
    name: "of a later version of the signer",
    opener: "signer",
    sql: mark(MIGRATIONS.length + 1, SIGNER_ID),
    cause: /its version is 7 and this program knows 6/,
    remedy: LATER,
  },
  {
    name: "of a later version of the control plane",
    opener: "control plane",
    sql: mark(CONTROL_MIGRATIONS.length + 1, CONTROL_PLANE_ID),
    cause: /its version is 6 and this program knows 5/,
    remedy: LATER,
  },
  {
    name: "that has lost a table",
    opener: "signer",
    sql: `${MIGRATIONS[0]} ${mark(2, SIGNER_ID)}`,
    cause: /it is damaged: it has no table "freezes"/,
    remedy: BACKUP,
  },
])("a $opener refuses a state_db $name with path, cause and remedy, and leaves it as it is", (row) => {
  using folder = new StateFolder();
  folder.exec(row.sql);
  const before = dump(folder.path);
  assert.throws(() => OPEN[row.opener](folder.path), (error) => {
    const text = errorText(error);
    assert.ok(text.startsWith(`Cannot open state_db ${JSON.stringify(folder.path)}: `), text);
    assert.match(text, row.cause);
    assert.match(text, row.remedy ?? OWN_FILE);
    return true;
  });
  assert.deepEqual(dump(folder.path), before);
  assert.throws(() => OPEN[row.opener](folder.path), { code: "invalid_config", message: row.cause }, "again");
});

Deno.test.each(["signer", "control plane"] as const)(
  "a %s refuses a state_db that is not a database, and leaves it as it is",
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

Deno.test.each([
  { opener: "signer" as const, id: SIGNER_ID },
  { opener: "control plane" as const, id: CONTROL_PLANE_ID },
])("a $opener marks a new state_db as its own", async ({ opener, id }) => {
  using folder = new StateFolder();
  await OPEN[opener](folder.path).close();
  assert.deepEqual(folder.query("PRAGMA application_id"), [{ application_id: id }]);
});

Deno.test.each([
  {
    opener: "signer" as const,
    id: SIGNER_ID,
    fillIn: async (path: string) => {
      const store = OPEN.signer(path);
      await store.putFreeze(freezeOf());
      await store.close();
    },
    look: async (path: string) => {
      const store = OPEN.signer(path);
      assert.deepEqual(await store.loadFreezes(), [freezeOf()]);
      await store.close();
    },
  },
  {
    opener: "control plane" as const,
    id: CONTROL_PLANE_ID,
    fillIn: async (path: string) => {
      const store = OPEN["control plane"](path);
      await store.insertApproval(approvalOf());
      await store.close();
    },
    look: async (path: string) => {
      const store = OPEN["control plane"](path);
      assert.deepEqual(await store.loadApprovals(EVER), [approvalOf()]);
      await store.close();
    },
  },
])("a $opener takes over and marks a state_db of its tables that has no mark yet", async (row) => {
  using folder = new StateFolder();
  await row.fillIn(folder.path);
  folder.exec("PRAGMA application_id = 0");
  await row.look(folder.path);
  assert.deepEqual(folder.query("PRAGMA application_id"), [{ application_id: row.id }]);
});
