import { DebateProcess, sceneEnv } from "../e2e/debate_scene.ts";
import { readProcFile } from "../stage/proc_file.ts";
import { ROOT } from "../stage/service_command.ts";
import type { Row } from "./row.ts";

const RUNS = 100;
const ROUNDS = 2;
const MAX_BYTES = 400e6;
const MAX_LATE_MS = 250;
const MODEL = "hub/slow";

/** A real server with as many runs at once, each of which somebody watches, and a model that is slow. */
export async function benchDebateRuns(dir: string): Promise<readonly Row[]> {
  await using provider = await startProvider();
  await Deno.mkdir(`${dir}/project`, { recursive: true });
  await using server = await DebateProcess.start(sceneEnv(dir, {
    HUB_BASE_URL: `http://127.0.0.1:${provider.port}/v1`,
    HUB_TOKEN: "token-of-the-bench",
    DIAGNOSTIC_MODEL: MODEL,
    SKEPTIC_MODEL: MODEL,
    MODERATOR_MODEL: MODEL,
    MAX_ROUNDS: String(ROUNDS),
    TOOLS_ENABLED: "false",
  }));
  const idle = await peakBytes(server.pid);
  const machine = watchMachine();
  const watched = await Promise.all(Array.from({ length: RUNS }, async (_, number) => {
    const runId = await server.run({ topic: `checkout answers slowly since release ${number}` });
    return await watch(`${server.url}/api/runs/${runId}/events`);
  }));
  const machineLate = machine.stop();
  const peak = await peakBytes(server.pid);
  const lates = watched.flatMap(({ lates }) => lates).toSorted((a, b) => a - b);
  const whole = watched.filter(({ status }) => status === "completed").length;
  const worst = lates.at(-1) ?? Infinity;
  const most = lates[Math.floor(lates.length * 0.99)] ?? Infinity;
  const what = `debate, ${RUNS} runs at once, each watched`;
  return [
    {
      what: `${what}, most memory ever resident`,
      measured: `${(peak / 1e6).toFixed(0)} MB`,
      baseline: `${(idle / 1e6).toFixed(0)} MB without runs`,
      ratio: "",
      target: `< ${MAX_BYTES / 1e6} MB`,
      met: peak < MAX_BYTES,
    },
    {
      what: `${what}, the latest of ${lates.length} events`,
      measured: `${worst} ms (99 %: ${most} ms), ${whole} completed`,
      baseline: `${machineLate} ms, a timer of the watcher`,
      ratio: "",
      target: `< ${MAX_LATE_MS} ms, all completed`,
      met: worst < MAX_LATE_MS && whole === RUNS,
    },
  ];
}

/** How late a timer of this process comes at most: so much the machine is busy with others, or the watcher is. */
function watchMachine() {
  const everyMs = 10;
  let [last, latest] = [performance.now(), 0];
  const timer = setInterval(() => {
    const now = performance.now();
    latest = Math.max(latest, now - last - everyMs);
    last = now;
  }, everyMs);
  return {
    stop() {
      clearInterval(timer);
      return latest.toFixed(0);
    },
  };
}

interface Watched {
  /**
   * How late each event came, in milliseconds: those that are kept since they were made, or asked for if that was
   * later, pieces of a text since they left the model, which is before they were made.
   */
  readonly lates: readonly number[];
  readonly status: string | undefined;
}

async function watch(url: string): Promise<Watched> {
  const asked = Date.now();
  const response = await fetch(url, { headers: { accept: "text/event-stream" } });
  const lates: number[] = [];
  let status: string | undefined;
  let rest = "";
  for await (const text of (response.body ?? ReadableStream.from([])).pipeThrough(new TextDecoderStream())) {
    const now = Date.now();
    const frames = `${rest}${text}`.split("\n\n");
    rest = frames.pop() ?? "";
    for (const frame of frames) {
      const [, json] = /^data: (.*)$/m.exec(frame) ?? [];
      if (json === undefined) continue;
      const event = JSON.parse(json);
      const at = event.type === "agent_delta"
        ? sentAt(event.delta)
        : Math.max(asked, Date.parse(event.timestamp));
      if (!Number.isNaN(at)) lates.push(now - at);
      if (event.type === "run_finished") status = event.status;
    }
  }
  return { lates, status };
}

function sentAt(delta: string): number {
  return Number(/sent at (\d+)/.exec(delta)?.[1]);
}

/** The most that a process ever had in memory at once (proc(5): VmHWM). */
async function peakBytes(pid: number): Promise<number> {
  const [, kilobytes] = /^VmHWM:\s+(\d+) kB$/m.exec(await readProcFile(`/proc/${pid}/status`)) ?? [];
  return Number(kilobytes) * 1024;
}

async function startProvider() {
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--no-prompt", "--cached-only", "--ignore-env", "--allow-net=127.0.0.1"],
      `${ROOT}tests/bench/slow_provider.ts`,
    ],
    stdin: "piped",
    stdout: "piped",
  }).spawn();
  const reader = child.stdout.getReader();
  const { value } = await reader.read();
  return {
    port: Number(new TextDecoder().decode(value)),
    async [Symbol.asyncDispose]() {
      await child.stdin.close();
      await reader.cancel();
      await child.status;
    },
  };
}
