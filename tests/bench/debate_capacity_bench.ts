import { sampleDecision } from "../../debate/testing/sample_state.ts";
import { DebateProcess, sceneEnv } from "../e2e/debate_scene.ts";
import { poll } from "../stage/poll.ts";
import { residentBytes } from "../stage/proc_file.ts";
import { type Row, type SectionContext, settle } from "./harness.ts";

/** The last moderator of an open run answers after the measurement. */
const [ROUNDS, RUNS, OPEN_MS] = [4, 20, 3_000_000];
/** Tool calls of the diagnosis, the skeptic and the rebuttal in each round. */
const LOADS = { "5 tool calls a round": [3, 1, 1], "24 tool calls a round": [8, 8, 8] } as const;
/** 4,000 characters in long words, because a scripted model pauses after each word. */
const TEXT = Array.from({ length: 40 }, (_, at) => `${at}-${"word-".repeat(19)}`).join(" ");
/** Measures the disk, memory and tokens of runs with scripted models and full tool results on a real server. */
export async function benchDebateCapacity({ dir }: SectionContext): Promise<readonly Row[]> {
  const rows: Row[] = [];
  for (const [name, calls] of Object.entries(LOADS)) {
    const home = await Deno.makeTempDir({ dir });
    await prepare(home, calls);
    const roots = { REPLAY_DIR: home, ALLOWED_PROJECT_ROOTS: home, TOOL_APPROVAL_REQUIRED: "false" };
    await using server = await DebateProcess.start(sceneEnv(home, { ...roots, LOG_LEVEL: "WARNING" }));
    await settle();
    const idle = await residentBytes(server.pid);
    await play(server, "open");
    await settle();
    const memory = (await residentBytes(server.pid) - idle) / RUNS / 1e6;
    const written = await sizeOf(`${home}/runs`);
    const { token_totals } = await play(server, "finished");
    const disk = (await sizeOf(`${home}/runs`) - written) / RUNS / 1000;
    // The specification's figures are guidance, so a higher value is no failure.
    const row = (what: string, value: number, unit: string, specified: number): Row => ({
      ...{ what: `debate, ${what}, ${name}`, measured: `${value.toFixed(1)} ${unit}`, target: "", met: true },
      ...{ baseline: `${specified} ${unit} (specification)`, ratio: (value / specified).toFixed(2) },
    });
    rows.push(
      row("disk of 1,000 runs", disk, "MB", 1000),
      row(`memory of one of ${RUNS} runs in progress`, memory, "MB", 150),
      row("tokens of a round (estimated)", token_totals.total.total_tokens / ROUNDS / 1000, "thousand", 50),
    );
  }
  return rows;
}
/** Starts all runs and waits until all their agents have answered. Returns the record of one. */
async function play(server: DebateProcess, scenario: "open" | "finished") {
  const model = `replay/${scenario}`;
  const fields = { topic: "slow", diagnostic_model: model, skeptic_model: model, moderator_model: model };
  const ids = await Promise.all(Array.from({ length: RUNS }, () => server.run(fields)));
  const [type, count] = scenario === "open" ? ["agent_completed", 3 * ROUNDS] : ["run_finished", 1];
  let record = { events: [{ type: "" }], token_totals: { total: { total_tokens: 0 } } };
  for (const id of ids) {
    await poll(async () => {
      record = await server.json(`/api/runs/${id}`);
      return record.events.filter((event) => event.type === type).length === count;
    }, { what: type, intervalMs: 1000, timeoutMs: 180_000 });
  }
  return record;
}

/** Writes the scenarios, and a file per tool call: a repeated call is answered from the cache. */
async function prepare(home: string, calls: readonly [number, number, number]): Promise<void> {
  let files = 0;
  const read = () => ({ name: "run_local_command", arguments: { command: `cat ${home}/${files++}` } });
  const turn = (count: number) => [
    { text: "Looking.", tool_calls: Array.from({ length: count }, read) },
    { text: `### HYPOTHESIS-H-1 [P=0.5]\nText: ${TEXT}` },
  ];
  const rounds = Array.from({ length: ROUNDS }, () => ({
    ...{ diagnostic_agent: turn(calls[0]), skeptic_agent: turn(calls[1]) },
    diagnostic_rebuttal_agent: turn(calls[2]),
    moderator_agent: [{ text: JSON.stringify(sampleDecision()), delay_ms: 0 }],
  }));
  await Deno.writeTextFile(`${home}/finished.json`, JSON.stringify({ rounds }));
  rounds.at(-1)?.moderator_agent.forEach((reply) => reply.delay_ms = OPEN_MS);
  await Deno.writeTextFile(`${home}/open.json`, JSON.stringify({ rounds }));
  while (files-- > 0) await Deno.writeTextFile(`${home}/${files}`, `${files} ${TEXT}`);
}

async function sizeOf(path: string): Promise<number> {
  const files = await Array.fromAsync(Deno.readDir(path), ({ name }) => Deno.stat(`${path}/${name}`));
  return files.reduce((sum, { size }) => sum + size, 0);
}
