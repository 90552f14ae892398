import assert from "node:assert/strict";
import type { RunEvent } from "../engine/events.ts";
import type { Decision } from "../engine/graph/state.ts";
import { RunView } from "./run_view.ts";

const DIAGNOSTIC = { agent_node: "diagnostic_agent", agent_role: "Primary Diagnosis" } as const;
const CALL = { ...DIAGNOSTIC, call_id: "c", tool_name: "http_get", args: { url: "http://a/b" } } as const;
const COMPLETED = {
  type: "agent_completed",
  node: "diagnostic_agent",
  role: "Primary Diagnosis",
  content: "It is the disk.",
} as const;

function decide(status: Decision["status"]): RunEvent {
  const decision: Decision = {
    status,
    confidence: 0.5,
    leading_hypothesis: "H-1: disk",
    evidence: [],
    missing_evidence: [],
    rejected_hypotheses: [],
    next_step: "Look at the disk",
    recommended_fix: null,
    validation: [],
    stop_reason: null,
    risk_level: "low",
    flow_directive: null,
  };
  return {
    type: "moderator_decision",
    node: "moderator_agent",
    decision,
    round: 1,
    total_tokens: 0,
    early_out_confirmed: false,
  };
}

interface ViewOptions {
  readonly isLive: boolean;
  readonly errColour?: boolean;
  readonly language?: string;
}

function watch(act: (view: RunView) => void, { isLive, errColour = false, language = "en" }: ViewOptions) {
  let written = "";
  const view = new RunView({
    out: () => assert.fail("progress is not a result"),
    err: (text) => void (written += text),
    ...{ isLive, outColour: false, errColour, width: 60 },
  }, language);
  act(view);
  view.close();
  return written;
}

function show(events: readonly RunEvent[], options: ViewOptions) {
  return watch((view) => events.forEach(view.show), options);
}

Deno.test("RunView shows what an agent says piece by piece, and not again when it is done", () => {
  const events: readonly RunEvent[] = [
    { type: "agent_turn_started", ...DIAGNOSTIC },
    { type: "agent_delta", ...DIAGNOSTIC, delta: "It is " },
    { type: "agent_delta", ...DIAGNOSTIC, delta: "the disk." },
    COMPLETED,
  ];
  const text = "\nRound 1\n\nPrimary Diagnosis\n  It is the disk.\n";
  assert.equal(show(events, { isLive: true }), text);
  assert.equal(show(events, { isLive: false }), text);
});

Deno.test("RunView shows a note on lines of its own, in the middle of what an agent says too", () => {
  const written = watch((view) => {
    view.note("before");
    view.show({ type: "agent_turn_started", ...DIAGNOSTIC });
    view.show({ type: "agent_delta", ...DIAGNOSTIC, delta: "It is the di" });
    view.note('Model "hub/a" gave no reply:\x1b[2J the provider failed (HTTP 503); trying again in 0.5 s');
    view.show({ type: "agent_delta", ...DIAGNOSTIC, delta: "sk." });
    view.show(COMPLETED);
  }, { isLive: true });
  assert.equal(
    written,
    [
      "  note: before\n",
      "\nRound 1\n\nPrimary Diagnosis\n  It is the\n",
      '  note: Model "hub/a" gave no reply:\\x1b[2J the provider\n',
      "  failed (HTTP 503); trying again in 0.5 s\n",
      "  disk.\n",
    ].join(""),
  );
});

Deno.test("RunView shows a text that was not streamed", () => {
  assert.equal(
    show([{ type: "agent_turn_started", ...DIAGNOSTIC }, COMPLETED], { isLive: true }),
    "\nRound 1\n\nPrimary Diagnosis\n  It is the disk.\n",
  );
});

