import type { ServiceProcess } from "../stage/service_process.ts";
import { HOST, type Stage } from "../stage/stage.ts";
import { load, type LoadResult } from "./http_load.ts";
import { hostName } from "./large_policy.ts";
import { putLargePolicy, twoLargeConfigs } from "./large_policy.ts";
import { signLoad } from "./sign_request.ts";
import { compared, median, quantile, type Row, under } from "./harness.ts";

const FEW = 16;
const MANY = 64;
const ROUNDS = 3;
const SECONDS = 3;
const PRESSURE_SECONDS = 10;
const MEMORY_SECONDS = 60;
const MAX_MEGABYTES = 160;
const MAX_LARGE_MEGABYTES = 300;
const MAX_RELOAD_MS = 1500;
/** Time between the starts of two reloads. A reload that takes longer is followed by the next without a pause. */
const RELOAD_EVERY_MS = 1000;

/** Measures `POST /v1/sign` over many connections, for a long time, and during changes of grants. */
export async function benchSignPressure(stage: Stage, signer: ServiceProcess): Promise<readonly Row[]> {
  return [await benchConnections(stage), await benchGrantChurn(stage), await benchMemory(stage, signer)];
}

async function benchMemory(stage: Stage, signer: ServiceProcess): Promise<Row> {
  const idle = await signer.residentBytes();
  const options = { ...await signLoad(stage), connections: MANY };
  checked(await load({ ...options, seconds: MEMORY_SECONDS }));
  const bytes = await signer.residentBytes();
  return under(
    `signer, memory after ${MEMORY_SECONDS} s at ${MANY} connections`,
    bytes / 1e6,
    MAX_MEGABYTES,
    {
      unit: "MB",
      baseline: `${(idle / 1e6).toFixed(0)} MB before`,
    },
  );
}

async function benchConnections(stage: Stage): Promise<Row> {
  const common = await signLoad(stage);
  const rates: { readonly few: number; readonly many: number }[] = [];
  await load({ ...common, connections: MANY, seconds: 1 });
  for (let round = 0; round < ROUNDS; round++) {
    const few = checked(await load({ ...common, connections: FEW, seconds: SECONDS }));
    const many = checked(await load({ ...common, connections: MANY, seconds: SECONDS }));
    rates.push({ few: few.perSecond, many: many.perSecond });
  }
  const ratio = median(rates.map(({ few, many }) => many / few));
  // Two runs of the same load differ by up to this bound.
  return compared(
    {
      what: `sign, ${MANY} connections`,
      measured: `${median(rates.map(({ many }) => many)).toFixed(0)}/s`,
      baseline: `${median(rates.map(({ few }) => few)).toFixed(0)}/s with ${FEW}`,
    },
    ratio,
    { atLeast: 0.95 },
  );
}

async function benchGrantChurn(stage: Stage): Promise<Row> {
  const operator = await stage.signerClient("operator");
  return await underPressure(stage, HOST, "grants made and revoked", async (n) => {
    const body = { allow: [`^app-${n} status$`], ttl_seconds: 600 };
    const made = await operator.request({ method: "POST", path: `/v1/policy/hosts/${HOST}/grants`, body });
    if (made.status !== 201) throw new Error(`the grant answered ${made.status}: ${made.text}`);
    const { id } = JSON.parse(made.text);
    const revoked = await operator.request({ method: "DELETE", path: `/v1/policy/grants/${id}` });
    if (revoked.status !== 200) throw new Error(`the revocation answered ${revoked.status}`);
  });
}

/** Measures `POST /v1/sign` during repeated reloads of a config of 10,000 hosts that changes each time. */
export async function benchReload(stage: Stage): Promise<readonly Row[]> {
  const config = stage.init.signer_config;
  await putLargePolicy(config);
  const texts = await twoLargeConfigs(config);
  await using signer = await stage.startSigner();
  let resident = 0;
  const operator = await stage.signerClient("operator");
  const times: number[] = [];
  const pressed = await underPressure(stage, hostName(0), "reloads of 10,000 hosts", async (n) => {
    const pause = new Promise((resolve) => setTimeout(resolve, RELOAD_EVERY_MS));
    await Deno.writeTextFile(`${config}.next`, texts[n % 2] ?? "");
    await Deno.rename(`${config}.next`, config);
    const from = performance.now();
    const { status, text } = await operator.request({ method: "POST", path: "/v1/reload" });
    times.push(performance.now() - from);
    if (status !== 200) throw new Error(`the reload answered ${status}: ${text}`);
    resident = Math.max(resident, await signer.residentBytes());
    await pause;
  });
  return [
    pressed,
    under("reload of 10,000 hosts meanwhile, median", median(times), MAX_RELOAD_MS),
    under("signer, 10,000 hosts, memory at most during reloads", resident / 1e6, MAX_LARGE_MEGABYTES, {
      unit: "MB",
    }),
  ];
}

/** Measures the latency of sign requests during a repeated action. */
async function underPressure(
  stage: Stage,
  host: string,
  what: string,
  act: (n: number) => Promise<void>,
): Promise<Row> {
  const options = { ...await signLoad(stage, host), connections: FEW };
  const quiet = checked(await load({ ...options, seconds: SECONDS }));
  let [acts, done] = [0, false];
  const acting = async () => {
    while (!done) await act(acts++);
  };
  const loading = load({ ...options, seconds: PRESSURE_SECONDS }).finally(() => done = true);
  const pressed = checked((await Promise.all([loading, acting()]))[0]);
  const [p50, p99] = [quantile(pressed.latencies, 0.5), quantile(pressed.latencies, 0.99)];
  const still = quantile(quiet.latencies, 0.5);
  return compared(
    {
      what: `sign, p99 during ${acts} ${what}`,
      measured: `${p99.toFixed(1)} ms`,
      baseline: `${p50.toFixed(1)} ms p50 (${still.toFixed(1)} without)`,
    },
    p99 / p50,
    { under: 5 },
  );
}

function checked(result: LoadResult): LoadResult {
  if (result.failures > 0) throw new Error(`${result.failures} sign requests failed`);
  return result;
}
