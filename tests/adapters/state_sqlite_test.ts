import assert from "node:assert/strict";
import { SqliteAccess } from "@gateway/shared/state";
import { MIGRATIONS } from "../../signer/live/state/schema.ts";
import { openSqliteStore, type StateStore } from "../../signer/live/state/store.ts";
import { batchOf, freezeOf, grantOf, NOW, openShared, StateFolder } from "./state_fixture.ts";
import { diskTest, TinyDisk } from "./tiny_disk.ts";
import { runUntilKilled } from "./killed_writer.ts";
import type { Notice } from "@gateway/shared/instances";
import { poll } from "../stage/poll.ts";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";

const DAMAGED = /state\.db": .*(damaged|malformed).*; .* restore a backup; .*repeat the freezes$/;

async function contents(store: StateStore): Promise<unknown> {
  const contents = [await store.loadGrants(NOW), await store.loadFreezes()];
  await store.close();
  return contents;
}

Deno.test("a new database has version 7, the exact schema and owner-only permissions", async () => {
  using folder = new StateFolder();
  await folder.open().close();
  assert.deepEqual(folder.query("PRAGMA user_version"), [{ user_version: 7 }]);
  assert.deepEqual(folder.query("PRAGMA journal_mode"), [{ journal_mode: "wal" }]);
  const names = folder.query("SELECT name FROM sqlite_master WHERE sql IS NOT NULL ORDER BY name");
  assert.equal(
    names.map(({ name }) => name).join(" "),
    "certificates certificates_valid freezes grants grants_expires krl leases revocations",
  );
  const columns = (table: string) =>
    folder.query(`PRAGMA table_info(${table})`)
      .map(({ name, type, notnull, dflt_value, pk }) => `${name} ${type} ${notnull} ${dflt_value} ${pk}`);
  assert.deepEqual(columns("grants"), [
    "id TEXT 0 null 1",
    "host TEXT 1 null 0",
    "allow TEXT 1 '[]' 0",
    "waive_approval TEXT 1 '[]' 0",
    "caller TEXT 1 '' 0",
    "end_user TEXT 1 '' 0",
    "sudo INTEGER 1 0 0",
    "sudo_user TEXT 1 '' 0",
    "approver TEXT 1 '' 0",
    "approval_id TEXT 1 '' 0",
    "granted_at INTEGER 1 null 0",
    "expires_at INTEGER 1 null 0",
    "content_sha256 TEXT 1 '' 0",
  ]);
  assert.deepEqual(columns("freezes"), [
    "kind TEXT 1 null 1",
    "value TEXT 1 null 2",
    "reason TEXT 1 '' 0",
    "frozen_by TEXT 1 '' 0",
    "frozen_at INTEGER 1 null 0",
  ]);
  assert.equal((Deno.statSync(folder.path).mode ?? 0) & 0o777, 0o600);
});

Deno.test("a change is durable when acknowledged, also after an unsynced change", async () => {
  using folder = new StateFolder();
  const schema = { owner: "signer", migrations: MIGRATIONS, loss: "" } as const;
  const access = SqliteAccess.open(schema, { path: folder.path, warn: () => {} });
  const synchronous = () => access.rows("PRAGMA synchronous")[0]?.["synchronous"];
  const [NORMAL, FULL] = [1n, 2n];
  assert.equal(await access.change(synchronous), FULL);
  assert.equal(await access.changeUnsynced(synchronous), NORMAL);
  await assert.rejects(access.changeUnsynced(() => access.run("no SQL", {})));
  assert.equal(await access.change(synchronous), FULL);
  await access.close();
});

Deno.test("grants and freezes are restored at the next start (K1)", async () => {
  using folder = new StateFolder();
  const first = folder.open();
  await first.insertGrant(grantOf());
  await first.putFreeze(freezeOf());
  await first.close();
  assert.deepEqual(await contents(folder.open()), [[grantOf()], [freezeOf()]]);
});

Deno.test.each([0, 1, 2, 3, 4, 5, 6])(
  "a database of version %d is migrated to version 7 with its grants",
  async (version) => {
    using folder = new StateFolder();
    folder.exec(`${MIGRATIONS.slice(0, version).join("\n")} PRAGMA user_version = ${version}`);
    if (version > 0) {
      folder.exec(
        `INSERT INTO grants (id, host, allow, granted_at, expires_at)
        VALUES ('a', 'web01', '["^id$"]', ${NOW / 1000}, ${NOW / 1000 + 60})`,
      );
    }
    const kept = version > 0 ? [grantOf({ id: "a", allow: ["^id$"], approver: "" })] : [];
    const store = folder.open();
    await store.putFreeze(freezeOf());
    assert.deepEqual(await contents(store), [kept, [freezeOf()]]);
    assert.deepEqual(folder.query("PRAGMA user_version"), [{ user_version: 7 }]);
  },
);

