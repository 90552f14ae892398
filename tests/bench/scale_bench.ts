import { systemClock } from "@gateway/shared/clock";
import { compilePolicy, decideSsh, mayUseHost } from "@gateway/shared/policy";
import { sampleIntent } from "../../shared/testing/sample_policy.ts";
import { JsonClient } from "@gateway/shared/http";
import type { Stage } from "../stage/stage.ts";
import { load } from "./http_load.ts";
import { generatePolicy, hostName, LARGE, type PolicySize, SMALL } from "./large_config.ts";
import { BROKER, putLargePolicy, twoLargeConfigs } from "./large_stage.ts";
import type { Row } from "./row.ts";
import { createStage, type SectionContext } from "./section.ts";
import { signLoad } from "./sign_request.ts";
import { median, quantile } from "./statistics.ts";

const STARTS = 3;
const DECISIONS = 10_000;
const WARM_UP = 2000;
const LISTS = 10;
const RELOADS = 20;
const SIGN_ROUNDS = 3;

/** A signer with 10,000 hosts, 200 group policies and 50 callers, against one with 10 hosts. */
export async function benchScale({ dir, say }: SectionContext): Promise<readonly Row[]> {
  const decision = benchDecision();
  say("  starts …");
  await Deno.mkdir(`${dir}/large`);
  await Deno.mkdir(`${dir}/small`);
  await using large = await createStage(`${dir}/large`);
  await using small = await createStage(`${dir}/small`);
  await putLargePolicy(large.init.signer_config, LARGE);
  await putLargePolicy(small.init.signer_config, SMALL);
  const starts = { large: [] as number[], small: [] as number[] };
  for (let i = 0; i < STARTS; i++) {
    starts.large.push(await startMs(large));
    starts.small.push(await startMs(small));
  }
  say("  sign and hosts …");
  const signer = await large.startSigner();
  await using _small = await small.startSigner();
  const idle = await signer.residentBytes();
  const sign = await benchSign(large, small);
  const list = await benchList(large);
  const used = await signer.residentBytes();
  const operator = await large.signerClient("operator");
  const configs = await twoLargeConfigs(large.init.signer_config);
  let reloaded = 0;
  for (let i = 0; i < RELOADS; i++) {
    await Deno.writeTextFile(large.init.signer_config, configs[i % 2] ?? "");
    const { status } = await operator.request({ method: "POST", path: "/v1/reload" });
    if (status !== 200) throw new Error(`the reload answered ${status}`);
    reloaded = Math.max(reloaded, await signer.residentBytes());
  }
  return [
    loadRow(median(starts.large), median(starts.small)),
    compileRow(),
    memoryRow("after signing and lists", used, idle),
    memoryRow(`at most during ${RELOADS} reloads in a row`, reloaded, idle),
    ...decision,
    sign,
    list,
  ];
}

function memoryRow(when: string, bytes: number, idle: number): Row {
  return {
    what: `signer, 10,000 hosts, memory ${when}`,
    measured: `${(bytes / 1e6).toFixed(0)} MB`,
    baseline: `${(idle / 1e6).toFixed(0)} MB after the start`,
    ratio: "",
    target: "under 300 MB",
    met: Math.max(idle, bytes) < 300e6,
  };
}

async function startMs(stage: Stage): Promise<number> {
  const from = performance.now();
  const signer = await stage.startSigner();
  const ms = performance.now() - from;
  await signer.stop();
  return ms;
}

function loadRow(large: number, small: number): Row {
  return {
    what: "10,000 hosts, load and compile (start to ready)",
    measured: `${(large - small).toFixed(0)} ms more`,
    baseline: `${small.toFixed(0)} ms with 10 hosts`,
    ratio: "",
    target: "under 2000 ms",
    met: large - small < 2000,
  };
}

function compile(size: PolicySize) {
  const compiled = compilePolicy(generatePolicy(size, BROKER));
  if (compiled.kind === "invalid") throw new Error(compiled.problems.join("\n"));
  return compiled.policy;
}

