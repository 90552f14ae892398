import assert from "node:assert/strict";
import type { ClusterApi, TokenSpec } from "@gateway/shared/kubernetes";
import { FakeClock } from "@gateway/shared/testing";
import type { Freeze } from "../../signer/live/freezes.ts";
import { leaseName, TokenLeases } from "../../signer/live/token_leases.ts";
import { FakeSecrets } from "../../signer/testing/lease_scene.ts";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { freezeOf, NOW, openShared } from "./state_fixture.ts";
import { systemClock } from "@gateway/shared/clock";
import { insertRow, migrate } from "@gateway/shared/state";
import { PostgresAccess } from "@gateway/shared/state/postgres_access";
import { POSTGRES_SCHEMA as CONTROL_SCHEMA } from "../../control_plane/state/postgres.ts";
import { encodeApproval } from "../../control_plane/state/rows.ts";
import { approvalOf, EVER } from "../../control_plane/testing/sample_approval.ts";
import { POSTGRES_SCHEMA } from "../../signer/live/state/schema.ts";
import { openShared as openSharedMigration } from "./control_store_fixture.ts";

const PLACE = { cluster: "prod", namespace: "gateway" };
const TTL_SECONDS = 600;

function wishOf(endUser: string, serial?: bigint): TokenSpec {
  const cluster = { name: "prod", leaseNamespace: "gateway", tokenTtlSeconds: TTL_SECONDS };
  const holder = { caller: "broker-1", endUser, peer: "broker-1" };
  return { cluster, ca: "", holder, ...(serial !== undefined && { serial }) } as unknown as TokenSpec;
}

/** One database, one cluster, and signers that start and stop. */
class Scene implements AsyncDisposable {
  readonly secrets = new FakeSecrets();
  readonly clock = new FakeClock(NOW);
  readonly server: PostgresServer;
  readonly #open = new AsyncDisposableStack();
  frozen: readonly Freeze[] = [];

  constructor(server: PostgresServer) {
    this.server = server;
    this.#open.defer(async () => void await server.sql("DROP SCHEMA signer CASCADE"));
  }

  async signer(instance: string): Promise<TokenLeases> {
    const store = await openShared({ state_db: this.server.url() }, [], instance);
    this.#open.defer(() => store.close());
    await this.server.sql(
      `INSERT INTO signer.instances VALUES ('${instance}', '${instance}', 'v', 0, 0) ON CONFLICT DO NOTHING`,
    );
    const api: ClusterApi = {
      request: async (_at, { method, path, body }) =>
        await this.secrets.reply({
          ...{ cluster: "prod", method, path, token: undefined },
          body: body === undefined ? undefined : JSON.parse(new TextDecoder().decode(body.bytes)),
        }),
      close() {},
    };
    return await TokenLeases.open({
      ...{ store, api, clock: this.clock, onStoreError() {} },
      logger: { info() {}, warn() {}, error() {} },
      addressOf: () => ({ cluster: wishOf("").cluster, ca: "" }),
      isFrozen: ({ endUser }) =>
        this.frozen.some(({ kind, value }) => kind === "end_user" && value === endUser),
      ...{ instance, freezes: () => this.frozen },
    });
  }

  /** Removes the instance from the list, like an instance that was silent for too long. */
  gone(instance: string): Promise<string> {
    return this.server.sql(`DELETE FROM signer.instances WHERE name = '${instance}'`);
  }

  ensure(leases: TokenLeases, endUser: string, serial?: bigint) {
    return leases.ensure(wishOf(endUser, serial), "minting", { deadline: this.clock.now() + 1_000 });
  }

  rows(): Promise<string> {
    return this.server.sql(
      "SELECT string_agg(instance || ' ' || end_user || ' ' || (expires_at = 0), ', ' ORDER BY instance, end_user) FROM signer.leases",
    );
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.#open.disposeAsync();
  }
}

const nameOf = (endUser: string, instance: string) =>
  leaseName(PLACE, { caller: "broker-1", endUser }, instance);

