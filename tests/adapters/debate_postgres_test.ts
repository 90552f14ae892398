import assert from "node:assert/strict";
import { ToolFailure } from "../../debate/tools/run_program.ts";
import { explainPostgres } from "../../debate/tools/explain_postgres.ts";
import { poll } from "../stage/poll.ts";
import { isPostgresMissing as ignore, PostgresServer } from "../stage/postgres_server.ts";
import { share } from "../stage/share.ts";
import { type CallTool, realTools } from "./debate_tools_fixture.ts";

const ROLES = "app,planner,bypasser,maker,reader,lazy,become,shadow";

interface Database {
  /** The URL of an account with the rights that the README requires. */
  readonly url: string;
  /** Runs SQL as the owner and returns the unaligned rows. */
  sql(text: string): Promise<string>;
}

/** Explains SQL without checking its text. Returns the plan or the error message. */
function planDirectly(url: string, query: string, seconds = 5): Promise<readonly string[] | string> {
  return explainPostgres({ url, query, seconds, signal: new AbortController().signal })
    .catch((error) => {
      assert.ok(error instanceof ToolFailure);
      return error.message;
    });
}

const withShared = share<{ readonly call: CallTool; readonly database: Database }>(async (use) => {
  await using server = await PostgresServer.start();
  await server.sql(
    "create table t (id int primary key, name text); insert into t select n, 'x' from generate_series(1, 500) n; analyze t; " +
      "create role app superuser login password 's3cret-pw'; " +
      "create role planner login password 's3cret-pw'; grant select on t to planner",
  );
  await server.authenticate(`host all ${ROLES} 127.0.0.1/32 scram-sha-256`);
  const url = server.url({ user: "planner:s3cret-pw" });
  const call = await realTools({ settings: { DATABASE_URL: url } });
  await use({ call, database: { url, sql: (text) => server.sql(text) } });
});

const withDatabase = (test: (call: CallTool, database: Database) => Promise<void>) =>
  withShared(({ call, database }) => test(call, database));

Deno.test({
  name: "run_db_explain shows plans and changes no data",
  ignore,
  fn: () =>
    withDatabase(async (call, database) => {
      const explain = (query: string) => call("run_db_explain", { query });
      const plan = await explain("-- by key\nselect * from t where id = 5;");
      assert.equal(plan.ok, true, plan.text);
      assert.match(plan.text, /Index Scan using t_pkey on t .*\n\s+Index Cond: \(id = 5\)/);
      assert.match((await explain("with x as (select * from t) select count(*) from x")).text, /Aggregate/);

      // The transaction stops statements that pass the check.
      await database.sql(
        "create function wipe() returns int language plpgsql as $$ begin delete from t; return 1; end $$; " +
          "create function evil() returns int language plpgsql immutable as $$ begin return wipe(); end $$",
      );
      await database.sql("grant delete on t to planner");
      assert.equal((await explain("select * from t where id = evil()")).ok, false);
      const evil = await planDirectly(database.url, "select * from t where id = evil()");
      assert.equal(evil, "EXPLAIN gave no plan: the query would write (SQLSTATE 25006)");
      for (
        const query of [
          "select 1; delete from t",
          "select ''; delete from t --'",
          "with d as (delete from t returning 1) select 1",
        ]
      ) {
        assert.equal((await explain(query)).ok, false);
      }
      assert.equal(await database.sql("select count(*) from t"), "500");

      // Without the check: the protocol accepts only one statement.
      for (const query of ["select 1; commit; delete from t", "select 1; select 2"]) {
        const several = await planDirectly(database.url, query);
        assert.equal(several, "EXPLAIN gave no plan: the syntax is wrong (SQLSTATE 42601)");
      }
      assert.equal(await database.sql("select count(*) from t"), "500");
    }),
});

Deno.test({
  name: "run_db_explain sets a statement timeout and closes its connection",
  ignore,
  fn: () =>
    withDatabase(async (_call, database) => {
      await database.sql(
        "create function slow() returns int language plpgsql immutable as $$ begin perform pg_sleep(6000); return 1; end $$",
      );
      const slow = await planDirectly(database.url, "select * from t where id = slow()", 1);
      assert.equal(slow, "EXPLAIN gave no plan: planning took too long (SQLSTATE 57014)");
      const others = "select count(*) from pg_stat_activity where application_name = 'diagnosis-debate'";
      await poll(async () => await database.sql(others) === "0", { what: "the end of the connection" });
    }),
});

