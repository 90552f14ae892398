import assert from "node:assert/strict";
import { systemClock, systemRandom } from "@gateway/shared/clock";
import { ApprovalRegistry } from "../../control_plane/approvals/registry.ts";
import { MIGRATIONS, openSqliteControlStore } from "../../control_plane/state/sqlite.ts";
import { approvalOf, CREATED_AT, draftOf, EVER } from "../../control_plane/testing/sample_approval.ts";
import { ControlFolder } from "./control_store_fixture.ts";
import { fill, makeRoom, mayNotMount, TinyDisk } from "./tiny_disk.ts";

Deno.test("a new database has version 5, exactly the known schema, and is its owner's alone", async () => {
  using folder = new ControlFolder();
  await folder.open().close();
  assert.deepEqual(folder.query("PRAGMA user_version"), [{ user_version: 5 }]);
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
  ]);
  assert.deepEqual(columns("baselines"), [
    "subject TEXT 0 null 1",
    "last_seen INTEGER 1 null 0",
    "hosts TEXT 1 '[]' 0",
    "commands TEXT 1 '[]' 0",
  ]);
  assert.equal((Deno.statSync(folder.path).mode ?? 0) & 0o777, 0o600);
});

Deno.test("what version 3 has kept has no timeout of its own; what is kept from then on has, after the next start too", async () => {
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

Deno.test("what was kept is there after the next start", async () => {
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

Deno.test("the end user's token is never in the file, nor in the log beside it", async () => {
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
  // Also where a caller of the registry forgot to take it out of the request.
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

Deno.test("a database in use is refused to a second store", async () => {
  using folder = new ControlFolder();
  const store = folder.open();
  assert.throws(() => folder.open(), { code: "invalid_config", message: /in use by another process/ });
  await store.close();
  await folder.open().close();
});

Deno.test("a folder that does not exist is refused", () => {
  assert.throws(() => openSqliteControlStore({ path: "/nowhere/control-plane.db", warn: () => {} }), {
    code: "invalid_config",
    message: /folder does not exist/,
  });
});

Deno.test.each([
  { name: "a request that is not JSON", set: "request_json = '{'", column: /request_json/ },
  { name: "an invalid request", set: "request_json = '{}'", column: /request_json/ },
  { name: "no request", set: "request_json = ''", column: /request_json/ },
  {
    name: "a request cut off at a NUL",
    set: "request_json = request_json || char(0)",
    column: /request_json/,
  },
  { name: "a command with a NUL", set: "command = 'ls' || char(0) || 'x'", column: /command/ },
  { name: "a caller that is not UTF-8", set: "caller = x'ff'", column: /caller/ },
  { name: "an unknown status", set: "status = 'expired'", column: /status/ },
  { name: "no status", set: "status = ''", column: /status/ },
  { name: "a flag that is neither", set: "consumed = 2", column: /consumed/ },
  { name: "consumed and never approved", set: "consumed = 1", column: /consumed/ },
  { name: "an approval by nobody", set: "status = 'approved'", column: /decided_by/ },
  {
    name: "an approval by its caller (A1)",
    set: "status = 'approved', decided_by = caller",
    column: /decided_by/,
  },
  {
    name: "an approval by the person who asked (A2)",
    set: "status = 'approved', end_user = 'alice', decided_by = 'alice'",
    column: /decided_by/,
  },
  { name: "an invalid time", set: "created_at = 'soon'", column: /created_at/ },
  { name: "a time that is not a date", set: "created_at = 9000000000000000", column: /created_at/ },
  { name: "a negative time to learn", set: "learn_ttl_seconds = -1", column: /learn_ttl_seconds/ },
  { name: "findings that are not a list", set: "anomalies = '{}'", column: /anomalies/ },
])("a row with $name is left out with a warning that quotes nothing of it", async ({ set, column }) => {
  using folder = new ControlFolder();
  const first = folder.open();
  for (const id of ["bad", "good"]) await first.insertApproval(approvalOf({ id }));
  await first.close();
  folder.exec(`UPDATE approvals SET ${set} WHERE id = 'bad'`);
  const store = folder.open();
  assert.deepEqual(await store.loadApprovals(EVER), [approvalOf({ id: "good" })]);
  await store.close();
  assert.equal(folder.warnings.length, 1);
  assert.match(folder.warnings[0]!, /^An approval in state_db can't be read and is left out: bad: column /);
  assert.match(folder.warnings[0]!, column);
  assert.doesNotMatch(folder.warnings[0]!, /nginx/);
});

Deno.test("a baseline that can't be read is left out with a warning", async () => {
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
    /^A baseline in state_db can't be read and is left out: bad: column hosts/,
  );
});

Deno.test("a token that another program put into a request is not loaded", async () => {
  using folder = new ControlFolder();
  const first = folder.open();
  await first.insertApproval(approvalOf());
  await first.close();
  folder.exec("UPDATE approvals SET request_json = json_set(request_json, '$.bearer_token', 'secret')");
  const store = folder.open();
  assert.ok(!JSON.stringify(await store.loadApprovals(EVER)).includes("secret"));
  await store.close();
});

Deno.test({
  name:
    "a full disk refuses an approval and a decision, keeps what was, and takes the next once there is room (needs root)",
  ignore: mayNotMount,
  async fn() {
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
});
