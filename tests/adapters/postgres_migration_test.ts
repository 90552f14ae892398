/** How the tables of a PostgreSQL database are upgraded while instances of before work on them. */
import assert from "node:assert/strict";
import { systemClock } from "@gateway/shared/clock";
import { insertRow, migrate } from "@gateway/shared/state";
import { PostgresAccess } from "@gateway/shared/state/postgres_access";
import { POSTGRES_SCHEMA as CONTROL_SCHEMA } from "../../control_plane/state/postgres.ts";
import { encodeApproval } from "../../control_plane/state/rows.ts";
import { approvalOf, EVER } from "../../control_plane/testing/sample_approval.ts";
import { POSTGRES_SCHEMA } from "../../signer/live/state/schema.ts";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { openShared } from "./control_store_fixture.ts";

/** Whoever reads or writes a table waits for these. */
const BARRING = `SELECT count(*) FROM pg_locks l JOIN pg_class c ON c.oid = l.relation
  WHERE c.relnamespace = 'signer'::regnamespace AND c.relkind = 'r' AND l.granted AND l.mode = 'AccessExclusiveLock'`;

Deno.test({
  name: "an upgrade of tables bars nobody from them while the program that does it is slow",
  ignore: isPostgresMissing,
  async fn() {
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
  },
});

Deno.test({
  name: "PostgresControlStore: approvals of version 1 of the tables are there in the version of today",
  ignore: isPostgresMissing,
  async fn() {
    await using server = await PostgresServer.start();
    const { oldest: _unsaid, ...schema } = CONTROL_SCHEMA;
    const first = { ...schema, migrations: schema.migrations.slice(0, 1) };
    const settings = { state_db: server.url(), state_db_password_file: "", state_db_ca: "" };
    const access = await PostgresAccess.open(first, { settings, clock: systemClock, warn() {} });
    const { timeout_ms: _later, ...row } = encodeApproval(approvalOf());
    const { text, parameters } = insertRow("approvals", row);
    await access.change((query) => query(text, parameters));
    await access.close();
    const store = await openShared(server.url());
    assert.equal(await server.sql("SELECT version, oldest FROM control_plane.schema_version"), "6|5");
    assert.deepEqual(await store.loadApprovals(EVER), [approvalOf()]);
    await store.close();
    const again = await openShared(server.url());
    assert.deepEqual(await again.loadApprovals(EVER), [approvalOf()]);
    await again.close();
  },
});
