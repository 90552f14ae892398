import { FakeClock } from "@gateway/shared/testing";
import assert from "node:assert/strict";
import { EventLog } from "./event_log.ts";
import { sampleEvidence, sampleHypothesis } from "../testing/sample_state.ts";
import { priorRun } from "./imported.ts";
import { formatRecord, readRecord, type RunHeader, type StoredEvent } from "./record.ts";
import { endingEvents } from "./setup.ts";
import { UNRECORDED_EVENTS as EPHEMERAL_TYPES } from "../engine/events.ts";
import { type DebateSetup, ModelError } from "../engine/ports.ts";
import { CLOSING, CONTINUE, DebateFixture, FixedTool } from "../testing/debate_fixture.ts";
import { call, type Script } from "../testing/scripted_model.ts";
import cancelled from "../testing/stored_runs/cancelled.json" with { type: "text" };
import resumed from "../testing/stored_runs/resumed.json" with { type: "text" };
import rounds from "../testing/stored_runs/rounds_with_operator.json" with { type: "text" };
import samples from "../testing/stored_runs/samples_in_spanish.json" with { type: "text" };
import { HEADER } from "../testing/header.ts";
import { hanging, WebFixture } from "../testing/web_fixture.ts";
import { recordOf } from "./fold.ts";
import { interruptedRecord } from "./store.ts";

const KEPT = "agent_completed";
const UNRECORDED_EVENTS = "agent_delta";

function logOf(types: readonly string[], clock = new FakeClock()): EventLog {
  const log = new EventLog(clock);
  for (const [index, type] of types.entries()) log.append({ type, json: `{"n":${index}}` });
  return log;
}

function readAll(log: EventLog, from = 0): string {
  let text = "";
  for (let bytes = log.read(from); bytes !== undefined; bytes = log.read(from)) {
    from += bytes.length;
    text += new TextDecoder().decode(bytes);
  }
  return text;
}

function idsOf(text: string): readonly (string | undefined)[] {
  return [...text.matchAll(/^id: (.*)$/gm)].map(([, id]) => id);
}

Deno.test("an event is a frame with ID, event and data", () => {
  assert.equal(readAll(logOf([KEPT])), 'id: 1\nevent: message\ndata: {"n":0}\n\n');
});

Deno.test("IDs count stored events, and ephemeral events have a second number", () => {
  const log = logOf([UNRECORDED_EVENTS, KEPT, UNRECORDED_EVENTS, UNRECORDED_EVENTS, KEPT]);
  assert.deepEqual(idsOf(readAll(log)), ["0.1", "1", "1.1", "1.2", "2"]);
});

Deno.test.each([
  { name: "nothing", id: null, next: "0.1" },
  { name: "an ephemeral one before all", id: "0.1", next: "1" },
  { name: "a kept one", id: "1", next: "1.1" },
  { name: "an ephemeral one", id: "1.1", next: "1.2" },
  { name: "the last ephemeral one", id: "1.2", next: "2" },
  { name: "an ID that the record does not have", id: "1.9", next: "2" },
  { name: "the last", id: "2", next: undefined },
  { name: "an ID that never existed", id: "77", next: "0.1" },
  { name: "no number", id: "abc", next: "0.1" },
  { name: "a negative one", id: "-1", next: "0.1" },
])("placeAfter() $name continues with $next", ({ id, next }) => {
  const log = logOf([UNRECORDED_EVENTS, KEPT, UNRECORDED_EVENTS, UNRECORDED_EVENTS, KEPT]);
  assert.equal(idsOf(readAll(log, log.placeAfter(id)))[0], next);
});

Deno.test("an ID of a live run is valid for its record", () => {
  const record = logOf([KEPT, KEPT]);
  assert.equal(idsOf(readAll(record, record.placeAfter("1.2")))[0], "2");
});

Deno.test("bytes that were read stay unchanged during writes, across pages and with long events", () => {
  const log = new EventLog(new FakeClock());
  const lengths = [10, 5000, 70_000, 3, 65_000, 200_000, 1];
  for (const length of lengths) log.append({ type: KEPT, json: JSON.stringify("x".repeat(length)) });
  const before = readAll(log);
  for (const length of lengths) log.append({ type: KEPT, json: JSON.stringify("y".repeat(length)) });
  const after = readAll(log);
  assert.ok(after.startsWith(before));
  assert.equal(new TextEncoder().encode(after).length, log.size);
  assert.equal(idsOf(after).length, 2 * lengths.length);
});

