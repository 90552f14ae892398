import { addMember, startMember } from "../cluster/signers.ts";
import { PostgresServer } from "../stage/postgres_server.ts";
import { load } from "./http_load.ts";
import type { Row } from "./row.ts";
import { createStage, type SectionContext } from "./section.ts";
import { signLoad } from "./sign_request.ts";
import { median } from "./statistics.ts";

const ROUNDS = 5;
const SECONDS = 2;
const WARM_SECONDS = 8;
const CONNECTIONS = 16;

/** Signing by a state in PostgreSQL against one in SQLite, and by two signers that share it, in turns. */
export async function benchClusterSign({ dir, say }: SectionContext): Promise<readonly Row[]> {
  await using server = await PostgresServer.start();
  await using stage = await createStage(dir);
  await stage.startSigner();
  const signing = await signLoad(stage);
  const ports: number[] = [];
  for (const name of ["a", "b"]) {
    const member = await addMember(stage, { name, state_db: server.url() });
    await startMember(stage, member);
    ports.push(Number(member.listen.split(":")[1]));
  }
  const [first = 0, second = 0] = ports;
  const measure = async (seconds: number, ...to: readonly number[]) => {
    const connections = CONNECTIONS / to.length;
    const results = await Promise.all(to.map((port) => load({ ...signing, port, connections, seconds })));
    if (results.some(({ failures }) => failures > 0)) throw new Error("sign requests failed");
    return results.reduce((sum, { perSecond }) => sum + perSecond, 0);
  };
  say("  until the code is compiled …");
  for (const port of [signing.port, first, second]) await measure(WARM_SECONDS, port);
  const rounds: { readonly sqlite: number; readonly postgres: number; readonly both: number }[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    rounds.push({
      sqlite: await measure(SECONDS, signing.port),
      postgres: await measure(SECONDS, first),
      both: await measure(SECONDS, first, second),
    });
  }
  const rowOf = (what: string, of: "postgres" | "both", to: "sqlite" | "postgres", bound: number): Row => {
    const ratio = median(rounds.map((each) => each[of] / each[to]));
    return {
      what,
      measured: `${median(rounds.map((each) => each[of])).toFixed(0)}/s`,
      baseline: `${median(rounds.map((each) => each[to])).toFixed(0)}/s`,
      ratio: ratio.toFixed(2),
      target: `at least ${bound}`,
      met: ratio >= bound,
    };
  };
  return [
    rowOf("sign, state in PostgreSQL against SQLite", "postgres", "sqlite", 0.95),
    rowOf("sign, two signers on one database against one", "both", "postgres", 1),
  ];
}
