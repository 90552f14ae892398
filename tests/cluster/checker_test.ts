import assert from "node:assert/strict";
import { findContradictions } from "./checker.ts";
import type { ApprovalAttempt, Attempt } from "./history.ts";
import { findApprovalContradictions } from "./approval_checker.ts";
import { isPostgresMissing, PostgresServer } from "../stage/postgres_server.ts";
import { poll } from "../stage/poll.ts";
import { signerCommand } from "../stage/service_command.ts";
import { ServiceProcess } from "../stage/service_process.ts";
import { post, type Stage } from "../stage/stage.ts";
import { withStage } from "../stage/with_stage.ts";
import { addMember, clientOf, type Member, readiness, SIGN, startMember } from "./signers.ts";
import { Wire } from "./wire.ts";
import { runFaults } from "./fault_run.ts";

const at = (asked: number, ended: number, result: Attempt["result"] = "done", subject = "u"): Attempt => ({
  ...{ subject, asked, ended, result },
});

const AFTER = { freezes: [at(1, 2)], unfreezes: [] as Attempt[], signs: [at(5, 6)] };

Deno.test.each<[number, string, Partial<typeof AFTER>]>([
  [1, "a certificate after a freeze", {}],
  [0, "one that was asked for before", { freezes: [at(1, 6)] }],
  [0, "one of another subject", { signs: [at(5, 6, "done", "v")] }],
  [0, "a refusal", { signs: [at(5, 6, "refused")] }],
  [0, "a freeze that nobody acknowledged", { freezes: [at(1, 2, "unknown")] }],
  [0, "an unfreeze between", { unfreezes: [at(3, 4)] }],
  [0, "an unfreeze at the same time", { unfreezes: [at(3, 9)] }],
  [0, "an unfreeze that may be done yet", { freezes: [at(3, 4)], unfreezes: [at(1, 2, "unknown")] }],
  [1, "an unfreeze before", { freezes: [at(3, 4)], unfreezes: [at(1, 2)] }],
  [1, "an unfreeze after", { unfreezes: [at(7, 8)] }],
  [1, "an unfreeze that was refused", { unfreezes: [at(3, 4, "refused")] }],
  [1, "a second freeze", { freezes: [at(1, 2), at(5, 6)], unfreezes: [at(3, 4)], signs: [at(7, 8)] }],
])("findContradictions() finds %d contradictions in %s", (bad, _name, change) => {
  assert.equal(findContradictions({ ...AFTER, ...change }).length, bad);
});

const atApproval = (
  step: ApprovalAttempt["step"],
  asked: number,
  status: number,
  { ended = asked + 1, isPending = false, subject = "a" } = {},
): ApprovalAttempt => ({
  ...{ subject, step, asked, ended, status, isPending },
  result: status === 200 ? "done" : status >= 500 || status === 0 ? "unknown" : "refused",
});
const approve = atApproval("approve", 1, 200);
const collect = atApproval("collect", 3, 200);
const lost = atApproval("approve", 1, 0);
const undecided = (asked: number) => atApproval("collect", asked, 202, { isPending: true });
const ofB = (attempt: ApprovalAttempt) => ({ ...attempt, subject: "b" });
const used = atApproval("collect", 3, 410);
const CONSISTENT = "";

Deno.test.each<[name: string, attempts: ApprovalAttempt[], bad: string]>([
  ["an approved request, collected once", [approve, collect], CONSISTENT],
  ["two collections", [approve, collect, collect], "collected 2 times"],
  ["two that are not the same", [approve, collect, ...[approve, collect].map(ofB)], CONSISTENT],
  ["two decisions", [approve, atApproval("deny", 1, 200)], "decided 2 times"],
  ["a collection of a denied request", [lost, atApproval("deny", 1, 200), collect], "collected, and denied"],
  ["a collection of a request without an approval", [
    atApproval("approve", 1, 409),
    atApproval("deny", 0, 503),
    collect,
  ], "collected, and nobody approved it"],
  ["an approval with a lost answer", [lost, collect], CONSISTENT],
  [
    "one that nobody had and is used up",
    [approve, used],
    "used up, and nobody collected it",
  ],
  [
    "one whose collection may have been lost on its way",
    [approve, atApproval("collect", 2, 0), used],
    CONSISTENT,
  ],
  ["a collection later than one that was answered as consumed", [
    approve,
    atApproval("collect", 2, 200, { ended: 9 }),
    used,
  ], CONSISTENT],
  [
    "a denial of nobody's",
    [approve, atApproval("collect", 3, 403)],
    "refused as denied, and nobody denied it",
  ],
  ["one that is lost", [atApproval("collect", 3, 404)], "unknown, though it was parked"],
  ["a request that expires early", [atApproval("collect", 3, 408)], "expired before its time"],
  ["a decision that is lost", [approve, undecided(3)], "undecided, though it was decided"],
  ["a decision at the same time as a poll", [approve, undecided(1)], CONSISTENT],
  ["a request that is not pending", [atApproval("approve", 1, 409)], "not pending, and nobody decided it"],
  ["a decision that came too late", [approve, atApproval("deny", 1, 409)], CONSISTENT],
])("findApprovalContradictions() evaluates %s", (_name, attempts, bad) => {
  assert.deepEqual(findApprovalContradictions(attempts), bad === CONSISTENT ? [] : [`approval a: ${bad}`]);
});

const PASSWORD = "s3cret";

interface Fault {
  /** For the account in the database, too. */
  readonly name: string;
  /** The log of a signer that starts meanwhile. */
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
  const operator = await clientOf(stage, member, "operator");
  const broker = await clientOf(stage, member, "broker");
  const reset = () =>
    server.sql(`SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = '${name}'`);
  await begin(wire);
  await reset();
  await poll(async () => (await readiness(member)).startsWith("503 not ready: its state"), {
    what: `the word of the ${name}`,
    intervalMs: 20,
  });
  const [refused, freeze, log] = await Promise.all([
    broker.request(SIGN),
    post(operator, "/v1/freeze", { kind: "end_user", value: name, reason: "" }),
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

Deno.test(
  "signers with an unusable database report the reason, deny all requests and recover without a restart",
  { ignore: isPostgresMissing },
  async () => {
    await using server = await PostgresServer.start();
    await withStage({}, async (stage) => {
      // The owner owns the tables. The accounts have the owner's rights.
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
);

Deno.test(
  "acknowledged results of signers and control planes stay consistent if processes, database and connections fail",
  { ignore: isPostgresMissing },
  async () => {
    const report = await runFaults({ rounds: 8, clocks: false });
    Deno.stderr.writeSync(new TextEncoder().encode(`${report}\n`));
  },
);
