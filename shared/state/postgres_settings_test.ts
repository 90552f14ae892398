import assert from "node:assert/strict";
import { describeTarget, isPostgresUrl, parsePostgresUrl } from "./postgres_settings.ts";

Deno.test.each([
  ["postgres://app@db/gw", "postgres://app@db:5432/gw", [true], ""],
  ["postgresql://app:p%40:w@127.0.0.1/gw", "postgres://app@127.0.0.1:5432/gw", [false], "p@:w"],
  ["postgres://a:s@localhost:1,[::1]:2,db2:3/gw", "postgres://a@localhost:1,[::1]:2,db2:3/gw", [
    false,
    false,
    true,
  ], "s"],
  ["postgres://a@db/gw?sslmode=disable", "postgres://a@db:5432/gw", [false], ""],
  ["postgres://a@127.0.0.1/gw?sslmode=verify-full", "postgres://a@127.0.0.1:5432/gw", [true], ""],
  [
    "postgres://a@%2Frun%2Fpostgresql:5433/gw",
    "postgres://a@/run/postgresql/.s.PGSQL.5433/gw",
    [undefined],
    "",
  ],
  ["postgres://a@127.evil.example/gw", "postgres://a@127.evil.example:5432/gw", [true], ""],
])("parsePostgresUrl() reads %s", (url, shown, tls, password) => {
  const target = parsePostgresUrl(url);
  assert.equal(describeTarget(target), shown);
  assert.deepEqual(target.hosts.map((host) => host.kind === "tcp" ? host.tls : undefined), tls);
  assert.equal(target.password, password);
});

Deno.test.each([
  { name: "no host", url: "postgres://s3cret:s3cret@/gw" },
  { name: "no user", url: "postgres://db/gw" },
  { name: "no database", url: "postgres://a:s3cret@db/" },
  { name: "a port out of range", url: "postgres://a:s3cret@db:70000/gw" },
  { name: "TLS that is not verified", url: "postgres://a:s3cret@db/gw?sslmode=require" },
  { name: "sslmode twice", url: "postgres://a:s3cret@db/gw?sslmode=verify-full&sslmode=disable" },
  { name: "another parameter", url: "postgres://a:s3cret@db/gw?target_session_attrs=any" },
  { name: "a broken escape", url: "postgres://a:s3cret%zz@db/gw" },
  { name: "an @ that is not escaped", url: "postgres://a:s3cret@x@db/gw" },
  { name: "a slash that is not escaped", url: "postgres://a:s3/cret@db/gw" },
  { name: "blanks", url: "postgres://a:s3cret@d b/gw" },
  { name: "a fragment", url: "postgres://a:s3cret@db/gw#x" },
])("parsePostgresUrl() refuses $name, and shows nothing of the URL", ({ url }) => {
  assert.throws(() => parsePostgresUrl(url), (error: Error & { code?: string }) => {
    assert.equal(error.code, "invalid_config");
    assert.doesNotMatch(error.message, /s3|cret/);
    return true;
  });
});

Deno.test.each([
  { text: "postgres://a@b/c", is: true },
  { text: "POSTGRESQL://a@b/c", is: true },
  { text: "postgres:typo", is: true },
  { text: "/var/lib/postgres/state.db", is: false },
  { text: "", is: false },
])("isPostgresUrl() of $text", ({ text, is }) => {
  assert.equal(isPostgresUrl(text), is);
});