Deno.test("listeners are notified once per batch, and at most every 25 ms", async () => {
  const clock = new FakeClock();
  const log = new EventLog(clock);
  let told = 0;
  log.listen(() => told += 1);
  for (let count = 0; count < 10; count++) log.append({ type: KEPT, json: "{}" });
  await clock.advance(0);
  assert.equal(told, 1);
  for (let count = 0; count < 10; count++) log.append({ type: KEPT, json: "{}" });
  await clock.advance(24);
  assert.equal(told, 1);
  await clock.advance(1);
  assert.equal(told, 2);
});

Deno.test("the end is notified immediately, and no event follows it", () => {
  const log = new EventLog(new FakeClock());
  let told = 0;
  const stop = log.listen(() => told += 1);
  log.end();
  log.append({ type: KEPT, json: "{}" });
  assert.deepEqual([told, log.size, log.isEnded], [1, 0, true]);
  stop();
});

const { evidence: _evidence, reviews: _reviews, ...OLD } = sampleHypothesis({
  state: "confirmed",
  supporting_evidence: ["[tool:http_get] 503"],
});

Deno.test("readRecord() loads an old run without checked evidence", () => {
  const record = readRecord("1".repeat(32), {
    status: "completed",
    hypotheses: [OLD],
    events: [{ type: "tool_call", tool_name: "http_get", result: "503" }],
  });
  assert.deepEqual(record?.hypotheses, [{ ...OLD, evidence: [], reviews: [] }]);
  assert.equal(priorRun(record).hypotheses.length, 1);
});

Deno.test.each([
  { name: "an unknown status", evidence: [{ ...sampleEvidence(), status: "sworn" }] },
  { name: "no list", evidence: { status: "grounded" } },
  { name: "a text instead of calls", evidence: [{ ...sampleEvidence(), call_ids: "c1" }] },
])("readRecord() ignores malformed evidence: $name", ({ evidence }) => {
  const record = readRecord("1".repeat(32), { hypotheses: [{ ...OLD, evidence }] });
  assert.deepEqual(record?.hypotheses[0]?.evidence, []);
});

const NO_CONTEXT = { text: "", redactions: {}, notes: [] };
const LOOK = [{ toolCalls: [call("http_get", { url: "http://pool" })] }];
const SAYS =
  '### HYPOTHESIS-H-1 [P=0.9]\nText: {component: pool; fault: resource_leak} Full.\n- [tool:http_get] "20 of 20 connections in use"';
const TOOLS = [
  new FixedTool("http_get", { ok: true, text: "GET http://pool: 200 OK\n20 of 20 connections in use" }),
];
const SKIPPING = CONTINUE.replace(
  '"flow_directive":null',
  '"flow_directive":{"skip_skeptic":true,"skip_rebuttal":true,"rationale":"nothing new"}',
);

const RUNS: readonly {
  readonly name: string;
  readonly script: Script;
  readonly setup?: Partial<DebateSetup>;
}[] = [
  { name: "a short run", script: {} },
  { name: "a run with tools", script: { diagnostic_agent: [...LOOK, SAYS] } },
  { name: "a run of several rounds", script: { moderator_agent: [CONTINUE, CONTINUE, CONTINUE, CLOSING] } },
  { name: "a run that skips agents", script: { moderator_agent: [SKIPPING, CLOSING] } },
  {
    name: "a run in Spanish that skips agents",
    script: { moderator_agent: [SKIPPING, CLOSING] },
    setup: { language: "es" },
  },
  {
    name: "a run with equal diagnoses",
    script: { sample_agent: [...LOOK, SAYS, SAYS] },
    setup: { sampling: { count: 2, then: "debate" } },
  },
  {
    name: "a run with different diagnoses",
    script: { sample_agent: [SAYS, SAYS.replace("pool;", "cache;")] },
    setup: { sampling: { count: 2, then: "debate" } },
  },
  {
    name: "a vote",
    script: { sample_agent: [...LOOK, SAYS] },
    setup: { sampling: { count: 1, then: "vote" } },
  },
  { name: "a silent agent", script: { skeptic_agent: [""], diagnostic_agent: ["", "", ""] } },
  { name: "a moderator without a usable decision", script: { moderator_agent: ["no idea"] } },
  { name: "a run that fails", script: { skeptic_agent: [new ModelError("server", "down")] } },
];

