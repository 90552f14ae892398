import assert from "node:assert/strict";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { ApprovalRegistry } from "../../control_plane/approvals/registry.ts";
import { MIGRATIONS, openSqliteControlStore } from "../../control_plane/state/sqlite.ts";
import { approvalOf, CREATED_AT, draftOf, EVER } from "../../control_plane/testing/sample_approval.ts";
import { ControlFolder } from "./control_store_fixture.ts";
import { diskTest, fill, makeRoom, TinyDisk } from "./tiny_disk.ts";
import type { ApprovalState } from "../../control_plane/approvals/approval.ts";
import { runUntilKilled } from "./killed_writer.ts";
import { FakeClock } from "@gateway/shared/testing";
import { Guardrails } from "../../control_plane/guardrails/guardrails.ts";
import { subjectOf } from "../../control_plane/guardrails/tracker.ts";

Deno.test("a new database has version 6, the exact schema and owner-only permissions", async () => {
  using folder = new ControlFolder();
  await folder.open().close();
  assert.deepEqual(folder.query("PRAGMA user_version"), [{ user_version: 6 }]);
  assert.deepEqual(folder.query("PRAGMA journal_mode"), [{ journal_mode: "wal" }]);
  const columns = (table: string) =>
    folder.query(`PRAGMA table_info(${table})`)
      .map(({ name, type, notnull, dflt_value, pk }) => `${name} ${type} ${notnull} ${dflt_value} ${pk}`);
  assert.deepEqual(columns("approvals"), [
    "id TEXT 0 null 1",
    "caller TEXT 1 '' 0",
    "end_user TEXT 1 '' 0",
    "host TEXT 1 '' 0",
    "command TEXT 1 '' 0",
    "sudo INTEGER 1 0 0",
    "sudo_user TEXT 1 '' 0",
    "rule TEXT 1 '' 0",
    "anomalies TEXT 1 '[]' 0",
    "status TEXT 1 null 0",
    "consumed INTEGER 1 0 0",
    "created_at INTEGER 1 null 0",
    "decided_at INTEGER 1 0 0",
    "decided_by TEXT 1 '' 0",
    "learn_ttl_seconds INTEGER 1 0 0",
    "request_json TEXT 1 null 0",
    "lead TEXT 1 '' 0",
    "account TEXT 1 '' 0",
    "addr TEXT 1 '' 0",
    "life_seconds INTEGER 1 0 0",
    "comment TEXT 1 '' 0",
    "k8s_diff TEXT 1 '' 0",
    "timeout_ms INTEGER 1 0 0",
    "notify_until INTEGER 1 0 0",
    "signed_approval TEXT 1 '' 0",
    "proofs TEXT 1 '' 0",
  ]);
  assert.deepEqual(columns("baselines"), [
    "subject TEXT 0 null 1",
    "last_seen INTEGER 1 null 0",
    "hosts TEXT 1 '[]' 0",
    "commands TEXT 1 '[]' 0",
  ]);
  assert.equal((Deno.statSync(folder.path).mode ?? 0) & 0o777, 0o600);
});

Deno.test("approvals stored by version 3 have no timeout, and approvals stored later keep theirs after a restart", async () => {
  using folder = new ControlFolder();
  const request = JSON.stringify(approvalOf().request).replaceAll("'", "''");
  folder.exec(`${MIGRATIONS.slice(0, 3).join("\n")} PRAGMA user_version = 3;
    INSERT INTO approvals (id, caller, host, command, rule, status, created_at, request_json)
    VALUES ('old', 'broker-1', 'web01', 'ls', '', 'pending', ${CREATED_AT}, '${request}')`);
  const first = folder.open();
  await first.insertApproval(approvalOf({ id: "new", timeoutMs: 60_000 }));
  await first.close();
  const second = folder.open();
  const timeouts = (await second.loadApprovals(EVER)).map(({ id, timeoutMs }) => [id, timeoutMs]);
  assert.deepEqual(timeouts, [["old", undefined], ["new", 60_000]]);
  await second.close();
  assert.deepEqual(folder.warnings, []);
});

