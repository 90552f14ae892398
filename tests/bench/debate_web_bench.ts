import { openDiskFolder } from "../../debate/runs/disk_folder.ts";
import { recordOf } from "../../debate/runs/fold.ts";
import { formatRecord } from "../../debate/runs/record.ts";
import { HEADER } from "../../debate/testing/header.ts";
import { RunStore } from "../../debate/runs/store.ts";
import { cpuSeconds } from "./processor_times.ts";
import { ROOT } from "../stage/service_command.ts";
import { benchDebateRuns } from "./debate_runs_bench.ts";
import { benchDebateUpload } from "./debate_upload_bench.ts";
import type { Row } from "./row.ts";
import type { SectionContext } from "./section.ts";
import { median } from "./statistics.ts";

const SUBSCRIBERS = 500;
const EVENTS = 2000;
const RUNS = 5000;
const LISTS = 9;

/** The debate's web server: events to many subscribers, many runs at once, and the list of many runs. */
export async function benchDebateWeb({ dir, say }: SectionContext): Promise<readonly Row[]> {
  say("  streams …");
  const streams = await benchStreams();
  say("  runs at once …");
  const atOnce = await benchDebateRuns(`${dir}/live`);
  say("  the largest upload …");
  const upload = await benchDebateUpload();
  say(`  ${RUNS} runs …`);
  return [...streams, ...atOnce, ...upload, ...await benchList(dir)];
}

async function benchStreams(): Promise<readonly Row[]> {
  const rows: Row[] = [];
  // As models write, and the hardest: every event alone.
  for (const [together, events, how] of [[10, EVENTS, "ten"], [1, EVENTS / 10, "one"]] as const) {
    const bare = await measure("bare", events, together);
    const app = await measure("app", events, together);
    const deliveries = SUBSCRIBERS * events;
    const micros = ({ cpuSeconds }: Measured) => (cpuSeconds * 1e6) / deliveries;
    const ratio = app.cpuSeconds / bare.cpuSeconds;
    rows.push({
      what: `debate, ${SUBSCRIBERS} subscribers, ${events} events, ${how} at a time, CPU per delivery`,
      measured: `${micros(app).toFixed(1)} us, ${app.missed} not in order`,
      baseline: `${micros(bare).toFixed(1)} us, bare writes to ${SUBSCRIBERS} sockets`,
      ratio: ratio.toFixed(2),
      target: "at most 2, all in order",
      met: ratio <= 2 && app.missed === 0,
    });
  }
  return rows;
}

interface Measured {
  readonly cpuSeconds: number;
  /** Subscribers that did not get every event in order. */
  readonly missed: number;
}

async function measure(side: "app" | "bare", events: number, together: number): Promise<Measured> {
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      ...["run", "--no-prompt", "--cached-only", "--ignore-env", "--allow-net=127.0.0.1"],
      `${ROOT}tests/bench/debate_web_server.ts`,
      ...[side, String(SUBSCRIBERS), String(events), String(together)],
    ],
    stdin: "null",
    stdout: "piped",
    env: { NO_COLOR: "1" },
  }).spawn();
  const lines = linesOf(child.stdout);
  const port = Number(await lines.next());
  const readers: Promise<boolean>[] = [];
  for (let count = 0; count < SUBSCRIBERS; count++) readers.push(readAll(await connect(port), events));
  await lines.next();
  const before = await cpuSeconds(child.pid);
  const results = Promise.all(readers);
  let after = before;
  let isDone = false;
  const done = lines.next().finally(() => isDone = true);
  // Afterwards there is nothing left to ask.
  while (!isDone) {
    after = await cpuSeconds(child.pid).catch(() => after);
    await Promise.race([done, new Promise((resolve) => setTimeout(resolve, 100))]);
  }
  const missed = (await results).filter((isWhole) => !isWhole).length;
  await child.status;
  return { cpuSeconds: after - before, missed };
}

async function connect(port: number): Promise<Deno.TcpConn> {
  const socket = await Deno.connect({ hostname: "127.0.0.1", port });
  await socket.write(
    new TextEncoder().encode("GET / HTTP/1.1\r\nhost: 127.0.0.1\r\nconnection: close\r\n\r\n"),
  );
  return socket;
}

/** Follows to the end; whether every event came, in order. Cheap: the clients share the machine. */
async function readAll(socket: Deno.TcpConn, events: number): Promise<boolean> {
  const chunks: Uint8Array[] = [];
  const buffer = new Uint8Array(65_536);
  for (;;) {
    const length = await socket.read(buffer).catch(() => null);
    if (length === null) break;
    chunks.push(buffer.slice(0, length));
  }
  socket.close();
  // Chunked encoding cuts anywhere; its size lines are taken out with their line ends.
  const text = await new Blob(chunks.map((chunk) => chunk.slice())).text();
  const ids = [...text.replace(/\r\n[0-9a-f]+\r\n/gi, "").matchAll(/^id: (\d+)$/gm)].map(([, id]) =>
    Number(id)
  );
  return ids.length === events && ids.every((id, index) => id === index + 1);
}

function linesOf(stream: ReadableStream<Uint8Array>) {
  const reader = stream.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  return {
    async next(): Promise<string> {
      while (!text.includes("\n")) {
        const { done, value } = await reader.read();
        if (done) throw new Error("the server ended");
        text += value;
      }
      const end = text.indexOf("\n");
      const line = text.slice(0, end);
      text = text.slice(end + 1);
      return line;
    },
  };
}

async function benchList(dir: string): Promise<readonly Row[]> {
  const path = `${dir}/runs`;
  await Deno.mkdir(path);
  for (let number = 0; number < RUNS; number++) {
    const header = sampleHeader(number);
    const context = { text: "what is known of it\n".repeat(200), redactions: {}, notes: [] };
    await Deno.writeTextFile(`${path}/${header.run_id}.json`, formatRecord(recordOf(header, context, [])));
  }
  const folder = await openDiskFolder(path);
  const from = performance.now();
  const store = await RunStore.open({ folder, warn: () => {} });
  const opened = performance.now() - from;
  const times: number[] = [];
  for (let count = 0; count < LISTS; count++) {
    const start = performance.now();
    const runs = await store.list();
    if (runs.length !== RUNS) throw new Error(`${runs.length} runs in the list`);
    JSON.stringify({ runs });
    times.push(performance.now() - start);
  }
  folder.close();
  return [{
    what: `debate, list of ${RUNS} stored runs`,
    measured: `${median(times).toFixed(0)} ms (start ${opened.toFixed(0)} ms)`,
    baseline: "",
    ratio: "",
    target: "under 200 ms",
    met: median(times) < 200,
  }];
}

function sampleHeader(number: number) {
  return {
    ...HEADER,
    run_id: number.toString(16).padStart(32, "0"),
    topic: `checkout answers slowly since release ${number}`,
    timestamp: new Date(1_760_000_000_000 + number * 1000).toISOString(),
  };
}
