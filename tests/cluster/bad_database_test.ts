/** Signers whose database is there and can't be used: too few connections, read-only, slow; and one audit log of two. */
import assert from "node:assert/strict";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { poll } from "../stage/poll.ts";
import { signerCommand } from "../stage/service_command.ts";
import { ServiceProcess } from "../stage/service_process.ts";
import type { Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { addMember, clientOf, type Member, readiness, SIGN, startMember } from "./signers.ts";
import { Wire } from "./wire.ts";

const PASSWORD = "s3cret";

interface Fault {
  /** Of the account in the database, too. */
  readonly name: string;
  /** What a signer says that starts meanwhile. */
  readonly words: RegExp;
  begin(wire: Wire): Promise<unknown> | void;
  end(wire: Wire): Promise<unknown> | void;
}

function faultsOf(server: PostgresServer): readonly Fault[] {
  const alter = (name: string, what: string) => server.sql(`ALTER ROLE ${name} ${what}`);
  return [
    {
      name: "crowded",
      words: /too many connections for role "crowded"/,
      begin: () => alter("crowded", "CONNECTION LIMIT 0"),
      end: () => alter("crowded", "CONNECTION LIMIT -1"),
    },
    {
      name: "unwritable",
      words: /read-only transaction/,
      begin: () => alter("unwritable", "SET default_transaction_read_only = on"),
      end: () => alter("unwritable", "RESET default_transaction_read_only"),
    },
    {
      name: "slow",
      words: /does not answer/,
      begin: (wire) => wire.break("is slow", 5_000),
      end: (wire) => wire.mend(),
    },
  ];
}

/** What one says that does not start. */
async function refusalOf({ configPath }: Member): Promise<string> {
  await using process = ServiceProcess.spawn(await signerCommand(configPath));
  assert.equal((await process.status).code, 1);
  await process.stop();
  return process.log;
}

async function meet(
  stage: Stage,
  server: PostgresServer,
  { name, words, begin, end }: Fault,
): Promise<Member> {
  await server.sql(`CREATE ROLE ${name} LOGIN PASSWORD '${PASSWORD}' IN ROLE gateway`);
  await using wire = await Wire.open(server.port);
  const state_db = `postgres://${name}:${PASSWORD}@127.0.0.1:${wire.port}/gateway`;
  const member = await addMember(stage, { name, state_db });
  const other = await addMember(stage, { name: `${name}-2`, state_db });
  const process = await startMember(stage, member);
  const [operator, broker] = [
    await clientOf(stage, member, "operator"),
    await clientOf(stage, member, "broker"),
  ];
  const reset = () =>
    server.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${name}'`);
  await begin(wire);
  await reset();
  await poll(async () => (await readiness(member)).startsWith("503 not ready: what is decided by"), {
    what: `the word of the ${name}`,
    intervalMs: 20,
  });
  const [refused, freeze, log] = await Promise.all([
    broker.request(SIGN),
    operator.request({
      method: "POST",
      path: "/v1/freeze",
      body: { kind: "end_user", value: name, reason: "" },
    }),
    refusalOf(other),
  ]);
  assert.equal(refused.status, 503);
  assert.equal((refused.body as { readonly code: string }).code, "state_stale");
  assert.equal(freeze.status, 503, "a freeze that others don't know is not acknowledged");
  assert.match(log, words);
  assert.match(log, /Cannot (?:open|use) state_db/);
  await end(wire);
  await reset();
  await poll(async () => (await broker.request(SIGN)).status === 200, {
    what: `the ${name}`,
    intervalMs: 20,
  });
  const frozen = await broker.request({ ...SIGN, body: { ...SIGN.body, end_user: name } });
  assert.equal(frozen.status, 403, "and holds here all the same");
  await process.stop();
  assert.doesNotMatch(log + process.log, /s3cret|Unexpected|Uncaught|none\.invalid/);
  return member;
}

Deno.test({
  name: "signers whose database can't be used say why, decide nothing, and go on by themselves when it can",
  ignore: isPostgresMissing,
  async fn() {
    await using server = await PostgresServer.start();
    await withStage({}, async (stage) => {
      // The tables are the owner's, whose rights the accounts have.
      const state_db = server.url();
      const first = await addMember(stage, { name: "first", state_db });
      const process = await startMember(stage, first);
      await Promise.all(faultsOf(server).map((fault) => meet(stage, server, fault)));
      const twin = await addMember(stage, {
        ...{ name: "twin", state_db },
        edits: [{ path: ["audit_log"], value: first.auditLog }],
      });
      assert.match(await refusalOf(twin), /another process writes|in use|lock/);
      assert.equal(await readiness(first), "200 ready");
      await process.stop();
    });
  },
});