Deno.test("RunView shows calls with the beginning of their results", () => {
  const result = { error: false, approval: "auto", cached: false, duration_ms: 12 } as const;
  assert.equal(
    show([
      { type: "tool_call_started", ...CALL },
      { type: "tool_call", number: 1, ...CALL, ...result, result: "1\n2\n\n3\n4\n5\n6\n7\x1b[2J\n" },
    ], { isLive: false }),
    [
      "\nRound 1\n\nPrimary Diagnosis\n  > http_get url=http://a/b\n  < ok, 12 ms\n",
      ...[1, 2, 3, 4, 5, 6].map((line) => `  | ${line}\n`),
      "  | (1 more line)\n",
    ].join(""),
  );
});

Deno.test("RunView writes out what hides in the arguments of a call", () => {
  const args = { command: "ls\u200b \u202e/\u2800x\nrm y" };
  assert.match(
    show([{ type: "tool_call_started", ...CALL, args }], { isLive: false }),
    /> http_get command=ls\\u\{200b\} \\u\{202e\}\/\\u\{2800\}x\\x0arm y\n/,
  );
});

Deno.test.each([
  { name: "cached", cached: true, duration_ms: 0, error: false, shown: "< ok, cached" },
  { name: "refused", cached: false, duration_ms: null, error: true, shown: "< failed, not run" },
])("RunView shows a call that is $name, which never started", ({ shown, name: _name, ...fields }) => {
  const written = show(
    [{ type: "tool_call", number: 1, ...CALL, ...fields, approval: "auto", result: "r" }],
    {
      isLive: false,
    },
  );
  assert.match(written, /> http_get url=http:\/\/a\/b\n/);
  assert.ok(written.includes(`${shown}\n  | r\n`), written);
});

Deno.test("RunView shows states in brackets, and makes nothing of them", () => {
  const hypothesis = {
    id: "H-1",
    text: "disk [bold]x[/bold]",
    state: "active",
    proposer: "diagnostic_agent",
    round: 1,
    supporting_evidence: [],
    evidence: [],
    reviews: [],
    rejected_reason: null,
    probability: 0.5,
    transitions: [],
  } as const;
  const event = {
    type: "hypothesis_update",
    node: "diagnostic_agent",
    round: 1,
    hypotheses: [hypothesis],
  } as const;
  assert.match(show([event], { isLive: false }), /H-1 \[active\] P=0\.50 disk \[bold\]x\[\/bold\]\n/);
});

Deno.test("RunView begins a round after a decision to continue", () => {
  const written = show([COMPLETED, decide("continue"), COMPLETED, decide("final_diagnosis")], {
    isLive: false,
  });
  assert.deepEqual(written.match(/^Round \d+$/gm), ["Round 1", "Round 2"]);
  assert.match(written, /Moderator\n {2}final_diagnosis, confidence 0\.50, risk low\n {2}Leads: H-1: disk\n/);
});

Deno.test("RunView uses colour only where it may", () => {
  const events = [COMPLETED, decide("final_diagnosis")];
  const plain = show(events, { isLive: true });
  const coloured = show(events, { isLive: true, errColour: true });
  assert.notEqual(coloured, plain);
  // deno-lint-ignore no-control-regex -- the codes of colours are what is taken out
  assert.equal(coloured.replace(/\x1b\[\d+m/g, ""), plain);
});

Deno.test("RunView speaks the language of the run, and says what limits a confidence", () => {
  const event = decide("final_diagnosis");
  assert.ok(event.type === "moderator_decision");
  const grounding = {
    hypothesis_id: "H-1",
    level: "none",
    stated_confidence: 0.93,
    cap: 0.6,
    reason: "H-1 no cita nada",
    outcome: "no_confident_cause",
  } as const;
  const limited = { ...event, decision: { ...event.decision, grounding } };
  assert.equal(
    show([COMPLETED, limited], { isLive: false, language: "es" }),
    [
      "\nRonda 1\n\nDiagnóstico principal\n  It is the disk.\n\nModerador\n",
      "  final_diagnosis, confianza 0.50, riesgo low\n  Sin causa segura\n",
      "  Evidencia: 0.93 según el moderador: H-1 no cita nada\n",
      "  Principal: H-1: disk\n  Siguiente: Look at the disk\n",
    ].join(""),
  );
});