Deno.test({
  name: "run_db_explain never shows a part of the URL",
  ignore,
  fn: () =>
    withDatabase(async (call, { url }) => {
      const results = [
        await call("run_db_explain", { query: "select * from missing" }),
        await (await realTools({ settings: { DATABASE_URL: url.replace("s3cret-pw", "s3cret-no") } }))(
          "run_db_explain",
          { query: "select 1" },
        ),
        await (await realTools({ settings: { DATABASE_URL: `${url}-other` } }))("run_db_explain", {
          query: "select 1",
        }),
        await (await realTools({ settings: { DATABASE_URL: url.replace(/:\d+\//, ":1/") } }))(
          "run_db_explain",
          { query: "select 1" },
        ),
        await (await realTools({
          settings: { DATABASE_URL: "postgres://app:s3cret-pw@no-such-host.invalid/d" },
        }))("run_db_explain", { query: "select 1" }),
        await (await realTools({ settings: { DATABASE_URL: "no url s3cret-pw" } }))("run_db_explain", {
          query: "select 1",
        }),
      ];
      assert.match(results[0]?.text ?? "", /a table does not exist \(SQLSTATE 42P01\)/);
      assert.match(results[1]?.text ?? "", /rejects the configured account/);
      for (const { ok, text } of results) {
        assert.equal(ok, false);
        assert.doesNotMatch(text, /s3cret|127\.0\.0\.1|postgres:\/\/|no-such-host|"app"/, text);
      }
    }),
});

/** Expressions that the planner evaluates, with an error that prints their value. */
const READING_WHILE_PLANNING = [
  "select * from t where id = (table_to_xml('users', true, true, '')::text)::int",
  "select * from t where id = (query_to_xml('select * from users', true, true, '')::text)::int",
  "select * from t where id = (schema_to_xml('public', true, true, '')::text)::int",
  "select * from t where id = (database_to_xml(true, true, '')::text)::int",
  "select * from t where id = (pg_catalog.table_to_xml('users', true, true, '')::text)::int",
  "select * from t where id = (\"table_to_xml\"('users', true, true, '')::text)::int",
  "select * from t where id = (table_to_xml/**/ ('users', true, true, '')::text)::int",
  "select * from t where id = (TABLE_TO_XML\n('users', true, true, '')::text)::int",
  "select * from t where id = (U&\"\\0074able_to_xml\"('users', true, true, '')::text)::int",
  "select * from t where name = cast(table_to_xml('users', true, true, '') as text)",
  "select * from t where id = current_setting('data_directory')::int",
  "select * from t where id = secret()::int",
  "select * from t where id = public.secret()::int",
  "select * from t where id = (row('a')::holder).secret_of::int",
  "select * from t where id = 1 operator(public.=!) 2",
  "select * from t where id = (E'a'\n'\\'' || table_to_xml('users', true, true, '')::text || '')::int",
  "select * from t where id = 1.table_to_xml('users', true, true, '')::text::int",
];

Deno.test({
  name: "run_db_explain reveals no data that the server reads while it plans",
  ignore,
  fn: () =>
    withDatabase(async (call, database) => {
      await database.sql(
        "create table users (name text, hash text); insert into users values ('ann', 'hash-of-ann'); " +
          "grant select on users to planner; create type holder as (a text); " +
          "create function secret() returns text stable language sql as 'select hash from users'; " +
          "create function secret_of(holder) returns text stable language sql as 'select hash from users'; " +
          "create function sum_of(int, int) returns int stable language sql as 'select hash::int from users'; " +
          "create operator =! (leftarg = int, rightarg = int, function = sum_of)",
      );
      // The server's error message contains the table.
      await assert.rejects(
        database.sql(`explain ${READING_WHILE_PLANNING[0]}`),
        /hash-of-ann/,
      );
      for (const query of READING_WHILE_PLANNING) {
        const { ok, text } = await call("run_db_explain", { query });
        assert.equal(ok, false, query);
        assert.doesNotMatch(text, /hash-of-ann|\/data/, query);
        const direct = await planDirectly(database.url, query);
        assert.doesNotMatch(JSON.stringify(direct), /hash-of-ann|\/data/, query);
      }
      // Ordinary queries still work.
      for (
        const query of [
          "select lower(name), count(*) from t where id = any(array[1, 2]) group by 1 having count(*) > 1",
          "with recursive r as (select 1 as n union all select n + 1 from r where n < 5) select * from r",
          "select date_trunc('day', now()) - interval '1 day', x.* from t x join lateral (select 1) y on true",
          "select sum(id) over (partition by name order by id) from t where name like 'a%' limit 5",
          "select coalesce(name, 'x')::varchar(10), cast(id as numeric(10, 2)) from t where id=-1 and (id, name) in ((1, 'a'))",
        ]
      ) {
        const { ok, text } = await call("run_db_explain", { query });
        assert.equal(ok, true, text);
      }
    }),
});

Deno.test({
  name: "run_db_explain rejects an account with more rights than plans need",
  ignore,
  fn: () =>
    withDatabase(async (_call, database) => {
      const plan = (name: string) =>
        planDirectly(database.url.replace("planner", name), "select * from t where id = 1");
      assert.ok(Array.isArray(await planDirectly(database.url, "select * from t where id = 1")));
      for (
        const [name, sql] of [
          ["bypasser", "create role bypasser login password 's3cret-pw' bypassrls"],
          ["maker", "create role maker login password 's3cret-pw' createrole"],
          ["reader", "create role reader login password 's3cret-pw' in role pg_read_all_data"],
          ["lazy", "create role lazy login password 's3cret-pw' noinherit in role pg_read_server_files"],
          ["become", "create role become login password 's3cret-pw' noinherit in role app"],
          ["shadow", "create role shadow login password 's3cret-pw'; grant select on pg_authid to shadow"],
        ] as const
      ) {
        await database.sql(`${sql}; grant select on t to ${name}`);
        assert.match(String(await plan(name)), /more rights than plans need/, name);
      }
      assert.match(String(await plan("app")), /^EXPLAIN gave no plan: /);
    }),
});
