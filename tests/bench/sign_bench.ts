import { freePort } from "../stage/free_port.ts";
import { poll } from "../stage/poll.ts";
import type { Stage } from "../stage/stage.ts";
import { load, loadByAgent, type LoadResult } from "./http_load.ts";
import { signLoad } from "./sign_request.ts";
import { compared, median, quantile, type Row, startProgram } from "./harness.ts";

const ROUNDS = 5;
const SECONDS = 3;
/** Warm-up. Measured: 3,750 signatures a second in the first seconds under load, 5,300 from the twelfth second on. */
const WARM_SECONDS = 12;

interface Round {
  readonly bare: LoadResult;
  readonly signer: LoadResult;
}

/**
 * The first load costs the client little and shows the limit of the server. The second is the client of a broker. The
 * third shows the duration of one request: each request waits for a separate sync, and the bare handler for none. The
 * bound is the ratio to the rate of the bare handler.
 */
const LOADS = [
  { name: "16 connections, bare sockets", send: load, connections: 16, bound: 0.25 },
  { name: "16 connections, node:https agent", send: loadByAgent, connections: 16, bound: 0.3 },
  { name: "1 connection, bare sockets", send: load, connections: 1, bound: 0.2 },
] as const;

/** Compares `POST /v1/sign` with durable audit records to a bare handler, in turns. */
export async function benchSign(stage: Stage): Promise<readonly Row[]> {
  const { init } = stage;
  const port = freePort();
  const files = [`${init.folder}/pki/signer.crt`, `${init.folder}/pki/signer.key`, init.mtls_ca];
  const allow = ["--allow-read", `--allow-net=127.0.0.1:${port}`];
  const baseline = startProgram("baseline_server.ts", [String(port), ...files], allow);
  const ended = baseline.status;
  try {
    await poll(() => canConnect(port), { what: "the baseline server" });
    const signing = await signLoad(stage);
    const signerPort = signing.port;
    const rows: Row[] = [];
    for (const { name, send, connections, bound } of LOADS) {
      const common = { ...signing, connections };
      const results: Round[] = [];
      // Warm-up: connects, and compiles the code.
      await send({ ...common, port, seconds: 2 });
      await send({ ...common, port: signerPort, seconds: WARM_SECONDS });
      for (let round = 0; round < ROUNDS; round++) {
        const bare = await send({ ...common, port, seconds: SECONDS });
        const signer = await send({ ...common, port: signerPort, seconds: SECONDS });
        if (signer.failures > 0) throw new Error(`${signer.failures} sign requests failed`);
        results.push({ bare, signer });
      }
      rows.push(...rowsOf(name, bound, results));
    }
    return rows;
  } finally {
    baseline.kill("SIGKILL");
    await ended;
  }
}

function rowsOf(name: string, bound: number, results: readonly Round[]): readonly Row[] {
  const ratio = median(results.map(({ bare, signer }) => signer.perSecond / bare.perSecond));
  const signs = median(results.map(({ signer }) => signer.perSecond));
  const bares = median(results.map(({ bare }) => bare.perSecond));
  const p50 = median(results.map(({ signer }) => quantile(signer.latencies, 0.5)));
  const p99 = median(results.map(({ signer }) => quantile(signer.latencies, 0.99)));
  return [
    compared(
      {
        what: `sign, ${name}`,
        measured: `${signs.toFixed(0)}/s`,
        baseline: `${bares.toFixed(0)}/s bare node:https mTLS`,
      },
      ratio,
      { atLeast: bound },
    ),
    compared(
      {
        what: `sign, p99 against p50, ${name}`,
        measured: `${p99.toFixed(1)} ms`,
        baseline: `${p50.toFixed(1)} ms`,
      },
      p99 / p50,
      { under: 5 },
    ),
  ];
}

async function canConnect(port: number): Promise<boolean> {
  try {
    (await Deno.connect({ hostname: "127.0.0.1", port })).close();
    return true;
  } catch {
    return false;
  }
}
