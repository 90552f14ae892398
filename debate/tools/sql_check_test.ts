import assert from "node:assert/strict";
import { assertLinearWork } from "@gateway/shared/testing";
import { ToolFailure } from "./run_program.ts";
import { checkSql } from "./sql_check.ts";

Deno.test.each([
  { text: "SELECT 1", query: "SELECT 1" },
  { text: " select * from t where a = ';' ; ", query: "select * from t where a = ';'" },
  { text: "-- why\nSELECT 1 -- end", query: "SELECT 1" },
  { text: "/* a /* nested */ ; delete */ select 1", query: "select 1" },
  { text: "with x as (select 1) select * from x", query: "with x as (select 1) select * from x" },
  { text: "select 'it''s; fine'", query: "select 'it''s; fine'" },
  { text: "select E'a\\'; drop' ", query: "select E'a\\'; drop'" },
  { text: "select $$ ; delete $$, $x$ $$ ; $x$", query: "select $$ ; delete $$, $x$ $$ ; $x$" },
  { text: 'select "delete; x" from t', query: 'select "delete; x" from t' },
  { text: "select * from t for update", query: "select * from t for update" },
  { text: "select updated_at, deleted from inserts", query: "select updated_at, deleted from inserts" },
  { text: "select 'a' -- it's\n, 1;;", query: "select 'a' , 1" },
  { text: "VALUES (1)", query: "VALUES (1)" },
  { text: "select pg_catalog.lower(a)", query: "select pg_catalog.lower(a)" },
  { text: 'select LOWER (a), "lower"(b)', query: 'select LOWER (a), "lower"(b)' },
  { text: "select a=-1, b<-1, c->>'x', d::varchar(3)", query: "select a=-1, b<-1, c->>'x', d::varchar(3)" },
  { text: "select x in (1), exists (select 1)", query: "select x in (1), exists (select 1)" },
  { text: "select a from t where b = any (array[1])", query: "select a from t where b = any (array[1])" },
].map((row) => ({ ...row, name: row.text })))("checkSql() passes $name", ({ text, query }) => {
  assert.equal(checkSql(text), query);
});

Deno.test.each([
  "",
  ";",
  "-- nothing",
  "DELETE FROM t",
  "ANALYZE SELECT 1",
  "(ANALYZE) SELECT 1",
  "(ANALYZE true) DELETE FROM t",
  "VERBOSE SELECT 1",
  "/* select */ drop table t",
  "select 1; drop table t",
  "select 1; -- x\n drop table t",
  "select '\\'; drop table t; --'",
  "with x as (delete from t returning *) select * from x",
  "with x as (INSERT/**/INTO t values (1) returning *) select 1",
  "with x as (update t set a = 1 returning *) select 1",
  "with x as (merge into t using s on true when matched then do nothing) select 1",
  "select * into u from t",
  "explain select 1",
  "execute p",
  "create table t as select 1",
  "select 'open",
  'select "open',
  "select $$open",
  "select /* open",
  "select 1 \0",
  "select table_to_xml('t', true, true, '')",
  "select pg_read_file('/etc/passwd')",
  "select current_setting('data_directory')",
  "select public.lower(a)",
  "select other.pg_catalog.lower(a)",
  'select "Lower"(a)',
  "select lower\u00a0(a)",
  "select f/* */(a)",
  "select f -- \n (a)",
  "select (x).f",
  "select (x) . f",
  "select 1 operator(public.+) 2",
  "select 1 =! 2",
  "select 1 ==- 2",
  "select * from t tablesample system (1)",
  "select xmlparse(document 'x')",
  "select E'a'\n'\\'' || f('x') || ''",
  "select 'a' 'b'",
  "select 1.f(2)",
  "select $1f(2)",
  `select ${"x,".repeat(10_001)}1`,
].map((text) => ({ name: JSON.stringify(text.slice(0, 40)), text })))(
  "checkSql() refuses $name",
  ({ text }) => {
    assert.throws(() => checkSql(text), ToolFailure);
  },
);

Deno.test.each(["$$", "/*", "'", "--", "$a", '"', "e'", "$a$ "].map((unit) => ({ name: unit, unit })))(
  "checkSql() takes linear time on $name",
  ({ unit }) => {
    // The longest text that it looks at.
    assertLinearWork((size) => {
      try {
        checkSql(`select ${unit.repeat(size / unit.length - 10)}`);
      } catch (error) {
        assert.ok(error instanceof ToolFailure);
      }
    }, 20_000);
  },
);
