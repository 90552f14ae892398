import assert from "node:assert/strict";
import { explainPostgres } from "../../debate/tools/explain_postgres.ts";
import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import { type CallTool, isMissing, realTools, temporaryFolder } from "./debate_tools_fixture.ts";

const BIN = findBin();
const ignore = isMissing("postgresql", [`${BIN}/initdb`]);

/** Debian keeps each version's programs in a folder of its own. */
function findBin(): string {
  try {
    const versions = [...Deno.readDirSync("/usr/lib/postgresql")].map(({ name }) => name);
    return `/usr/lib/postgresql/${versions.toSorted((a, b) => Number(b) - Number(a))[0]}/bin`;
  } catch {
    return "/usr/bin";
  }
}

interface Database extends AsyncDisposable {
  readonly url: string;
  /** Runs SQL as the owner; gives the rows, unaligned. */
  sql(text: string): Promise<string>;
}

/** A server of its own. It refuses to run as root, so root lends it another account. */
async function startPostgres(folder: string): Promise<Database> {
  const port = freePort();
  const data = `${folder}/data`;
  const asRoot = Deno.uid() === 0;
  const account = asRoot ? ["setpriv", "--reuid=postgres", "--regid=postgres", "--clear-groups"] : [];
  const command = (program: string, args: readonly string[]) => {
    const [first = "", ...rest] = [...account, `${BIN}/${program}`, ...args];
    return new Deno.Command(first, {
      args: rest,
      cwd: folder,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    });
  };
  if (asRoot) await new Deno.Command("chown", { args: ["-R", "postgres:postgres", folder] }).output();
  await Deno.writeTextFile(`${folder}/password`, "s3cret-pw\n", { mode: 0o644 });
  const made = await command("initdb", [
    ...[
      "-D",
      data,
      "-U",
      "app",
      "--auth=scram-sha-256",
      `--pwfile=${folder}/password`,
      "-E",
      "UTF8",
      "--no-locale",
      "-N",
    ],
  ]).output();
  assert.ok(made.success, new TextDecoder().decode(made.stderr));
  const [first = "", ...rest] = [...account, `${BIN}/postgres`];
  const server = new Deno.Command(first, {
    args: [
      ...rest,
      "-D",
      data,
      "-p",
      String(port),
      "-c",
      "listen_addresses=127.0.0.1",
      "-c",
      "unix_socket_directories=",
      "-c",
      "fsync=off",
    ],
    cwd: folder,
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const sql = async (text: string) => {
    const { success, stdout, stderr } = await new Deno.Command(`${BIN}/psql`, {
      args: [
        "-XAtq",
        "-v",
        "ON_ERROR_STOP=1",
        "-h",
        "127.0.0.1",
        "-p",
        String(port),
        "-U",
        "app",
        "-d",
        "postgres",
        "-c",
        text,
      ],
      env: { PGPASSWORD: "s3cret-pw" },
    }).output();
    if (!success) throw new Error(new TextDecoder().decode(stderr));
    return new TextDecoder().decode(stdout).trim();
  };
  await poll(() => sql("select 1").then(() => true, () => false), {
    what: "PostgreSQL",
    intervalMs: 50,
  });
  return {
    url: `postgres://app:s3cret-pw@127.0.0.1:${port}/postgres`,
    sql,
    async [Symbol.asyncDispose]() {
      // SIGQUIT is its immediate shutdown, which takes its children along.
      server.kill("SIGQUIT");
      await server.status;
    },
  };
}

async function withDatabase(test: (call: CallTool, database: Database) => Promise<void>): Promise<void> {
  await using folder = await temporaryFolder();
  await Deno.chmod(folder.path, 0o755);
  await using database = await startPostgres(folder.path);
  await database.sql(
    "create table t (id int primary key, name text); insert into t select n, 'x' from generate_series(1, 500) n; analyze t",
  );
  await test(await realTools({ settings: { DATABASE_URL: database.url } }), database);
}

Deno.test({
  name: "run_db_explain shows plans, and changes nothing",
  ignore,
  fn: () =>
    withDatabase(async (call, database) => {
      const explain = (query: string) => call("run_db_explain", { query });
      const plan = await explain("-- by key\nselect * from t where id = 5;");
      assert.equal(plan.ok, true, plan.text);
      assert.match(plan.text, /Index Scan using t_pkey on t .*\n\s+Index Cond: \(id = 5\)/);
      assert.match((await explain("with x as (select * from t) select count(*) from x")).text, /Aggregate/);

      // What the check lets through in spite of all, the transaction stops.
      await database.sql(
        "create function wipe() returns int language plpgsql as $$ begin delete from t; return 1; end $$; " +
          "create function evil() returns int language plpgsql immutable as $$ begin return wipe(); end $$",
      );
      const evil = await explain("select * from t where id = evil()");
      assert.equal(evil.ok, false);
      assert.match(evil.text, /read-only transaction \(SQLSTATE 25006\)/);
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

      // Past the check: the protocol takes one statement only.
      for (const query of ["select 1; commit; delete from t", "select 1; select 2"]) {
        const several = await explainPostgres({
          url: database.url,
          query,
          seconds: 5,
          signal: new AbortController().signal,
        });
        assert.ok(several.kind === "failed");
        assert.match(several.reason, /multiple commands/);
      }
      assert.equal(await database.sql("select count(*) from t"), "500");
    }),
});

Deno.test({
  name: "run_db_explain has the database stop what takes long, and leaves no connection",
  ignore,
  fn: () =>
    withDatabase(async (call, database) => {
      await database.sql(
        "create function slow() returns int language plpgsql immutable as $$ begin perform pg_sleep(6000); return 1; end $$",
      );
      const { ok, text } = await call("run_db_explain", {
        query: "select * from t where id = slow()",
        timeout: 1,
      });
      assert.equal(ok, false);
      assert.match(text, /statement timeout|No answer within 1 s/);
      const others = "select count(*) from pg_stat_activity where application_name = 'diagnosis-debate'";
      await poll(async () => await database.sql(others) === "0", { what: "the end of the connection" });
    }),
});

Deno.test({
  name: "run_db_explain never shows anything of the URL",
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
      assert.match(results[0]?.text ?? "", /relation "missing" does not exist \(SQLSTATE 42P01\)/);
      assert.match(results[1]?.text ?? "", /refuses the configured account/);
      for (const { ok, text } of results) {
        assert.equal(ok, false);
        assert.doesNotMatch(text, /s3cret|127\.0\.0\.1|postgres:\/\/|no-such-host|"app"/, text);
      }
    }),
});
