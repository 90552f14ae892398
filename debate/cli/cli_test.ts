import assert from "node:assert/strict";
import type { RunEvent } from "../engine/events.ts";
import type { Decision } from "../engine/graph/state.ts";
import { RunView, StreamedText } from "./run_view.ts";
import { readRecord } from "../runs/record.ts";
import { formatRun } from "./runs_text.ts";
import { createPaint, exactLine, safeLine, safeText, wrap } from "./terminal.ts";

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
  readonly errColor?: boolean;
}

function watch(act: (view: RunView) => void, { isLive, errColor = false }: ViewOptions) {
  let written = "";
  const view = new RunView({
    out: () => assert.fail("progress is not a result"),
    err: (text) => void (written += text),
    ...{ isLive, outColor: false, errColor, width: 60 },
  });
  act(view);
  view.close();
  return written;
}

function show(events: readonly RunEvent[], options: ViewOptions) {
  return watch((view) => events.forEach(view.show), options);
}

Deno.test("RunView streams the text of an agent once", () => {
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

Deno.test("RunView prints a note on separate lines, also during a streamed text", () => {
  const written = watch((view) => {
    view.note("before");
    view.show({ type: "agent_turn_started", ...DIAGNOSTIC });
    view.show({ type: "agent_delta", ...DIAGNOSTIC, delta: "It is the di" });
    view.note('Model "hub/a" gave no reply:\x1b[2J the provider failed (HTTP 503); retrying in 0.5 s');
    view.show({ type: "agent_delta", ...DIAGNOSTIC, delta: "sk." });
    view.show(COMPLETED);
  }, { isLive: true });
  assert.equal(
    written,
    [
      "  note: before\n",
      "\nRound 1\n\nPrimary Diagnosis\n  It is the\n",
      '  note: Model "hub/a" gave no reply:\\x1b[2J the provider\n',
      "  failed (HTTP 503); retrying in 0.5 s\n",
      "  disk.\n",
    ].join(""),
  );
});

Deno.test("RunView prints a text that was not streamed", () => {
  assert.equal(
    show([{ type: "agent_turn_started", ...DIAGNOSTIC }, COMPLETED], { isLive: true }),
    "\nRound 1\n\nPrimary Diagnosis\n  It is the disk.\n",
  );
});

Deno.test("RunView shows calls with the first lines of their results", () => {
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

Deno.test("RunView escapes hidden characters in the arguments of a call", () => {
  const args = { command: "ls\u200b \u202e/\u2800x\nrm y" };
  assert.match(
    show([{ type: "tool_call_started", ...CALL, args }], { isLive: false }),
    /> http_get command=ls\\u\{200b\} \\u\{202e\}\/\\u\{2800\}x\\x0arm y\n/,
  );
});

Deno.test.each([
  { name: "cached", cached: true, duration_ms: 0, error: false, shown: "< ok, cached" },
  { name: "refused", cached: false, duration_ms: null, error: true, shown: "< failed, not run" },
])("RunView shows a call that is $name", ({ shown, name: _name, ...fields }) => {
  const written = show(
    [{ type: "tool_call", number: 1, ...CALL, ...fields, approval: "auto", result: "r" }],
    {
      isLive: false,
    },
  );
  assert.match(written, /> http_get url=http:\/\/a\/b\n/);
  assert.ok(written.includes(`${shown}\n  | r\n`), written);
});

Deno.test("RunView shows states in brackets without interpreting them", () => {
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

Deno.test("RunView starts a round after a decision to continue", () => {
  const written = show([COMPLETED, decide("continue"), COMPLETED, decide("final_diagnosis")], {
    isLive: false,
  });
  assert.deepEqual(written.match(/^Round \d+$/gm), ["Round 1", "Round 2"]);
  assert.match(
    written,
    /Moderator\n {2}final_diagnosis, confidence 0\.50, risk low\n {2}Leading: H-1: disk\n/,
  );
});

Deno.test("RunView uses color only if the terminal supports it", () => {
  const events = [COMPLETED, decide("final_diagnosis")];
  const plain = show(events, { isLive: true });
  const colored = show(events, { isLive: true, errColor: true });
  assert.notEqual(colored, plain);
  // deno-lint-ignore no-control-regex -- the test removes color codes
  assert.equal(colored.replace(/\x1b\[\d+m/g, ""), plain);
});

Deno.test("RunView shows the limit of a confidence", () => {
  const event = decide("final_diagnosis");
  assert.ok(event.type === "moderator_decision");
  const grounding = {
    hypothesis_id: "H-1",
    level: "none",
    stated_confidence: 0.93,
    cap: 0.6,
    reason: "H-1 cites nothing",
    outcome: "no_confident_cause",
  } as const;
  const limited = { ...event, decision: { ...event.decision, grounding } };
  assert.equal(
    show([COMPLETED, limited], { isLive: false }),
    [
      "\nRound 1\n\nPrimary Diagnosis\n  It is the disk.\n\nModerator\n",
      "  final_diagnosis, confidence 0.50, risk low\n  No confident cause\n",
      "  Evidence: the moderator stated 0.93: H-1 cites nothing\n",
      "  Leading: H-1: disk\n  Next: Look at the disk\n",
    ].join(""),
  );
});

const CAUSE =
  "H-1: The price cache that 4.12.0 introduced is never emptied, and grows until the process is killed";

function shown(outcome: "cause" | "no_confident_cause"): string {
  const record = readRecord("1".repeat(32), {
    topic: "slow",
    status: "completed",
    events: [],
    conclusion: { outcome, confidence: 0.6, cause: CAUSE },
  });
  assert.ok(record !== undefined);
  return formatRun(record, { width: 60 });
}

Deno.test("formatRun() shows the whole cause and labels a candidate", () => {
  const text = shown("cause");
  assert.ok(text.replace(/\s+/g, " ").includes(`Cause ${CAUSE}`), text);
  assert.ok(text.split("\n").every((line) => line.length <= 60), text);
  assert.match(shown("no_confident_cause"), /\nOutcome +no confident cause\nCandidate +H-1: The price/);
});

function stream(pieces: readonly string[], width = 24): string {
  let written = "";
  const text = new StreamedText((part) => void (written += part), { width, indent: "  " });
  for (const piece of pieces) text.push(piece);
  text.end();
  return written;
}

Deno.test("StreamedText indents and wraps at words", () => {
  assert.equal(stream(["one two three four five six"]), "  one two three four\n  five six\n");
});

Deno.test("StreamedText does not depend on the chunks of a text", () => {
  const text = "### H-1\n\nText: the café 😀 is\x1b[2J full of pools\n- a\n";
  assert.equal(stream([...Array(text.length).keys()].map((index) => text.charAt(index))), stream([text]));
});

Deno.test("StreamedText drops leading empty lines and reports an empty text", () => {
  assert.equal(stream(["\n\n  a\n\nb"]), "    a\n\n  b\n");
  const text = new StreamedText(() => {}, { width: 40, indent: "" });
  text.push(" \n");
  assert.equal(text.isEmpty, true);
  text.push("a ");
  assert.equal(text.isEmpty, false);
});

Deno.test.each([
  { name: "lines and tabs unchanged", text: "a\n\tb", shown: "a\n\tb" },
  { name: "CR LF as line breaks", text: "a\r\nb", shown: "a\nb" },
  { name: "a carriage return, which would hide the text before it", text: "a\rb", shown: "a\\x0db" },
  { name: "escape sequences", text: "\x1b[2J\x9b", shown: "\\x1b[2J\\x9b" },
  { name: "right-to-left overrides escaped", text: "\u202egpj", shown: "\\u{202e}gpj" },
  { name: "a hypothesis's state", text: "H-1 [active]", shown: "H-1 [active]" },
])("safeText() shows $name", ({ text, shown }) => {
  assert.equal(safeText(text), shown);
});

Deno.test("safeLine() returns one line of limited length", () => {
  assert.equal(safeLine("a\n b\x07c", 20), "a b\\x07c");
  assert.equal(safeLine("a".repeat(30), 10), `${"a".repeat(9)}…`);
});

Deno.test.each([
  { name: "right-to-left overrides escaped", text: "a\u202eb", shown: "a\\u{202e}b" },
  { name: "a newline", text: "a\nb", shown: "a\\x0ab" },
  { name: "a no-break space", text: "a\u00a0b", shown: "a\\xa0b" },
  { name: "a filler that is invisible", text: "a\u3164b", shown: "a\\u{3164}b" },
  { name: "several spaces", text: "a  b", shown: "a  b" },
  { name: "the beginning of a long text", text: "a".repeat(30), shown: `${"a".repeat(9)}…` },
  {
    name: "at most the characters that fit, escaped",
    text: "aaaa\u202e\u202e",
    shown: `aaaa\\u{20…`,
  },
])("exactLine() shows $name", ({ text, shown }) => {
  assert.equal(exactLine(text, 10), shown.slice(0, 10));
});

Deno.test.each([
  { name: "at words", text: "one two three", lines: ["one two", "three"] },
  { name: "not inside of long words", text: "a verylongword", lines: ["a", "verylongword"] },
  { name: "list entries below their text", text: "- one two three", lines: ["- one", "  two", "  three"] },
  { name: "at line breaks", text: "a\n\nb", lines: ["a", "", "b"] },
])("wrap() breaks $name", ({ text, lines }) => {
  assert.deepEqual(wrap(text, 8), lines);
});

Deno.test("createPaint() returns plain text without color", () => {
  assert.equal(createPaint(false)("red", "x"), "x");
  assert.equal(createPaint(true)("red", "x"), "\x1b[31mx\x1b[0m");
});
