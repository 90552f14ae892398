import type { JsonClient } from "@gateway/shared/http";
import { addMember, clientOf, startMember } from "../cluster/signers.ts";
import { PostgresServer } from "../stage/postgres_server.ts";
import type { Stage } from "../stage/stage.ts";
import { load, loadByAgent, type LoadOptions, type LoadResult } from "./http_load.ts";
import type { Row } from "./row.ts";
import { createStage, type SectionContext } from "./section.ts";
import { signBody, signLoad } from "./sign_request.ts";
import { median, quantile } from "./statistics.ts";

const CONNECTIONS = 16;
const ROUNDS = 9;
const SECONDS = 1;
const DECISIONS = 100;
/** What needs approval, as a pattern. */
const GATED = "^reboot$";
const LONGEST_COST = 2.2;
const LONGEST_DECISION_MS = 300;

/** The first costs the machine as little as can be and shows the servers' limit; the second is what a broker is. */
const LOADS = [
  { name: "bare sockets", send: load },
  { name: "node:https agent", send: loadByAgent },
] as const;

/** What the control plane adds to a sign request, and how soon a decision reaches the broker that waits for it. */
export async function benchControlPlane({ dir, say }: SectionContext): Promise<readonly Row[]> {
  await using stage = await createStage(dir, {
    controlPlane: true,
    signer: [
      // It is measured directly as well.
      { path: ["callers", "broker-local", "only_via"] },
      { path: ["group_command_policies", "local"], value: ["bench-approval"] },
      {
        path: ["command_policies", "bench-approval"],
        value: { mode: "allowlist", allow: [GATED], require_approval: [GATED] },
      },
    ],
    // A limit would be what is measured.
    controlPlaneConfig: [{ path: ["behavior", "rate_limit_per_min"], value: 0 }],
  });
  await stage.startSigner();
  const controlPlane = await stage.startControlPlane();
  say("  sign …");
  const rows = await benchForwarding(stage);
  say(`  (control plane after the load: ${((await controlPlane.residentBytes()) / 1e6).toFixed(0)} MB)`);
  say("  decisions …");
  const one = {
    broker: await stage.controlPlaneClient("broker"),
    approver: await stage.controlPlaneClient("approver"),
  };
  return [
    ...rows,
    await benchDecision(one, "decision to the answer of a waiting poll"),
    await benchDecisionElsewhere(stage),
  ];
}

async function benchForwarding(stage: Stage): Promise<readonly Row[]> {
  const direct = { ...await signLoad(stage), connections: CONNECTIONS };
  const through = { ...direct, port: await portOf(stage.init.control_plane_config) };
  const rows: Row[] = [];
  for (const { name, send } of LOADS) {
    const rounds: { readonly direct: LoadResult; readonly through: LoadResult }[] = [];
    // One unmeasured round each: both are compiled and connected by then.
    await run(send, { ...direct, seconds: 2 });
    await run(send, { ...through, seconds: 2 });
    for (let round = 0; round < ROUNDS; round++) {
      rounds.push({
        direct: await run(send, { ...direct, seconds: SECONDS }),
        through: await run(send, { ...through, seconds: SECONDS }),
      });
    }
    const p50 = (result: LoadResult) => quantile(result.latencies, 0.5);
    const cost = median(rounds.map(({ direct, through }) => p50(through) / p50(direct)));
    rows.push({
      what: `sign through the control plane, ${CONNECTIONS} connections, ${name}`,
      measured: describe(rounds.map(({ through }) => through)),
      baseline: `${describe(rounds.map(({ direct }) => direct))} direct`,
      ratio: cost.toFixed(2),
      target: `at most ${LONGEST_COST}`,
      met: cost <= LONGEST_COST,
    });
  }
  return rows;
}

async function run(send: typeof load, options: LoadOptions): Promise<LoadResult> {
  const result = await send(options);
  if (result.failures > 0) throw new Error(`${result.failures} sign requests failed`);
  return result;
}

function describe(results: readonly LoadResult[]): string {
  const p50 = median(results.map(({ latencies }) => quantile(latencies, 0.5)));
  const perSecond = median(results.map((result) => result.perSecond));
  return `p50 ${p50.toFixed(1)} ms, ${perSecond.toFixed(0)}/s`;
}

/** The same with two control planes on one database: parked and polled at one, decided at the other. */
async function benchDecisionElsewhere(stage: Stage): Promise<Row> {
  await using server = await PostgresServer.start();
  const start = async (name: string) => {
    const member = await addMember(stage, { name, state_db: server.url(), service: "control-plane" });
    return { member, process: await startMember(stage, member) };
  };
  const [one, other] = [await start("one"), await start("other")];
  const row = await benchDecision({
    broker: await clientOf(stage, one.member, "broker"),
    approver: await clientOf(stage, other.member, "approver"),
  }, "decision at another instance to the answer of a waiting poll");
  // Before the database.
  await Promise.all([one.process.stop(), other.process.stop()]);
  return row;
}

/** From the approver's click to the certificate in the hands of a broker whose poll is held. */
async function benchDecision(
  { broker, approver }: Readonly<Record<"broker" | "approver", JsonClient>>,
  what: string,
): Promise<Row> {
  const body = { ...JSON.parse(signBody()), command: "reboot" };
  const times: number[] = [];
  for (let count = 0; count < DECISIONS; count++) {
    const parked = await broker.request({ method: "POST", path: "/v1/sign", body });
    if (parked.status !== 202) throw new Error(`sign answered ${parked.status}: ${parked.text}`);
    const { approval_id: id } = parked.body as { readonly approval_id: string };
    const polling = broker.request({ method: "GET", path: `/v1/sign/result/${id}?wait=8` });
    // The poll has to be there before the decision.
    await approver.request({ method: "GET", path: "/v1/approvals" });
    const from = performance.now();
    const path = `/v1/approvals/${id}`;
    const deciding = approver.request({ method: "POST", path, body: { approve: true } });
    const timed = polling.then(({ status, text }) => {
      if (status !== 200) throw new Error(`the poll answered ${status}: ${text}`);
      times.push(performance.now() - from);
    });
    await Promise.all([timed, deciding]);
  }
  times.sort((a, b) => a - b);
  const longest = times.at(-1) ?? NaN;
  return {
    what: `${what}, ${DECISIONS} approvals`,
    measured: `${longest.toFixed(0)} ms at most`,
    baseline: `${median(times).toFixed(0)} ms, median`,
    ratio: "",
    target: `under ${LONGEST_DECISION_MS} ms`,
    met: longest < LONGEST_DECISION_MS,
  };
}

async function portOf(configPath: string): Promise<number> {
  return Number(/"listen": "[^"]*:(\d+)"/.exec(await Deno.readTextFile(configPath))?.[1]);
}
