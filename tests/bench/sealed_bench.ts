import { createEnvelopeKey } from "@gateway/shared/envelope";
import { McpProcess } from "../e2e/mcp_process.ts";
import { SessionClient } from "../e2e/session_client.ts";
import { FORMATS, InstalledShim, type ShimFormat } from "../shim/installed_shim.ts";
import { editConfig, HOST, type Stage } from "../stage/stage.ts";
import { commandRate } from "./command_rate.ts";
import { cpuSeconds } from "./processor_times.ts";
import { load, type LoadOptions } from "./http_load.ts";
import { quickLogin } from "./quick_login.ts";
import type { Row } from "./row.ts";
import { createStage, type SectionContext } from "./section.ts";
import { signLoad } from "./sign_request.ts";
import { median } from "./statistics.ts";

const WARM_UP = 100;
const COMMANDS = 25;
const ROUNDS = 3;
const PREFLIGHT_ROUNDS = 10;
const SECONDS = 1;
/** What a command in a sealed session may take more, in milliseconds. */
const FORMAT_BOUNDS = [{ format: FORMATS.v2, boundMs: 40 }, { format: FORMATS.v1, boundMs: 90 }] as const;
const MAX_PREFLIGHT_RATIO = 1.3;

/** What sealing costs: commands in sessions through both shims, and the signer's envelopes. */
export async function benchSealed({ dir }: SectionContext): Promise<readonly Row[]> {
  await using resources = new AsyncDisposableStack();
  const stage = resources.use(
    await createStage(dir, { signer: [{ path: ["group_command_policies"], value: {} }] }),
  );
  for (const { format } of FORMAT_BOUNDS) {
    const shim = resources.use(await InstalledShim.create(format));
    const key = createEnvelopeKey(await Deno.readFile(stage.init.envelope_key));
    await shim.writeKeys(format.keyLine(key));
    if (format.name === "v1") await shim.bundle();
    await addSealedHost(stage, shim);
  }
  await quickLogin(stage);
  const { pid } = await stage.startSigner();
  return [...await benchCommands(stage), ...await benchPreflights(stage, pid)];
}

function hostOf(format: ShimFormat): string {
  return `sealed-${format.name}`;
}

/** One more name of the host, sealed: it has one principal, so that all of its names do. */
async function addSealedHost(stage: Stage, { format, folder }: InstalledShim): Promise<void> {
  const { target, init } = stage;
  const addr = `127.0.0.1:${target.port}`;
  const name = hostOf(format);
  const host = {
    ...{ addr, user: target.user, host_key: target.hostKeyLine, groups: ["local"] },
    ...{ principal: `host:${HOST}`, shared_principal: true },
    ...{ sealed_exec: true, envelope: format.name, shim_command: `${folder}/gateway-shim` },
  };
  await editConfig(init.signer_config, [
    { path: ["hosts", HOST, "shared_principal"], value: true },
    { path: ["hosts", name], value: host },
  ]);
}

async function benchCommands(stage: Stage): Promise<readonly Row[]> {
  await using mcp = new McpProcess(await stage.mcpCommand());
  await mcp.initialize();
  const client = new SessionClient(mcp);
  const run = async (id: string) => {
    const { isError, text, structured } = await client.exec(id, "true");
    if (isError || structured["exit_code"] !== 0) throw new Error(text);
  };
  const plain = await client.open();
  await commandRate([plain], WARM_UP, run);
  const rows: Row[] = [];
  for (const { format, boundMs } of FORMAT_BOUNDS) {
    const sealed = await client.open({ server: hostOf(format) });
    await commandRate([sealed], 5, run);
    const rounds = [];
    // In turns: other work on the machine hits both.
    for (let round = 0; round < ROUNDS; round++) {
      const without = median((await commandRate([plain], COMMANDS, run)).times);
      rounds.push({ without, sealed: median((await commandRate([sealed], COMMANDS, run)).times) });
    }
    const [own, plainOwn] = [least(rounds, "sealed"), least(rounds, "without")];
    const more = own - plainOwn;
    rows.push({
      what: `command in a session, sealed with ${format.name}, median`,
      measured: `${own.toFixed(1)} ms`,
      baseline: `${plainOwn.toFixed(1)} ms without`,
      ratio: `+${more.toFixed(1)} ms`,
      target: `at most +${boundMs} ms`,
      met: more <= boundMs,
    });
  }
  return rows;
}

/** In processor time of the signer: the machine's other work is not in it. */
async function benchPreflights(stage: Stage, signer: number): Promise<readonly Row[]> {
  const without = await preflights(stage, HOST);
  const sealed = {
    v1: await preflights(stage, hostOf(FORMATS.v1)),
    v2: await preflights(stage, hostOf(FORMATS.v2)),
  };
  const rounds: Readonly<Record<"plain" | "v1" | "v2", number>>[] = [];
  // In turns: other work on the machine slows them all.
  for (let round = 0; round <= PREFLIGHT_ROUNDS; round++) {
    const costs = {
      plain: await cost(without, signer),
      v1: await cost(sealed.v1, signer),
      v2: await cost(sealed.v2, signer),
    };
    // The first is not measured: all are compiled by then.
    if (round > 0) rounds.push(costs);
  }
  const plain = least(rounds, "plain");
  return (["v2", "v1"] as const).map((version) => {
    const minted = least(rounds, version);
    const ratio = minted / plain;
    return {
      what: `preflight with an envelope ${version}, 16 connections`,
      measured: `${minted.toFixed(0)} us of processor`,
      baseline: `${plain.toFixed(0)} us without`,
      ratio: ratio.toFixed(2),
      target: `at most ${MAX_PREFLIGHT_RATIO}`,
      met: ratio <= MAX_PREFLIGHT_RATIO,
    };
  });
}

/** Of the round that other work has disturbed least. */
function least<Key extends string>(rounds: readonly Readonly<Record<Key, number>>[], key: Key): number {
  return Math.min(...rounds.map((round) => round[key]));
}

async function preflights(stage: Stage, host: string): Promise<LoadOptions> {
  const signing = await signLoad(stage, host);
  const session = { purpose: "session", session_mode: "exec", dry_run: true, preflight: true };
  const body = JSON.stringify({ ...JSON.parse(signing.body), ...session });
  return { ...signing, body, connections: 16, seconds: SECONDS };
}

/** Microseconds that the signer computes for one request. */
async function cost(options: LoadOptions, signer: number): Promise<number> {
  const before = await cpuSeconds(signer);
  const { latencies, failures } = await load(options);
  if (failures > 0) throw new Error(`${failures} preflights failed`);
  return (await cpuSeconds(signer) - before) * 1e6 / latencies.length;
}
