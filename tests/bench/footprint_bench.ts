import { Agent } from "../demo/agent.ts";
import { residentBytes } from "../stage/proc_file.ts";
import type { Stage } from "../stage/stage.ts";
import type { ServiceProcess } from "../stage/service_process.ts";
import { median, type Row, settle, under } from "./harness.ts";

const STARTS = 5;
const START_MS = 60_000;
const MAX_MEGABYTES = 105;

/** Measures start-up time and idle memory of each service in a separate process. */
export async function benchFootprint(stage: Stage): Promise<readonly Row[]> {
  const signer = await measure(() => stage.startSigner());
  await using _signer = await stage.startSigner();
  const broker = await measure(() => stage.startBroker());
  const mcp = await measureMcp(stage);
  return [
    under("signer, ready after", signer.startMs, 1000),
    under("broker (HTTP), ready after", broker.startMs, 1000),
    under("broker (MCP), initialize answered after", mcp.startMs, 700),
    memory("signer", signer.bytes),
    memory("broker (HTTP)", broker.bytes),
    memory("broker (MCP)", mcp.bytes),
  ];
}

interface Footprint {
  readonly startMs: number;
  readonly bytes: number;
}

async function measure(start: () => Promise<ServiceProcess>): Promise<Footprint> {
  const runs: Footprint[] = [];
  for (let i = 0; i < STARTS; i++) {
    const from = performance.now();
    const service = await start();
    const startMs = performance.now() - from;
    await settle();
    runs.push({ startMs, bytes: await service.residentBytes() });
    await service.stop();
  }
  return middle(runs);
}

async function measureMcp(stage: Stage): Promise<Footprint> {
  const command = await stage.mcpCommand();
  const runs: Footprint[] = [];
  for (let i = 0; i < STARTS; i++) {
    const from = performance.now();
    const agent = await Agent.start(command, AbortSignal.timeout(START_MS));
    const startMs = performance.now() - from;
    await settle();
    runs.push({ startMs, bytes: await residentBytes(agent.pid) });
    await agent.close();
  }
  return middle(runs);
}

function middle(runs: readonly Footprint[]): Footprint {
  return { startMs: median(runs.map((run) => run.startMs)), bytes: median(runs.map((run) => run.bytes)) };
}

function memory(name: string, bytes: number): Row {
  return under(`${name}, idle memory`, bytes / 1e6, MAX_MEGABYTES, { unit: "MB", digits: 1 });
}