Deno.test("approvals and baselines are restored at the next start", async () => {
  using folder = new ControlFolder();
  const first = folder.open();
  await first.insertApproval(approvalOf());
  await first.putBaseline({ subject: "a", lastSeen: 1, hosts: [], commands: ["ls"] });
  await first.close();
  const second = folder.open();
  assert.deepEqual(await second.loadApprovals(EVER), [approvalOf()]);
  assert.equal((await second.loadBaselines()).length, 1);
  await second.close();
});

Deno.test("the end user's token is never written to the database or its write-ahead log", async () => {
  using folder = new ControlFolder();
  const store = folder.open();
  const registry = await ApprovalRegistry.open({
    store,
    clock: systemClock,
    random: systemRandom,
    timeoutSeconds: 120,
    maxPendingPerCaller: 10,
    logger: { info() {}, warn() {}, error() {} },
    onStoreError: () => assert.fail(),
  });
  const token = "Bearer-eyJhbGciOiJFZERTQSJ9";
  // Even if a caller of the registry did not remove the secret from the request.
  const request = Object.assign({ bearer_token: token }, draftOf().request);
  await store.insertApproval(approvalOf({ request }));
  const created = await registry.create(draftOf({ bearerToken: token, request }));
  assert.ok(created.kind === "parked");
  const { id } = created.approval;
  const noAudit = () => Promise.resolve();
  await registry.decide(id, { approver: "alice", approve: true, learnTtlSeconds: 0 }, noAudit);
  const claimed = registry.claim(id, { caller: "broker-1" });
  assert.ok(claimed.kind === "claimed");
  assert.equal(claimed.claim.request.bearer_token, token);
  const during = folder.bytes();
  await claimed.claim.consume(noAudit);
  await registry.close();
  await store.close();
  for (const bytes of [during, folder.bytes()]) {
    assert.ok(bytes.includes("systemctl restart nginx") && !bytes.includes("eyJhbGciOiJFZERTQSJ9"));
  }
});

Deno.test("a database that another store has open is rejected", async () => {
  using folder = new ControlFolder();
  const store = folder.open();
  assert.throws(() => folder.open(), { code: "invalid_config", message: /in use by another process/ });
  await store.close();
  await folder.open().close();
});

Deno.test("a path in a directory that does not exist is rejected", () => {
  assert.throws(() => openSqliteControlStore({ path: "/nowhere/control-plane.db", warn: () => {} }), {
    code: "invalid_config",
    message: /directory does not exist/,
  });
});

Deno.test.each([
  { name: "a request that is not JSON", set: "request_json = '{'", column: /request_json/ },
  { name: "an invalid request", set: "request_json = '{}'", column: /request_json/ },
  { name: "no request", set: "request_json = ''", column: /request_json/ },
  {
    name: "a request truncated at a NUL",
    set: "request_json = request_json || char(0)",
    column: /request_json/,
  },
  { name: "a command with a NUL", set: "command = 'ls' || char(0) || 'x'", column: /command/ },
  { name: "a caller that is not UTF-8", set: "caller = x'ff'", column: /caller/ },
  { name: "an unknown status", set: "status = 'expired'", column: /status/ },
  { name: "no status", set: "status = ''", column: /status/ },
  { name: "a flag that is neither", set: "consumed = 2", column: /consumed/ },
  { name: "consumed and never approved", set: "consumed = 1", column: /consumed/ },
  { name: "an approval without an approver", set: "status = 'approved'", column: /decided_by/ },
  {
    name: "an approval by its caller (A1)",
    set: "status = 'approved', decided_by = caller",
    column: /decided_by/,
  },
  {
    name: "an approval by the requester (A2)",
    set: "status = 'approved', end_user = 'alice', decided_by = 'alice'",
    column: /decided_by/,
  },
  { name: "an invalid time", set: "created_at = 'soon'", column: /created_at/ },
  { name: "a time that is not a date", set: "created_at = 9000000000000000", column: /created_at/ },
  { name: "a negative time to learn", set: "learn_ttl_seconds = -1", column: /learn_ttl_seconds/ },
  { name: "findings that are not a list", set: "anomalies = '{}'", column: /anomalies/ },
])("a row with $name is skipped with a warning that quotes no content", async ({ set, column }) => {
  using folder = new ControlFolder();
  const first = folder.open();
  for (const id of ["bad", "good"]) await first.insertApproval(approvalOf({ id }));
  await first.close();
  folder.exec(`UPDATE approvals SET ${set} WHERE id = 'bad'`);
  const store = folder.open();
  assert.deepEqual(await store.loadApprovals(EVER), [approvalOf({ id: "good" })]);
  await store.close();
  assert.equal(folder.warnings.length, 1);
  assert.match(folder.warnings[0]!, /^unreadable approval in state_db skipped: bad: column /);
  assert.match(folder.warnings[0]!, column);
  assert.doesNotMatch(folder.warnings[0]!, /nginx/);
});

