import assert from "node:assert/strict";
import * as z from "@zod/zod";
import type { Chart } from "../engine/events.ts";
import { defineTool, MAX_RESULT, present, timeoutArgument, truncate, visible } from "./define_tool.ts";
import { ToolFailure } from "./run_program.ts";
import { compileAllowList } from "./net_guard.ts";
import { BARE_SETTINGS, FakePorts } from "./testing/tool_bench.ts";
import { assertLinearWork } from "@gateway/shared/testing";
import { checkSql } from "./sql_check.ts";

const schema = z.strictObject({ word: z.string().max(5), timeout: timeoutArgument(10) });

function make(
  ports: FakePorts,
  run: (
    word: string,
    signal: AbortSignal,
    seconds: number,
  ) => Promise<{ ok: boolean; title: string; body: string; chart?: Chart }>,
) {
  return defineTool({
    name: "echo",
    description: "",
    schema,
    missing: () => undefined,
    run: ({ word }, { signal, seconds }) => run(word, signal, seconds),
  })({ ports, settings: BARE_SETTINGS, allowed: compileAllowList([]) });
}

const context = () => ({ signal: new AbortController().signal, runId: "run" });

Deno.test("defineTool() shows call and duration first, and redacts and truncates the result", async () => {
  const ports = new FakePorts();
  const tool = make(ports, async (word) => {
    await ports.clock.advance(12);
    return { ok: true, title: `echo\n${word}`, body: `hunter2 ${"x".repeat(9000)}` };
  });
  const { ok, text } = await tool.run({ word: "a" }, context());
  assert.equal(ok, true);
  assert.match(text, /^echo a \[12 ms\]\n\[REDACTED\] x/);
  assert.ok(text.length <= MAX_RESULT);
});

Deno.test("defineTool() masks and bounds a chart", async () => {
  const points = Array.from(
    { length: 1000 },
    (_, at) => [at, at === 1 ? NaN : at === 2 ? Infinity : at] as const,
  );
  const series = Array.from({ length: 20 }, (_, at) => ({ label: `s${at}\n\x1b[2Jhunter2`, points }));
  const tool = make(
    new FakePorts(),
    () =>
      Promise.resolve({
        ok: true,
        title: "",
        body: "",
        chart: { series: [{ label: "", points: [] }, ...series] },
      }),
  );
  const { chart } = await tool.run({ word: "a" }, context());
  assert.deepEqual(
    chart?.series.map(({ label }) => label),
    series.slice(0, 7).map((_, at) => `s${at} [REDACTED]`),
  );
  const [drawn] = chart?.series ?? [];
  assert.deepEqual([drawn?.points.length, drawn?.points[0], drawn?.points.at(-1)], [120, [0, 0], [999, 999]]);
  assert.ok(drawn?.points.flat().every(Number.isFinite));
});

Deno.test.each([
  { name: "a missing argument", args: {}, problem: /word/ },
  { name: "an argument of the wrong type", args: { word: 1 }, problem: /word/ },
  { name: "an argument that is too long", args: { word: "abcdef" }, problem: /word/ },
  { name: "an unknown argument", args: { word: "a", shell: true }, problem: /shell/ },
  { name: "no object", args: null, problem: /object/ },
  { name: "a negative timeout", args: { word: "a", timeout: -1 }, problem: /timeout/ },
])("defineTool() reports $name without running the tool", async ({ args, problem }) => {
  const tool = make(new FakePorts(), () => assert.fail("must not run"));
  const { ok, text } = await tool.run(args, context());
  assert.equal(ok, false);
  assert.match(text, /^echo failed: invalid arguments/);
  assert.match(text, problem);
});

Deno.test.each([
  { name: "the default", asked: {}, seconds: 10 },
  { name: "the requested time", asked: { timeout: 3 }, seconds: 3 },
  { name: "never more than a minute", asked: { timeout: 1e9 }, seconds: 60 },
])("defineTool() limits the duration: $name", async ({ asked, seconds }) => {
  const tool = make(new FakePorts(), (_word, _signal, bound) => {
    assert.equal(bound, seconds);
    return Promise.resolve({ ok: true, title: "", body: "" });
  });
  assert.equal((await tool.run({ word: "a", ...asked }, context())).ok, true);
});

