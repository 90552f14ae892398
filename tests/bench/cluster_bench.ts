import { PostgresServer } from "../stage/postgres_server.ts";
import { poll } from "../stage/poll.ts";
import { addMember, clientOf, SIGN, startMember } from "../cluster/signers.ts";
import type { Row } from "./row.ts";
import { createStage, type SectionContext } from "./section.ts";
import { median, quantile } from "./statistics.ts";

const NAMES = ["a", "b", "c"];
const FREEZES = 200;
const SUBJECT = { kind: "end_user", value: "u" };
/** How long the database is gone before its standby is promoted. */
const GONE_MS = 3_000;

/** Three signers on a database with a synchronous standby: freezes that all decide by, and a promotion. */
export async function benchCluster({ dir, say }: SectionContext): Promise<readonly Row[]> {
  await using primary = await PostgresServer.start();
  await using standby = await primary.startStandby();
  await using stage = await createStage(dir);
  const state_db = `postgres://gateway@127.0.0.1:${primary.port},127.0.0.1:${standby.port}/gateway`;
  const members = await Promise.all(NAMES.map((name) => addMember(stage, { name, state_db })));
  for (const member of members) await startMember(stage, member);
  const operators = await Promise.all(members.map((member) => clientOf(stage, member, "operator")));
  const brokers = await Promise.all(members.map((member) => clientOf(stage, member, "broker")));
  const sign = async (index: number) => (await brokers[index]?.request(SIGN))?.status;
  const times: number[] = [];
  for (let round = 0; round < FREEZES; round++) {
    const ask = async (path: string) => {
      const answer = await operators[round % NAMES.length]?.request({ method: "POST", path, body: SUBJECT });
      if (answer?.status !== 200) throw new Error(`${path} answered ${answer?.status}: ${answer?.text}`);
    };
    const from = performance.now();
    await ask("/v1/freeze");
    times.push(performance.now() - from);
    await ask("/v1/unfreeze");
  }
  say("  the primary dies …");
  await primary.kill();
  const refused = performance.now();
  await new Promise((resolve) => setTimeout(resolve, GONE_MS));
  await standby.promote();
  const promoted = performance.now();
  const freeze = { method: "POST", path: "/v1/freeze", body: SUBJECT } as const;
  const isDone = async () => (await operators[0]?.request(freeze))?.status === 200;
  await Promise.all([
    poll(isDone, { what: "a freeze", intervalMs: 5 }),
    ...NAMES.map((_, index) =>
      poll(async () => await sign(index) === 200, { what: "a certificate", intervalMs: 5 })
    ),
  ]);
  const back = performance.now() - promoted;
  const absolute = (what: string, ms: number, bound: number, baseline = ""): Row => ({
    ...{ what, measured: `${ms.toFixed(0)} ms`, baseline, ratio: "" },
    ...{ target: `under ${bound} ms`, met: ms < bound },
  });
  return [
    absolute("freeze acknowledged by all of 3 signers, p50", median(times), 20),
    absolute(
      "freeze acknowledged by all of 3 signers, p99",
      quantile(times.toSorted((a, b) => a - b), 0.99),
      250,
    ),
    absolute(
      "certificates and changes again after a promotion",
      back,
      2_000,
      `the database was gone for ${(promoted - refused).toFixed(0)} ms`,
    ),
  ];
}