Deno.test("an unreadable baseline is skipped with a warning", async () => {
  using folder = new ControlFolder();
  const first = folder.open();
  for (const subject of ["bad", "good"]) {
    await first.putBaseline({ subject, lastSeen: 1, hosts: [], commands: [] });
  }
  await first.close();
  folder.exec("UPDATE baselines SET hosts = '[1]' WHERE subject = 'bad'");
  const store = folder.open();
  assert.deepEqual((await store.loadBaselines()).map(({ subject }) => subject), ["good"]);
  await store.close();
  assert.match(
    folder.warnings.join(),
    /^unreadable baseline in state_db skipped: bad: column hosts/,
  );
});

Deno.test("a token that another program added to a stored request is not loaded", async () => {
  using folder = new ControlFolder();
  const first = folder.open();
  await first.insertApproval(approvalOf());
  await first.close();
  folder.exec("UPDATE approvals SET request_json = json_set(request_json, '$.bearer_token', 'secret')");
  const store = folder.open();
  assert.ok(!JSON.stringify(await store.loadApprovals(EVER)).includes("secret"));
  await store.close();
});

diskTest(
  "a full disk refuses an approval and a decision, keeps what was, and takes the next once there is room",
  async () => {
    await using disk = await TinyDisk.mount("size=256k");
    const store = openSqliteControlStore({ path: `${disk.folder}/control-plane.db`, warn: () => {} });
    await store.insertApproval(approvalOf());
    fill(`${disk.folder}/ballast`);
    const large = approvalOf({ id: "large", command: "x".repeat(60 * 1024) });
    await assert.rejects(store.insertApproval(large), { code: "internal" });
    assert.deepEqual(await store.loadApprovals(EVER), [approvalOf()]);
    makeRoom(`${disk.folder}/ballast`);
    const state = { kind: "denied", by: "alice", at: CREATED_AT } as const;
    await store.updateApproval(approvalOf({ state }));
    assert.deepEqual(await store.loadApprovals(EVER), [approvalOf({ state })]);
    await store.close();
  },
);

const MODULE = new URL("control_store_writer.ts", import.meta.url).href;

