import assert from "node:assert/strict";
import { ChangeLock } from "./durable.ts";
import { describeTarget, isPostgresUrl, parsePostgresUrl } from "./postgres_settings.ts";

Deno.test("ChangeLock.run() runs changes one after another in call order", async () => {
  const lock = new ChangeLock();
  const log: string[] = [];
  const { promise: slow, resolve } = Promise.withResolvers<void>();
  const change = (name: string, wait?: Promise<void>) =>
    lock.run(async () => {
      log.push(`${name} begins`);
      await wait;
      log.push(`${name} ends`);
      return name;
    });
  const all = Promise.all([change("a", slow), change("b"), change("c")]);
  await new Promise((done) => setTimeout(done, 0));
  assert.deepEqual(log, ["a begins"]);
  resolve();
  assert.deepEqual(await all, ["a", "b", "c"]);
  assert.deepEqual(log, ["a begins", "a ends", "b begins", "b ends", "c begins", "c ends"]);
});

Deno.test("ChangeLock.run() continues after a failed change", async () => {
  const lock = new ChangeLock();
  await assert.rejects(lock.run(() => Promise.reject(new Error("no"))), /no/);
  assert.equal(await lock.run(() => Promise.resolve(1)), 1);
});

Deno.test.each([
  ["postgres://app@db/gw", "postgres://app@db:5432/gw", [true], ""],
  ["postgresql://app:p%40:w@127.0.0.1/gw", "postgres://app@127.0.0.1:5432/gw", [false], "p@:w"],
  [
    "postgres://a:s@localhost:1,[::1]:2,db2:3/gw",
    "postgres://a@localhost:1,[::1]:2,db2:3/gw",
    [false, false, true],
    "s",
  ],
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
  { name: "spaces", url: "postgres://a:s3cret@d b/gw" },
  { name: "a fragment", url: "postgres://a:s3cret@db/gw#x" },
])("parsePostgresUrl() rejects $name and does not show the URL", ({ url }) => {
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
