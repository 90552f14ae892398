import { DebateProcess, sceneEnv, withHome } from "../e2e/debate_scene.ts";
import type { Row } from "./row.ts";
import { quantile } from "./statistics.ts";

const BYTES = 10 * 1024 * 1024;
const MAX_MS = 2000;
const MAX_HEALTH_MS = 100;
const PAUSE_MS = 5;
const IDLE_MS = 1500;

/** A line of a log; every tenth has a secret, and most have a word that secrets stand beside. */
function line(number: number): string {
  const secret = number % 10 === 0 ? ` password=hunter${number}` : "";
  return `2026-01-02T03:04:05.123Z INFO checkout pool active=98 url=https://orders.internal:8443/v1/orders?id=${number} token refreshed${secret}\n`;
}

/** The largest upload: how long until its run has started, and how long others wait for an answer meanwhile. */
export async function benchDebateUpload(): Promise<readonly Row[]> {
  const rows: Row[] = [];
  await withHome(async (home) => {
    await using server = await DebateProcess.start(sceneEnv(home));
    const lines: string[] = [];
    for (let length = 0; length < BYTES; length += lines.at(-1)?.length ?? 0) lines.push(line(lines.length));
    const body = new FormData();
    body.append("topic", "checkout is slow");
    body.append("incident_file", new Blob([lines.join("").slice(0, BYTES)]), "checkout.log");
    const idle = startAsking(`${server.url}/healthz`);
    await new Promise((resolve) => setTimeout(resolve, IDLE_MS));
    const before = p99(await idle.stop());
    const asker = startAsking(`${server.url}/healthz`);
    const start = performance.now();
    const { run_id } = await server.json("/api/runs", { method: "POST", body });
    const ms = performance.now() - start;
    const waits = await asker.stop();
    const { context_redactions: masked } = await server.json(`/api/runs/${run_id}`);
    const health = p99(waits);
    rows.push({
      what: "debate, a run with an incident of 10 MiB, until it has started",
      measured: `${ms.toFixed(0)} ms, ${masked["config-value"]} secrets masked`,
      baseline: "",
      ratio: "",
      target: `under ${MAX_MS} ms`,
      met: ms < MAX_MS,
    }, {
      what: "debate, /healthz meanwhile, p99",
      measured: `${health.toFixed(0)} ms of ${waits.length} requests`,
      baseline: `${before.toFixed(0)} ms before`,
      ratio: "",
      target: `under ${MAX_HEALTH_MS} ms`,
      met: health < MAX_HEALTH_MS,
    });
  });
  return rows;
}

/** Asks again and again, and tells how long each answer took, in milliseconds. */
function startAsking(url: string) {
  const waits: number[] = [];
  let isOver = false;
  const asking = (async () => {
    while (!isOver) {
      const start = performance.now();
      await (await fetch(url)).body?.cancel();
      waits.push(performance.now() - start);
      await new Promise((resolve) => setTimeout(resolve, PAUSE_MS));
    }
  })();
  return {
    async stop(): Promise<readonly number[]> {
      isOver = true;
      await asking;
      return waits;
    },
  };
}

function p99(waits: readonly number[]): number {
  return quantile(waits.toSorted((a, b) => a - b), 0.99);
}