Deno.test({
  name: "Secrets of several signers in PostgreSQL",
  ignore: isPostgresMissing,
  async fn(test) {
    await using server = await PostgresServer.start();
    await test.step("belong to one signer each, and a signer's are revoked before it confirms a freeze set elsewhere", async () => {
      await using scene = new Scene(server);
      const [one, two] = [await scene.signer("one"), await scene.signer("two")];
      await scene.ensure(one, "alice");
      await scene.ensure(two, "alice");
      await scene.ensure(two, "bob");
      assert.deepEqual(
        [...scene.secrets.uids.keys()].toSorted(),
        [nameOf("alice", "one"), nameOf("alice", "two"), nameOf("bob", "two")].toSorted(),
      );
      await two.sweep();
      assert.equal(
        await scene.rows(),
        "one alice false, two alice false, two bob false",
        "who lives keeps its own",
      );
      // The cluster is unreachable. The acknowledged effect is that the token expires by itself.
      scene.secrets.outage = { kind: "unreachable", cause: "away" };
      scene.frozen = [freezeOf({ kind: "end_user", value: "alice" })];
      await two.revokeNew(scene.frozen);
      assert.equal(await scene.rows(), "one alice false, two alice true, two bob false");
      await one.revokeNew(scene.frozen);
      scene.secrets.outage = undefined;
      await Promise.all([one.sweep(), two.sweep()]);
      assert.deepEqual([...scene.secrets.uids.keys()], [nameOf("bob", "two")]);
      await scene.ensure(two, "bob");
      await two.revokeNew(scene.frozen);
      assert.equal(await scene.rows(), "two bob false", "a freeze counts once");
    });

    await test.step("of a stopped signer are taken over by one other signer and revoked or expired as its own", async () => {
      await using scene = new Scene(server);
      const [one, two, three] = [
        await scene.signer("one"),
        await scene.signer("two"),
        await scene.signer("three"),
      ];
      for (const endUser of ["alice", "bob"]) await scene.ensure(one, endUser);
      await scene.gone("one");
      scene.frozen = [freezeOf({ kind: "end_user", value: "alice" })];
      await Promise.all([two.sweep(), three.sweep()]);
      const [left, ...others] = (await scene.rows()).split(", ");
      assert.match(left ?? "", /^(?:two|three) bob false$/);
      assert.deepEqual(others, []);
      assert.deepEqual([...scene.secrets.uids.keys()], [nameOf("bob", "one")]);
      await scene.clock.advance((TTL_SECONDS + 601) * 1000);
      await Promise.all([two.sweep(), three.sweep()]);
      assert.equal(scene.secrets.uids.size, 0);
      assert.equal(await scene.rows(), "");
    });

    await test.step("of a stopped signer are revoked if any serial is frozen, because their serials are unknown", async () => {
      await using scene = new Scene(server);
      const [one, two] = [await scene.signer("one"), await scene.signer("two")];
      await scene.ensure(one, "alice", 7n);
      await scene.ensure(two, "bob", 8n);
      await scene.gone("one");
      scene.frozen = [freezeOf({ kind: "serial", value: "7" })];
      await two.sweep();
      await two.sweep();
      assert.deepEqual([...scene.secrets.uids.keys()], [nameOf("bob", "two")]);
    });

    await test.step("taken over from a signer return to that signer when it restarts, and are not deleted", async () => {
      await using scene = new Scene(server);
      const [one, two] = [await scene.signer("one"), await scene.signer("two")];
      await scene.ensure(one, "alice");
      await scene.gone("one");
      await two.sweep();
      assert.equal(await scene.rows(), "two alice false");
      // After a restart under the same name, it knows no Secret, finds one with that name, and creates another.
      const again = await scene.signer("one");
      const made = await scene.ensure(again, "alice");
      assert.equal(await scene.rows(), "one alice false");
      await two.revoke({ kind: "end_user", value: "alice" });
      await two.sweep();
      assert.equal(scene.secrets.uids.get(made.name), made.uid);
      assert.equal(await scene.rows(), "one alice false");
      // The instance was only silent: it continues to use its memory and writes to the database.
      await scene.gone("one");
      await two.sweep();
      assert.equal(await scene.rows(), "two alice false");
      await scene.clock.advance(601_000);
      assert.deepEqual(await scene.ensure(again, "alice"), {
        ...made,
        expiresAt: scene.clock.now() + 1_200_000,
      });
      assert.equal(await scene.rows(), "one alice false");
    });
  },
});

/** All reads and writes of a table wait for these locks. */
const BARRING = `SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
  WHERE c.relnamespace = 'signer'::regnamespace AND c.relkind = 'r' AND l.granted AND l.mode = 'AccessExclusiveLock'`;

Deno.test("a slow upgrade of tables holds no lock that blocks other programs", {
  ignore: isPostgresMissing,
}, async () => {
  await using server = await PostgresServer.start();
  const { oldest, migrations, ...rest } = POSTGRES_SCHEMA;
  const before = { ...rest, migrations: migrations.slice(0, 2) };
  const settings = { state_db: server.url(), state_db_password_file: "", state_db_ca: "" };
  const access = await PostgresAccess.open(before, {
    ...{ settings, clock: systemClock, warn() {}, timeoutMs: 60_000 },
  });
  const session = await access.connect();
  const limits = new Set<unknown>();
  const newer = {
    ...{ server: session.server, isOpen: true, close() {} },
    async query(...[text, parameters]: Parameters<typeof session.query>) {
      const rows = await session.query(text, parameters);
      assert.equal(await server.sql(BARRING), "0", `after ${text}`);
      if (!text.endsWith("COMMIT")) {
        for (const row of await session.query("SHOW idle_in_transaction_session_timeout")) {
          limits.add(Object.values(row)[0]?.toString());
        }
      }
      return rows;
    },
  };
  await migrate(newer, POSTGRES_SCHEMA);
  assert.deepEqual([...limits], ["10s"], "who starts on a busy machine may be slow");
  const found = await server.sql("SELECT version, oldest FROM signer.schema_version");
  assert.equal(found, `${migrations.length}|${oldest}`);
  session.close();
  await access.close();
});

Deno.test("PostgresControlStore: approvals of schema version 1 are kept by the upgrade", {
  ignore: isPostgresMissing,
}, async () => {
  await using server = await PostgresServer.start();
  const { oldest: _unsaid, ...schema } = CONTROL_SCHEMA;
  const first = { ...schema, migrations: schema.migrations.slice(0, 1) };
  const settings = { state_db: server.url(), state_db_password_file: "", state_db_ca: "" };
  const access = await PostgresAccess.open(first, { settings, clock: systemClock, warn() {} });
  const { timeout_ms: _timeout, signed_approval: _signed, proofs: _proofs, ...row } = encodeApproval(
    approvalOf(),
  );
  const { text, parameters } = insertRow("approvals", row);
  await access.change((query) => query(text, parameters));
  await access.close();
  const store = await openSharedMigration(server.url());
  assert.equal(await server.sql("SELECT version, oldest FROM control_plane.schema_version"), "7|5");
  assert.deepEqual(await store.loadApprovals(EVER), [approvalOf()]);
  await store.close();
  const again = await openSharedMigration(server.url());
  assert.deepEqual(await again.loadApprovals(EVER), [approvalOf()]);
  await again.close();
});