function compileRow(): Row {
  const config = generatePolicy(LARGE, BROKER);
  const ms = median(Array.from({ length: STARTS }, () => {
    const from = performance.now();
    compilePolicy(config);
    return performance.now() - from;
  }));
  return {
    what: "10,000 hosts, compilePolicy()",
    measured: `${ms.toFixed(0)} ms`,
    baseline: "",
    ratio: "",
    target: "under 2000 ms",
    met: ms < 2000,
  };
}

function benchDecision(): readonly Row[] {
  const [large, small] = [compile(LARGE), compile(SMALL)];
  const decide = (policy: typeof large, n: number) => {
    const intent = sampleIntent({ caller: BROKER, host: hostName(n), command: "df -h" });
    const from = performance.now();
    const allowed = mayUseHost(policy, BROKER, intent.host) === "ok" &&
      decideSsh(policy, intent).kind === "allowed";
    const us = (performance.now() - from) * 1000;
    if (!allowed) throw new Error(`no decision for ${intent.host}`);
    return us;
  };
  const times = { large: [] as number[], small: [] as number[] };
  // The first ones are slower: patterns build their tables as texts come.
  for (let i = -WARM_UP; i < DECISIONS; i++) {
    const n = Math.abs(i);
    if (i === 0) times.large.length = times.small.length = 0;
    // Hosts with the rules of their groups alone, in both.
    times.large.push(decide(large, ((n * 7919) % 200) * 50));
    times.small.push(decide(small, n % 2));
  }
  return [slowdown("10,000 hosts, decision, median", "us", median(times.large), median(times.small))];
}

async function benchSign(large: Stage, small: Stage): Promise<Row> {
  const [many, few] = [await signLoad(large, hostName(9900)), await signLoad(small, hostName(0))];
  const medianOf = async (options: typeof many) => {
    const { latencies, failures } = await load({ ...options, connections: 1, seconds: 2 });
    if (failures > 0) throw new Error(`${failures} sign requests failed`);
    return quantile(latencies, 0.5);
  };
  await medianOf(many);
  await medianOf(few);
  const times = { large: [] as number[], small: [] as number[] };
  for (let round = 0; round < SIGN_ROUNDS; round++) {
    times.large.push(await medianOf(many));
    times.small.push(await medianOf(few));
  }
  return slowdown("10,000 hosts, whole sign request, median", "ms", median(times.large), median(times.small));
}

function slowdown(what: string, unit: string, large: number, small: number): Row {
  return {
    what,
    measured: `${large.toFixed(2)} ${unit}`,
    baseline: `${small.toFixed(2)} ${unit} with 10 hosts`,
    ratio: (large / small).toFixed(2),
    target: "at most 1.5",
    met: large / small <= 1.5,
  };
}

async function benchList(stage: Stage): Promise<Row> {
  const { port, cert, key, ca } = await signLoad(stage);
  using client = new JsonClient({
    clock: systemClock,
    baseUrl: `https://127.0.0.1:${port}`,
    cert,
    key,
    ca,
    maxResponseBytes: 1 << 24,
  });
  const times: number[] = [];
  let hosts = 0;
  for (let i = 0; i < LISTS; i++) {
    const from = performance.now();
    const { status, body } = await client.request({ method: "GET", path: "/v1/hosts" });
    times.push(performance.now() - from);
    if (status !== 200 || typeof body !== "object" || body === null) {
      throw new Error(`hosts answered ${status}`);
    }
    hosts = Object.keys(body).length;
  }
  if (hosts < LARGE.hosts) throw new Error(`only ${hosts} hosts`);
  const ms = median(times);
  return {
    what: `GET /v1/hosts of ${hosts}, median of ${LISTS}, read by the client`,
    measured: `${ms.toFixed(0)} ms`,
    baseline: "",
    ratio: "",
    target: "under 150 ms",
    met: ms < 150,
  };
}