Deno.test("a damaged database is rejected because a freeze may be missing", async () => {
  using folder = new StateFolder();
  const store = folder.open();
  for (let n = 0; n < 500; n++) await store.putFreeze(freezeOf({ value: `broker-${n}` }));
  await store.close();
  const [page] = folder.query("SELECT rootpage FROM sqlite_master WHERE name = 'sqlite_autoindex_freezes_1'");
  using file = Deno.openSync(folder.path, { write: true });
  // Damage the first page of the index, so that lookups by key find nothing.
  file.seekSync((Number(page?.["rootpage"]) - 1) * 4096 + 2048, Deno.SeekMode.Start);
  file.writeSync(new Uint8Array(2048));
  assert.throws(() => folder.open(), { code: "invalid_config", message: DAMAGED });
});

Deno.test.each([
  { name: "is truncated", damage: (file: Deno.FsFile) => file.truncateSync(6000) },
  { name: "has lost its list of tables", damage: (file: Deno.FsFile) => overwrite(file, 100) },
  { name: "has lost the beginning of a table", damage: (file: Deno.FsFile) => overwrite(file, 4096) },
])("a database that $name is rejected with a fix", async ({ damage }) => {
  using folder = new StateFolder();
  const store = folder.open();
  for (let n = 0; n < 100; n++) await store.putFreeze(freezeOf({ value: `broker-${n}` }));
  await store.close();
  {
    using file = Deno.openSync(folder.path, { write: true });
    damage(file);
  }
  assert.throws(() => folder.open(), { code: "invalid_config", message: DAMAGED });
});

function overwrite(file: Deno.FsFile, offset: number): void {
  file.seekSync(offset, Deno.SeekMode.Start);
  file.writeSync(new Uint8Array(500).fill(0xaa));
}

Deno.test("a database in use is rejected for a second process and a second store", async () => {
  using folder = new StateFolder();
  const store = folder.open();
  assert.throws(() => folder.open(), { code: "invalid_config", message: /in use by another process/ });
  assert.match(await runOpener(folder.path, ["--allow-read", "--allow-write"]), /in use by another process/);
  await store.putFreeze(freezeOf());
  await store.close();
  assert.equal(await runOpener(folder.path, ["--allow-read", "--allow-write"]), "opened\n");
});

Deno.test("of processes that start concurrently at most one opens the database", async () => {
  using folder = new StateFolder();
  const flags = [`--allow-read=${folder.path}`, `--allow-write=${folder.path}`];
  const openers = [1, 2, 3].map(() => openerCommand(folder.path, flags, "stay").spawn());
  const readers = openers.map(({ stdout }) => stdout.pipeThrough(new TextDecoderStream()).getReader());
  const results = await Promise.all(readers.map(async (reader) => (await reader.read()).value ?? ""));
  // Each opener keeps its state until all have tried.
  await Promise.all(openers.map(({ stdin }) => stdin.close()));
  await Promise.all(openers.map(({ status }) => status));
  await Promise.all(readers.map((reader) => reader.cancel()));
  assert.ok(results.filter((text) => text === "opened\n").length <= 1, results.join());
});

