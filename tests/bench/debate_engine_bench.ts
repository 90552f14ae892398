import { systemClock } from "@gateway/shared/clock";
import { conductDebate } from "../../debate/engine/agents/conduct_debate.ts";
import { UNRECORDED_EVENTS } from "../../debate/engine/events.ts";
import type { NodeName } from "../../debate/engine/graph/state.ts";
import { DebateFixture, FixedTool } from "../../debate/testing/debate_fixture.ts";
import { sampleDecision } from "../../debate/testing/sample_state.ts";
import { type Answer, call, type Script } from "../../debate/testing/scripted_model.ts";
import { median, type Row, under } from "./harness.ts";

const ROUNDS = 4;
const TOOL_CALLS = 20;
const RUNS = 30;
const MAX_MS = 100;
const MAX_BIG_MS = 1000;

/** Measures the time of a run without its models and tools, which take no time here. */
export async function benchDebateEngine(): Promise<readonly Row[]> {
  const usual = () => play(wordsOf(600), "");
  const first = await usual();
  const times: number[] = [];
  for (let run = 0; run < RUNS; run++) times.push(await usual());
  // Ten times the requested words, a long context, one token a delta.
  const big = [];
  for (let run = 0; run < 5; run++) big.push(await play(wordsOf(6000), wordsOf(40_000)));
  const what = `debate of ${ROUNDS} rounds, ${TOOL_CALLS} tool calls`;
  return [
    under(`${what}, the first`, first, MAX_MS, { digits: 1 }),
    under(what, median(times), MAX_MS, { digits: 1 }),
    under(`${what}, long texts`, median(big), MAX_BIG_MS, { digits: 1 }),
  ];
}

/** Returns the duration of one run in milliseconds. */
async function play(words: string, context: string): Promise<number> {
  const fixture = new DebateFixture(scriptOf(words), { context });
  const { setup } = fixture;
  const tool = new FixedTool("http_get", { ok: true, text: "x".repeat(4000) });
  const stored: string[] = [];
  const ports = {
    ...fixture.ports,
    clock: systemClock,
    tools: [tool],
    emit: (event: Parameters<typeof fixture.ports.emit>[0]) => {
      if (!UNRECORDED_EVENTS.has(event.type)) stored.push(JSON.stringify(event));
    },
  };
  const from = performance.now();
  const { status, roundLog } = await conductDebate(setup, ports);
  const ms = performance.now() - from;
  const rounds = roundLog.length;
  if (status !== "completed" || rounds !== ROUNDS || tool.runs.length !== TOOL_CALLS) {
    throw new Error(`The run was ${status} after ${rounds} rounds and ${tool.runs.length} tool calls`);
  }
  return ms;
}

/** Five tool calls a round: three by the diagnosis, one by the skeptic, one by the rebuttal. */
function scriptOf(words: string): Script {
  let count = 0;
  const calling = (calls: number): Answer => (request) => {
    request.onDelta?.("Looking.");
    const toolCalls = Array.from({ length: calls }, () => call("http_get", { n: count++ }, `c${count}`));
    return Promise.resolve({ text: "Looking.", toolCalls, usage: undefined });
  };
  const saying = (text: string): Answer => (request) => {
    for (const delta of text.match(/[^]{1,5}/g) ?? []) request.onDelta?.(delta);
    return Promise.resolve({ text, toolCalls: [], usage: undefined });
  };
  const hypotheses = [1, 2, 3].map((id) =>
    `### HYPOTHESIS-H-${id} [P=0.${id}]\nText: cause ${id}\n- [tool:http_get] saw it\n`
  ).join("\n");
  const review = [1, 2, 3].map((id) =>
    `[hypothesis:H-${id}] needs_evidence [P=0.${id}]\nReason: ${words.slice(0, 200)}\n`
  )
    .join("\n");
  const everyRound = (...answers: readonly Answer[]) => Array.from({ length: ROUNDS }, () => answers).flat();
  const last = sampleDecision({ status: "final_diagnosis", confidence: 0.9 });
  const decisions = [...Array.from({ length: ROUNDS - 1 }, () => sampleDecision()), last];
  const script: Partial<Record<NodeName, readonly Answer[]>> = {
    diagnostic_agent: everyRound(calling(3), saying(`${hypotheses}\n${words}`)),
    skeptic_agent: everyRound(calling(1), saying(`${review}\n${words}`)),
    diagnostic_rebuttal_agent: everyRound(calling(1), saying(words)),
    moderator_agent: decisions.map((decision) => JSON.stringify(decision)),
    summarize_history: [words.slice(0, 2000)],
  };
  return script;
}

function wordsOf(count: number): string {
  return Array.from({ length: count }, (_, index) => `word${index % 97}`).join(" ");
}