Deno.test.each(RUNS)("the events of $name contain the complete outcome", async ({ script, setup, name }) => {
  const fixture = new DebateFixture(script, setup ?? {}, { tools: TOOLS });
  const outcome = await fixture.run();
  const events: StoredEvent[] = [
    ...fixture.events,
    ...endingEvents(outcome, { by_node: {}, total_usd: null, has_prices: false }),
  ]
    .filter(({ type }) => !EPHEMERAL_TYPES.has(type))
    .map((event) => ({ ...event, timestamp: "2026-01-02T03:04:09.000Z" }));
  const language = name.includes("Spanish") ? "es" : "en";
  const record = recordOf({ ...HEADER, language }, NO_CONTEXT, JSON.parse(JSON.stringify(events)));
  const plain = (value: unknown) => JSON.parse(JSON.stringify(value ?? null));
  assert.deepEqual(plain(record.decision), plain(outcome.decision));
  assert.deepEqual(plain(record.hypotheses), plain(outcome.hypotheses));
  assert.deepEqual(plain(record.round_log), plain(outcome.roundLog));
  assert.deepEqual(plain(record.tool_calls_log), plain(outcome.toolLog));
  assert.equal(record.final_result, outcome.finalText || null);
  assert.deepEqual([record.status, record.duration_seconds], [outcome.status, 4]);
  assert.deepEqual(plain(record.token_totals), plain(outcome.usage));
});

/** The header of a record when its run started. */
function headerOf(record: ReturnType<typeof recordOf>): RunHeader {
  const {
    finished_at: _1,
    duration_seconds: _2,
    token_totals: _3,
    cost_estimate: _4,
    conclusion: _5,
    context: _6,
    context_redactions: _7,
    context_notes: _8,
    final_result: _9,
    decision: _10,
    hypotheses: _11,
    round_log: _12,
    tool_calls_log: _13,
    events: _14,
    ...header
  } = record;
  return { ...header, status: "running" };
}

/**
 * Records that a server stored on 2026-11-22, with scripted operators and agents. If a fold reads them
 * differently, the stored runs of all users look different.
 */
const STORED = { cancelled, resumed, rounds, samples };

for (const [name, text] of Object.entries(STORED)) {
  Deno.test(`a stored run can be rebuilt from its events, byte for byte: ${name}`, () => {
    const record = JSON.parse(text);
    const { context: masked, context_redactions: redactions, context_notes: notes } = record;
    const context = { text: masked, redactions, notes };
    assert.equal(formatRecord(recordOf(headerOf(record), context, record.events)), text);
  });
}

Deno.test("records keep their stored form", async () => {
  const web = await WebFixture.open({ model: hanging(), clock: new FakeClock(Date.UTC(2026, 10, 22, 12)) });
  const runId = await web.start();
  await web.clock.advance(4000);
  await web.stop(runId);
  assert.equal(web.directory.text(`${runId}.json`), cancelled);
});

Deno.test("an interrupted run contains the events of its journal", () => {
  const events: StoredEvent[] = [
    { type: "run_started", timestamp: "2026-01-02T03:04:06.000Z" },
    { type: "moderator_decision", decision: { status: "continue", confidence: 0.4 } },
    {
      type: "tool_call",
      call_id: "c",
      agent_node: "skeptic_agent",
      tool_name: "http_get",
      args: {},
      result: "x",
    },
  ];
  const journal = events.map((event) => JSON.stringify(event)).join("\n");
  const interrupted = interruptedRecord(recordOf(HEADER, NO_CONTEXT, []), journal);
  const told = interrupted["events"];
  assert.ok(Array.isArray(told));
  assert.deepEqual(recordOf(HEADER, NO_CONTEXT, told), interrupted);
  assert.deepEqual(interrupted["decision"], { status: "continue", confidence: 0.4 });
  assert.equal(interrupted["finished_at"], undefined);
});