Deno.test("after kill -9, acknowledged changes are kept, and no approval is unrecorded or served twice", async () => {
  using folder = new ControlFolder();
  const said: string[] = [];
  for (const count of [1, 2, 3, 5, 8, 60, 211, 99]) {
    said.push(...await runUntilKilled({ module: MODULE, path: folder.path, args: [folder.path] }, count));
  }
  const about = (what: string) =>
    said.filter((line) => line.startsWith(`${what} `)).map((line) => line.slice(what.length + 1));
  const store = folder.open();
  const states = new Map((await store.loadApprovals(EVER)).map(({ id, state }) => [id, state]));
  await store.close();
  const are = (ids: readonly string[], ...kinds: readonly (ApprovalState["kind"] | undefined)[]) =>
    assert.deepEqual(
      ids.filter((id) => !kinds.includes(states.get(id)?.kind)),
      [],
      `not ${kinds.join(" or ")}`,
    );
  const having = (...kinds: readonly ApprovalState["kind"][]) =>
    [...states].filter(([, { kind }]) => kinds.includes(kind)).map(([id]) => id);
  const from = (ids: readonly string[], whole: readonly string[], what: string) =>
    assert.deepEqual(ids.filter((id) => !whole.includes(id)), [], what);

  assert.ok(about("served").length > 30 && about("approved").length > about("served").length);
  are(about("parked"), "pending", "approved", "consumed", "denied");
  are(about("approved"), "approved", "consumed");
  are(about("denied"), "denied");
  are(about("served"), "consumed");
  from(having("approved", "consumed"), about("audited-approval"), "approved without a record");
  from(having("denied"), about("audited-denial"), "denied without a record");
  from(having("consumed"), about("granted"), "consumed without a record");
  assert.equal(new Set(about("served")).size, about("served").length, "served twice");
  assert.deepEqual([about("failed"), about("warned"), folder.warnings], [[], [], []]);
});

const DAY_MS = 86_400_000;
const COMMAND = "PGPASSWORD=hunter2 psql -c 'select 1'";
const PEOPLE = ["alice", 'a"],["b', "nul\0", "half \ud800", "\u202eecila", "x".repeat(60_000)];
const SUBJECTS = PEOPLE.map((endUser) => subjectOf({ caller: "broker-1", endUser, trusted: true }));

async function open(folder: ControlFolder, clock: FakeClock, maxSubjects = 4096) {
  const store = folder.open();
  const guardrails = await Guardrails.open({
    config: {
      mode: "enforce",
      rate_limit_per_min: 60,
      max_subjects: maxSubjects,
      subject_ttl_minutes: 1440,
      max_distinct_per_subject: 1024,
    },
    store,
    clock,
    logger: { info() {}, warn() {}, error() {} },
  });
  return {
    guardrails,
    anomaliesOf(subject: string, host = "web01", command = COMMAND) {
      const verdict = guardrails.check({ subject, host, command });
      return verdict.kind === "normal" ? [] : verdict.anomalies;
    },
    async [Symbol.asyncDispose]() {
      await guardrails.close();
      await store.close();
    },
  };
}

async function learnAll(folder: ControlFolder, clock: FakeClock) {
  await using controlPlane = await open(folder, clock);
  for (const subject of SUBJECTS) {
    controlPlane.guardrails.learn({ subject, host: "web01", command: COMMAND });
    await clock.advance(1);
  }
}

Deno.test("a restart restores every baseline whatever its names contain, and the file contains no secret", async () => {
  using folder = new ControlFolder();
  const clock = new FakeClock();
  await learnAll(folder, clock);
  assert.ok(!folder.bytes().includes("hunter2"));
  await using controlPlane = await open(folder, clock);
  for (const subject of SUBJECTS) {
    assert.deepEqual(controlPlane.anomaliesOf(subject), []);
    assert.deepEqual(controlPlane.anomaliesOf(subject, "db01", "id"), ["new-host:db01", "new-command:id"]);
  }
  assert.deepEqual(folder.warnings, []);
});

Deno.test("baselines of idle subjects, and those beyond a lowered limit, are deleted from the file", async () => {
  using folder = new ControlFolder();
  const clock = new FakeClock();
  await learnAll(folder, clock);
  {
    await using _plane = await open(folder, clock, 4);
  }
  const kept = folder.query("SELECT subject FROM baselines ORDER BY last_seen").map(({ subject }) => subject);
  assert.deepEqual(kept, SUBJECTS.slice(2));
  await clock.advance(DAY_MS + 10);
  {
    await using controlPlane = await open(folder, clock);
    assert.equal(controlPlane.guardrails.subjects, 0);
  }
  assert.deepEqual(folder.query("SELECT subject FROM baselines"), []);
});
