/** Faults of a PostgreSQL database, and the messages about them for operators. */
import assert from "node:assert/strict";
import { errorText } from "@gateway/shared/errors";
import { createCertificateAuthority, issueLeaf } from "../../ctl/identities/x509.ts";
import { systemClock } from "@gateway/shared/clock";
import { PostgresAccess } from "@gateway/shared/state/postgres_access";
import { POSTGRES_SCHEMA } from "../../signer/live/state/schema.ts";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { FakeClock } from "@gateway/shared/testing";
import { Wire } from "../cluster/wire.ts";
import { poll } from "../stage/poll.ts";
import { freezeOf, grantOf, NOW, openShared } from "./state_fixture.ts";

const KNOWN = POSTGRES_SCHEMA.migrations.length;
const ignore = isPostgresMissing;

async function refusal(settings: Parameters<typeof openShared>[0]): Promise<string> {
  try {
    await (await openShared(settings)).close();
  } catch (error) {
    assert.equal((error as { readonly code?: string }).code, "invalid_config", errorText(error));
    return errorText(error);
  }
  throw new Error("it was opened");
}

Deno.test({
  name: "an unusable PostgreSQL database stops the start with a message without the password",
  ignore,
  async fn(test) {
    await using server = await PostgresServer.start();
    await server.sql("CREATE ROLE app LOGIN PASSWORD 's3cret'; GRANT CREATE ON DATABASE gateway TO app");
    await server.authenticate("host all app 127.0.0.1/32 scram-sha-256");
    const folder = await Deno.makeTempDir();
    const passwordFile = `${folder}/password`;
    const url = server.url({ user: "app" });

    await test.step("a password in the URL or in a file is accepted", async () => {
      await (await openShared({ state_db: url.replace("app@", "app:s3cret@") })).close();
      await Deno.writeTextFile(passwordFile, "s3cret\n");
      await (await openShared({ state_db: url, state_db_password_file: passwordFile })).close();
    });

    await test.step("a query after a failed change is rejected instead of running alone", async () => {
      const settings = { state_db: url.replace("app@", "app:s3cret@"), state_db_password_file: "" };
      const access = await PostgresAccess.open(POSTGRES_SCHEMA, {
        ...{ settings: { ...settings, state_db_ca: "" }, clock: systemClock, warn() {} },
      });
      const failed = Promise.withResolvers<void>();
      let late: Promise<unknown> = Promise.resolve();
      const change = access.change((query) => {
        late = failed.promise.then(() => query("DELETE FROM krl"));
        return query("SELECT FROM nowhere");
      });
      await assert.rejects(change, { code: "internal" });
      failed.resolve();
      await assert.rejects(late, /the transaction is over/);
      assert.equal(await server.sql("SELECT count(*) FROM signer.krl"), "1");
      await access.close();
    });

    await test.step("a wrong password is not printed", async () => {
      await Deno.writeTextFile(passwordFile, "wr0ng\n");
      const inFile = { state_db: url, state_db_password_file: passwordFile };
      for (const settings of [{ state_db: url.replace("app@", "app:wr0ng@") }, inFile]) {
        const text = await refusal(settings);
        assert.match(text, /^Cannot open state_db postgres:\/\/app@127\.0\.0\.1:\d+\/gateway: .*28P01/);
        assert.doesNotMatch(text, /wr0ng/);
      }
      const missing = await refusal({ state_db: url, state_db_password_file: `${folder}/none` });
      assert.match(missing, /Cannot read state_db_password_file ".*none": no such file/);
    });

    await test.step("no server, no database or no right to create tables stops the start", async () => {
      assert.match(
        await refusal({ state_db: "postgres://a@127.0.0.1:1/gateway" }),
        /127\.0\.0\.1:1: .*REFUSED/,
      );
      assert.match(await refusal({ state_db: `${server.url()}x` }), /3D000/);
      await server.sql("CREATE ROLE poor LOGIN");
      await server.authenticate("host all poor 127.0.0.1/32 trust");
      await server.sql("DROP SCHEMA signer CASCADE");
      assert.match(await refusal({ state_db: server.url({ user: "poor" }) }), /permission denied/);
    });

    await test.step("a server that hangs up during a query is reported as a lost connection", async () => {
      using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
      const [welcome, buffer] = [[82, 0, 0, 0, 8, 0, 0, 0, 0, 90, 0, 0, 0, 5, 73], new Uint8Array(1024)];
      void (async () => {
        for await (const connection of listener) {
          await connection.read(buffer);
          await connection.write(Uint8Array.from(welcome));
          await connection.read(buffer);
          connection.close();
        }
      })().catch(() => {});
      const at = `127.0.0.1:${listener.addr.port}`;
      const words = await refusal({ state_db: `postgres://a@${at}/gateway` });
      // The driver would report a host that does not exist.
      assert.match(words, new RegExp(`${at}.*: the connection is lost$`));
    });

    await test.step("a newer version is rejected", async () => {
      await (await openShared({ state_db: server.url() })).close();
      await server.sql("UPDATE signer.schema_version SET version = 99, oldest = 99");
      const newer =
        `signer has version 99 and this program knows ${KNOWN}; start the program version that wrote it`;
      assert.match(await refusal({ state_db: server.url() }), new RegExp(newer));
      assert.equal(await server.sql("SELECT version FROM signer.schema_version"), "99");
      await server.sql("ALTER TABLE signer.schema_version DROP COLUMN oldest");
      assert.match(await refusal({ state_db: server.url() }), /has version 99/, "nothing of older programs");
      await server.sql("ALTER TABLE signer.schema_version ADD COLUMN oldest int8 NOT NULL DEFAULT 0");
      assert.match(await refusal({ state_db: server.url() }), /another program's/);
    });

    await test.step("a newer version that allows older programs is accepted", async () => {
      await server.sql(`UPDATE signer.schema_version SET oldest = ${KNOWN}`);
      await server.sql("ALTER TABLE signer.freezes ADD COLUMN ticket text NOT NULL DEFAULT ''");
      const store = await openShared({ state_db: server.url() });
      await store.putFreeze(freezeOf());
      assert.deepEqual(await store.loadFreezes(), [freezeOf()]);
      await store.close();
      assert.equal(await server.sql("SELECT version, oldest FROM signer.schema_version"), `99|${KNOWN}`);
      await server.sql("ALTER TABLE signer.freezes DROP COLUMN ticket; TRUNCATE signer.freezes");
      await server.sql(`UPDATE signer.schema_version SET version = ${KNOWN}`);
    });

    const alter = (change: string, undo: string) =>
      [`ALTER TABLE signer.${change}`, `ALTER TABLE signer.${undo}`] as const;
    const ADD_KEY = "freezes ADD PRIMARY KEY (kind, value)";
    const RULE = "CREATE RULE r AS ON INSERT TO signer.freezes DO INSTEAD NOTHING";
    for (
      const [name, [change, undo], words] of [
        ["a column more", alter("freezes ADD x int", "freezes DROP x"), /also has freezes\.x integer/],
        [
          "another type",
          alter("krl ALTER version TYPE int4", "krl ALTER version TYPE int8"),
          /lacks krl\.version bigint not null/,
        ],
        ["a key less", alter("freezes DROP CONSTRAINT freezes_pkey", ADD_KEY), /lacks freezes PRIMARY KEY/],
        ["a rule", [RULE, "DROP RULE r ON signer.freezes"], /also has rule r on freezes/],
        ["a table less", alter("leases RENAME TO x", "x RENAME TO leases"), /lacks leases\./],
      ] as const
    ) {
      await test.step(`a manually altered table is rejected: ${name}`, async () => {
        await server.sql(change);
        assert.match(await refusal({ state_db: server.url() }), words);
        await server.sql(undo);
        await (await openShared({ state_db: server.url() })).close();
      });
    }

    await test.step("a schema of the same name from another program is rejected", async () => {
      await server.sql("DROP SCHEMA signer CASCADE; CREATE SCHEMA signer; CREATE TABLE signer.t (x int)");
      assert.match(await refusal({ state_db: server.url() }), /its schema signer is another program's/);
      await server.sql("DROP SCHEMA signer CASCADE");
    });

    await test.step("concurrent starts create the tables once", async () => {
      const stores = await Promise.all(Array(6).fill(0).map(() => openShared({ state_db: server.url() })));
      await Promise.all(stores.map((store) => store.close()));
    });

    await test.step("an unreadable freeze stops the start, and an unreadable grant is skipped", async () => {
      const warnings: string[] = [];
      const store = await openShared({ state_db: server.url() }, warnings);
      await store.insertGrant(grantOf({ id: "a" }));
      await store.putFreeze(freezeOf());
      await server.sql("UPDATE signer.grants SET allow = 'x'; UPDATE signer.freezes SET kind = 'host'");
      assert.deepEqual(await store.loadGrants(NOW), []);
      assert.match(warnings[0] ?? "", /grant in state_db cannot be read and has no effect: a/);
      await assert.rejects(store.loadFreezes(), /a freeze can't be read: unknown kind "host"/);
      await store.close();
    });
    await Deno.remove(folder, { recursive: true });
  },
});

Deno.test(
  "requests to a PostgreSQL database that never responds fail within 2.5 s of the clock",
  { ignore },
  async () => {
    await using server = await PostgresServer.start();
    await using wire = await Wire.open(server.port);
    const settings = {
      ...{ state_db_password_file: "", state_db_ca: "" },
      // The second host is tried within the same timeout.
      state_db: `postgres://gateway@127.0.0.1:${wire.port},127.0.0.1:${wire.port}/gateway`,
    };
    const clock = new FakeClock();
    const access = await PostgresAccess.open(POSTGRES_SCHEMA, { settings, clock, warn() {} });
    for (const state of ["connected", "not connected"]) {
      wire.break("holds both");
      const from = clock.now();
      const heard: unknown[] = [];
      for (const asked of ["change", "change", "read"] as const) {
        void access[asked]((query) => query("SELECT 1 AS one"))
          .catch(({ code }) => heard.push([code, clock.now() - from]));
      }
      await poll(() => clock.sleeping > 0, { what: `somebody to wait (${state})` });
      while (heard.length < 3) await clock.advance(100);
      assert.deepEqual(heard, Array(3).fill(["state_stale", 2_500]), state);
    }
    wire.mend();
    await access.change((query) => query("SELECT 1 AS one"));
    await access.close();
  },
);

Deno.test({
  name: "a PostgreSQL database over TLS is accepted only with the right CA and name",
  ignore,
  async fn(test) {
    await using server = await PostgresServer.start();
    const folder = await Deno.makeTempDir();
    const verified = server.url({ more: "?sslmode=verify-full" });
    await test.step("a server without TLS is rejected", async () => {
      assert.match(await refusal({ state_db: verified }), /it has no TLS/);
    });
    const authority = await createCertificateAuthority({ commonName: "database CA" });
    const other = await createCertificateAuthority({ commonName: "database CA" });
    const caOf = async (name: string, { certPem }: { readonly certPem: string }) => {
      await Deno.writeTextFile(`${folder}/${name}`, certPem);
      return `${folder}/${name}`;
    };
    const [ca, otherCa] = [await caOf("ca", authority), await caOf("other", other)];
    const leaf = (name: string) =>
      issueLeaf(authority, { subject: "CN=db", usage: "server", subjectAltNames: [name] });
    const use = async (name: string) => {
      const { certPem, keyPem } = await leaf(name);
      await server.useTls({ cert: certPem, key: keyPem });
    };
    await use("127.0.0.1");
    await test.step("the right CA and name are accepted", async () => {
      const store = await openShared({ state_db: verified, state_db_ca: ca });
      await store.putFreeze(freezeOf());
      assert.equal(await server.sql("SELECT count(*) FROM pg_stat_ssl WHERE ssl"), "1");
      await store.close();
    });
    await test.step("another CA", async () => {
      const foreign = await refusal({ state_db: verified, state_db_ca: otherCa });
      assert.match(foreign, /certificate|signature|issuer/i);
      assert.match(await refusal({ state_db: verified }), /certificate|issuer/i);
    });
    await test.step("another name or another address is rejected", async () => {
      const byName = verified.replace("127.0.0.1", "localhost");
      assert.match(await refusal({ state_db: byName, state_db_ca: ca }), /name/i);
      await use("localhost");
      await (await openShared({ state_db: byName, state_db_ca: ca })).close();
      assert.match(await refusal({ state_db: verified, state_db_ca: ca }), /name|address|IP/i);
    });
    await Deno.remove(folder, { recursive: true });
  },
});

Deno.test(
  "a PostgreSQL standby is rejected, and after its promotion accepted immediately",
  { ignore },
  async () => {
    await using primary = await PostgresServer.start();
    await using standby = await primary.startStandby();
    const both = `postgres://gateway@127.0.0.1:${standby.port},127.0.0.1:${primary.port}/gateway`;
    assert.match(await refusal({ state_db: standby.url() }), /it is a standby/);
    const store = await openShared({ state_db: both });
    await store.putFreeze(freezeOf({ value: "before" }));
    await primary.kill();
    await assert.rejects(store.putFreeze(freezeOf({ value: "between" })), { code: "state_stale" });
    await standby.promote();
    await store.putFreeze(freezeOf({ value: "after" }));
    assert.deepEqual((await store.loadFreezes()).map(({ value }) => value).sort(), ["after", "before"]);
    await store.close();
  },
);