Deno.test("defineTool() aborts a slow tool and reports it", async () => {
  const ports = new FakePorts();
  const tool = make(
    ports,
    (_word, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  );
  const [result] = await Promise.all([tool.run({ word: "a" }, context()), ports.clock.advance(10_000)]);
  assert.deepEqual(result, { ok: false, text: "echo failed: no response within 10 s" });
});

Deno.test("defineTool() does not wait for a tool that ignores its signal", async () => {
  const ports = new FakePorts();
  const tool = make(ports, () => new Promise(() => {}));
  const [result] = await Promise.all([tool.run({ word: "a" }, context()), ports.clock.advance(20_000)]);
  assert.deepEqual(result, { ok: false, text: "echo failed: no response within 10 s" });
});

Deno.test("defineTool() keeps the partial result of an aborted tool", async () => {
  const ports = new FakePorts();
  const tool = make(
    ports,
    (_word, signal) =>
      new Promise((resolve) =>
        signal.addEventListener("abort", () => resolve({ ok: false, title: "half", body: "so far" }))
      ),
  );
  const [result] = await Promise.all([tool.run({ word: "a" }, context()), ports.clock.advance(10_000)]);
  assert.match(result.text, /^half \[10000 ms\]\nso far$/);
});

Deno.test("defineTool() throws the reason of a canceled run", async () => {
  const run = new AbortController();
  const tool = make(
    new FakePorts(),
    (_word, signal) =>
      new Promise((_resolve, reject) => signal.addEventListener("abort", () => reject(signal.reason))),
  );
  const call = tool.run({ word: "a" }, { signal: run.signal, runId: "run" });
  run.abort(new Error("cancelled"));
  await assert.rejects(call, /cancelled/);
});

Deno.test("defineTool() returns a redacted failure and throws a defect", async () => {
  const failing = make(new FakePorts(), () => Promise.reject(new ToolFailure("no hunter2")));
  assert.deepEqual(await failing.run({ word: "a" }, context()), {
    ok: false,
    text: "echo failed: no [REDACTED]",
  });
  const broken = make(new FakePorts(), () => Promise.reject(new TypeError("bug")));
  await assert.rejects(broken.run({ word: "a" }, context()), TypeError);
});

Deno.test.each([
  { name: "colors", text: "\x1b[31mred\x1b[0m", shown: "red" },
  { name: "a window title", text: "\x1b]0;evil\x07ok", shown: "ok" },
  { name: "carriage returns", text: "a\r\nb\rc", shown: "a\nb\nc" },
  { name: "NUL and backspace", text: "a\0b\b", shown: "a\ufffdb\ufffd" },
  { name: "bidi overrides", text: "a\u202eb", shown: "a\ufffdb" },
  { name: "tag characters", text: "a\u{e0041}b", shown: "a\ufffdb" },
  { name: "lone surrogates", text: "a\ud800b", shown: "a\ufffdb" },
])("visible() removes $name", ({ text, shown }) => {
  assert.equal(visible(text), shown);
});

Deno.test("visible() keeps lines, tabs and all letters", () => {
  assert.equal(visible("ä\tß\n日本 😀 e\u0301"), "ä\tß\n日本 😀 e\u0301");
});

Deno.test("present() redacts before it truncates, so no part of a secret remains", () => {
  const redact = (text: string) => text.replace(/<secret>.*?<\/secret>/g, "[REDACTED]");
  const text = `${"x".repeat(2600)}<secret>${"s".repeat(200)}</secret>${"y".repeat(3000)}`;
  assert.doesNotMatch(present(text, redact), /s{5}/);
});

Deno.test("present() takes linear time on unfinished escape sequences", () => {
  for (const unit of ["\x1b]", "\x1b["]) {
    assertLinearWork((size) => visible(unit.repeat(size / unit.length)), 400_000);
  }
});

Deno.test("truncate() keeps a text of maximum length", () => {
  const text = "x".repeat(MAX_RESULT);
  assert.equal(truncate(text), text);
  assert.equal(truncate(""), "");
});

Deno.test("truncate() keeps two thirds from the beginning and one third from the end", () => {
  const text = "a".repeat(5000) + "b".repeat(5000);
  const short = truncate(text);
  assert.ok(short.length <= MAX_RESULT);
  const [, head, omitted, total, tail] = /^(a+)\n\[\.\.\. (\d+) of (\d+) characters omitted \.\.\.\]\n(b+)$/
    .exec(short)!;
  assert.equal(Number(total), 10_000);
  assert.equal(head!.length + tail!.length + Number(omitted), 10_000);
  assert.ok(Math.abs(head!.length - 2 * tail!.length) <= 2);
});

Deno.test("truncate() never splits a character", () => {
  for (let shift = 0; shift < 2; shift++) {
    assert.ok(truncate("x".repeat(shift) + "😀".repeat(5000)).isWellFormed());
  }
});

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
].map((row) => ({ ...row, name: row.text })))("checkSql() accepts $name", ({ text, query }) => {
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
  "checkSql() rejects $name",
  ({ text }) => {
    assert.throws(() => checkSql(text), ToolFailure);
  },
);

Deno.test.each(["$$", "/*", "'", "--", "$a", '"', "e'", "$a$ "].map((unit) => ({ name: unit, unit })))(
  "checkSql() takes linear time on $name",
  ({ unit }) => {
    // The maximum length of a checked query.
    assertLinearWork((size) => {
      try {
        checkSql(`select ${unit.repeat(size / unit.length - 10)}`);
      } catch (error) {
        assert.ok(error instanceof ToolFailure);
      }
    }, 20_000);
  },
);