Deno.test("opening a database requires only read and write permission for that file", async () => {
  using folder = new StateFolder();
  const [read, write] = [`--allow-read=${folder.path}`, `--allow-write=${folder.path}`];
  assert.equal(await runOpener(folder.path, [read, write]), "opened\n");
  assert.match(await runOpener(folder.path, [read]), /outside this process's permissions/);
  assert.match(await runOpener(folder.path, [write]), /outside this process's permissions/);
  const other = await runOpener(`${folder.folder}/other.db`, [read, write]);
  assert.match(other, /outside this process's permissions/);
});

Deno.test.each([
  { name: "in a missing directory", path: "/nowhere/state.db", message: /directory does not exist/ },
  { name: "that is a directory", path: "/tmp", message: /unable to open database file/ },
])("a database $name is rejected", ({ path, message }) => {
  assert.throws(() => openSqliteStore({ path, warn: () => {} }), { code: "invalid_config", message });
});

diskTest("a database in a read-only folder is refused", async () => {
  await using disk = await TinyDisk.mount("size=1m,ro");
  const path = `${disk.folder}/state.db`;
  const refusal = { code: "invalid_config", message: /Read-only file system/ };
  assert.throws(() => openSqliteStore({ path, warn: () => {} }), refusal);
});

Deno.test("a checkpoint moves every freeze from the write-ahead log to the database file (K2)", async () => {
  using folder = new StateFolder();
  using copy = new StateFolder();
  const store = folder.open();
  await store.putFreeze(freezeOf());
  await store.checkpoint();
  assert.equal(Deno.statSync(`${folder.path}-wal`).size, 0);
  // Only the main file, as after the loss of all other files.
  Deno.copyFileSync(folder.path, copy.path);
  assert.deepEqual(await contents(copy.open()), [[], [freezeOf()]]);
  await store.close();
});

const INSERT =
  "INSERT INTO grants (id, host, waive_approval, granted_at, allow, caller, sudo, expires_at) VALUES";

// The columns of the grant "bad" on web01: allow, caller, sudo, expires_at.
Deno.test.each([
  ["patterns that are not JSON", "'[', '', 0, 9999999999"],
  ["patterns that are not a list", `'{"a":1}', '', 0, 9999999999`],
  ["patterns of numbers", "'[1]', '', 0, 9999999999"],
  ["patterns in bytes that are not UTF-8", "x'ff', '', 0, 9999999999"],
  ["a caller that is truncated by a NUL", "'[]', char(0) || 'x', 0, 9999999999"],
  ["a caller that is not UTF-8", "'[]', x'ff41', 0, 9999999999"],
  ["a sudo that is neither true nor false", "'[]', '', 2, 9999999999"],
  ["a sudo that is a text", "'[]', '', 'no', 9999999999"],
  ["an end that is a text", "'[]', '', 0, 'never'"],
  ["an end that is out of range", "'[]', '', 0, 9223372036854775807"],
])("a grant with %s is skipped with a warning", async (_name, row) => {
  using folder = new StateFolder();
  await folder.open().close();
  folder.exec(`${INSERT} ('bad', 'web01', '[]', 1, ${row})`);
  folder.exec(`${INSERT} ('good', 'web01', 'null', ${NOW / 1000}, 'null', '', 0, ${NOW / 1000 + 60})`);
  const store = folder.open();
  const good = grantOf({ id: "good", allow: [], approver: "" });
  assert.deepEqual(await store.loadGrants(NOW), [good], "a list written as null is an empty one");
  await store.close();
  assert.equal(folder.warnings.length, 1);
  assert.match(folder.warnings[0] ?? "", /no effect: bad: column/);
});

Deno.test.each([
  { name: "has an unknown kind", row: "'host', 'web01', '', 'op', 1", message: /unknown kind "host"/ },
  { name: "has a value truncated by NUL", row: "'caller', 'a' || char(0), '', 'op', 1", message: /NUL/ },
  { name: "has a value that is not UTF-8", row: "'caller', x'ff', '', 'op', 1", message: /UTF-8/ },
  { name: "has no readable time", row: "'caller', 'a', '', 'op', 'soon'", message: /frozen_at/ },
])("a freeze that $name stops the start, with path and fix", async ({ row, message }) => {
  using folder = new StateFolder();
  await folder.open().close();
  folder.exec(`INSERT INTO freezes VALUES (${row})`);
  const store = folder.open();
  await assert.rejects(store.loadFreezes(), { code: "invalid_config", message });
  await assert.rejects(store.loadFreezes(), (error: Error) => {
    assert.ok(error.message.startsWith(`Cannot use state_db "${folder.path}": a freeze can't be read: `));
    return /restore a backup/.test(error.message);
  });
  await store.close();
});

function openerCommand(path: string, flags: readonly string[], stay = ""): Deno.Command {
  const opener = new URL("state_opener.ts", import.meta.url).href;
  return new Deno.Command(Deno.execPath(), {
    args: ["run", "--no-prompt", "--quiet", ...flags, opener, path, stay],
    stdin: stay === "" ? "null" : "piped",
    stdout: "piped",
    stderr: stay === "" ? "piped" : "inherit",
  });
}

async function runOpener(path: string, flags: readonly string[]): Promise<string> {
  const { stdout, stderr } = await openerCommand(path, flags).output();
  const decoder = new TextDecoder();
  return decoder.decode(stdout) + decoder.decode(stderr);
}

const MODULE = new URL("state_writer.ts", import.meta.url).href;

Deno.test("after kill -9, every acknowledged change is kept (K1, K4, K22)", async () => {
  using folder = new StateFolder();
  const said: string[] = [];
  for (const [run, count] of [1, 2, 3, 4, 50, 211, 98, 333, 7].entries()) {
    const { path } = folder;
    said.push(...await runUntilKilled({ module: MODULE, path, args: [path, `run${run}`] }, count));
  }
  const about = (what: string) =>
    said.filter((line) => line.startsWith(`${what} `)).map((line) => line.slice(what.length + 1));
  const store = folder.open();
  const grants = new Set((await store.loadGrants(0)).map(({ id }) => id));
  const freezes = new Set((await store.loadFreezes()).map(({ kind, value }) => `${kind}=${value}`));
  await store.close();
  assert.ok(about("frozen").length > 150);
  assert.deepEqual(about("granted").filter((id) => !grants.has(id)), [], "grants lost");
  assert.deepEqual(about("revoked").filter((id) => grants.has(id)), [], "grants back");
  assert.deepEqual(about("frozen").filter((name) => !freezes.has(`caller=${name}`)), [], "freezes lost");
  const frozen = [...freezes].map((subject) => subject.replace(/^.*=/, ""));
  assert.deepEqual(frozen.filter((name) => grants.has(`scoped-${name}`)), [], "half a freeze");
  assert.deepEqual(about("lifted").filter((name) => freezes.has(`end_user=${name}`)), [], "freezes back");
  assert.deepEqual(folder.warnings, []);
});

Deno.test("a poll of a PostgreSQL state reads changes and removals", {
  ignore: isPostgresMissing,
}, async () => {
  await using server = await PostgresServer.start();
  const here = await openShared({ state_db: server.url() }, [], "signer-1");
  const other = await openShared({ state_db: server.url() }, [], "signer-2");
  let wakes = 0;
  const link = await here.shared.connect(() => wakes++);
  let seen = { state: 0n, certificates: 0n };
  const look = async () => {
    const content = await here.shared.load(link, { seen, now: NOW, knownPolicies: [] });
    seen = content.epochs;
    return content;
  };
  const grantsOf = ({ state }: Awaited<ReturnType<typeof look>>) => state?.grants.map(({ id }) => id);
  await other.insertGrant(grantOf({ id: "a" }));
  assert.deepEqual(grantsOf(await look()), ["a"]);
  assert.equal((await look()).state, undefined, "nothing has changed");
  const woken = wakes;
  await other.addCertificates([batchOf()]);
  await here.addCertificates([batchOf({ serials: [7n] })]);
  const issued = await look();
  assert.equal(issued.state, undefined);
  assert.deepEqual(issued.certificates.map(({ serials }) => serials), [batchOf().serials]);
  assert.equal(wakes, woken, "certificates wake nobody");
  assert.deepEqual((await look()).certificates, []);
  await other.deleteGrant("a");
  assert.deepEqual(grantsOf(await look()), [], "what is removed is a change");
  await other.putFreeze(freezeOf());
  assert.equal((await look()).state?.freezes.length, 1);
  await other.deleteFreeze(freezeOf());
  assert.deepEqual((await look()).state?.freezes, []);
  await other.putRevocations([{ kind: "caller", value: "broker-1", revokedAt: NOW }], NOW);
  assert.deepEqual((await look()).state?.krlVersion, NOW);
  await other.shared.policy.propose("{}");
  assert.equal((await look()).state?.proposal?.document, "{}");
  link.close();
  await Promise.all([here.close(), other.close()]);
});

Deno.test(
  "a heartbeat on a PostgreSQL state notifies other signers once per new value, and none if alone",
  { ignore: isPostgresMissing },
  async () => {
    await using server = await PostgresServer.start();
    const here = await openShared({ state_db: server.url() }, [], "signer-1");
    const other = await openShared({ state_db: server.url() }, [], "signer-2");
    const news: Notice[] = [];
    const link = await here.shared.connect((heard) => news.push(heard));
    const otherLink = await other.shared.connect(() => {});
    const self = { name: "signer-2", session: "2" };
    await otherLink.enter(self, "1");
    await otherLink.heartbeat(self, 5n);
    await link.enter({ name: "signer-1", session: "1" }, "1");
    await otherLink.heartbeat({ ...self, session: "of one that is gone" }, 6n);
    await otherLink.heartbeat(self, 7n);
    await otherLink.heartbeat(self, 7n);
    await other.insertGrant(grantOf({ id: "a" }));
    await poll(() => Promise.resolve(news.includes("change")), { what: "news of a change" });
    assert.deepEqual(news, ["seen", "change"]);
    for (const each of [link, otherLink]) each.close();
    for (const store of [here, other]) await store.close();
  },
);
