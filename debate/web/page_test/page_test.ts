import assert from "node:assert/strict";
import page from "../page/index.html" with { type: "text" };
import types from "../page/types.js" with { type: "text" };
import type { Evidence, Hypothesis, Review } from "../../engine/graph/state.ts";
import { mapOf, SIZE } from "../page/map_layout.js";
import {
  beginSummary,
  causeOf,
  dollarsOf,
  leadOf,
  ranked,
  type Summary,
  tell as tellEvent,
  type TimedEvent,
  timeLeft,
  titleOf,
  tokensOf,
  verdictOf,
} from "../page/summary.js";
import { ODD } from "@gateway/shared/text";
import { codeOf, splitHidden } from "../page/visible.js";
import { PAGE_FILES } from "../page_files.ts";
import events from "../../engine/events.ts" with { type: "text" };
import { SPANISH } from "../page/es.js";
import { fill, languageName } from "../page/language.js";

/** The interface names of elements in a browser. */
const CLASSES: Readonly<Record<string, string>> = {
  a: "HTMLAnchorElement",
  button: "HTMLButtonElement",
  details: "HTMLDetailsElement",
  dialog: "HTMLDialogElement",
  div: "HTMLDivElement",
  dl: "HTMLDListElement",
  fieldset: "HTMLFieldSetElement",
  form: "Form",
  h1: "HTMLHeadingElement",
  h2: "HTMLHeadingElement",
  h3: "HTMLHeadingElement",
  input: "HTMLInputElement",
  ol: "HTMLOListElement",
  output: "HTMLOutputElement",
  p: "HTMLParagraphElement",
  pre: "HTMLPreElement",
  select: "HTMLSelectElement",
  span: "HTMLSpanElement",
  table: "HTMLTableElement",
  tbody: "HTMLTableSectionElement",
  textarea: "HTMLTextAreaElement",
  ul: "HTMLUListElement",
};

Deno.test("the elements of the page match their types", () => {
  const inPage = [...page.matchAll(/<(\w+)\b[^>]*? id="([\w-]+)"/g)]
    .map(([, tag = "", id]) => `${id}: ${CLASSES[tag] ?? "HTMLElement"}`);
  const [listed = ""] = /^ \* @typedef \{\{\n(?: \* {3}.*\n)+ \* \}\} Elements$/m.exec(types) ?? [];
  const inTypes = [...listed.matchAll(/^ \* {3}"?([\w-]+)"?: (\w+)/gm)]
    .map(([, id, type = ""]) => `${id}: ${/Form$/.test(type) ? "Form" : type}`);
  assert.ok(inPage.length > 80, `${inPage.length} elements`);
  assert.deepEqual(inTypes.toSorted(), inPage.toSorted());
});

Deno.test("every form field that the modules read exists", () => {
  for (
    const [form, ...names] of [
      ["start-form", "topic", "template", "language", "mode", "require_approval"],
      ["comment-form", "comment", "added"],
      ["resume-form", "require_approval"],
      ["title-form", "title"],
    ]
  ) {
    const [, text = ""] = new RegExp(`<form id="${form}"([^]*?)</form>`).exec(page) ?? [];
    for (const name of names) {
      assert.match(text, new RegExp(`<(?:input|textarea|select)[^>]* name="${name}"`));
    }
  }
});

// This module of the page runs without a browser.
const line = (status: Evidence["status"], ...call_ids: string[]): Evidence => (
  { text: "", round: 2, status, call_ids }
);
const review = (verdict: Review["verdict"]): Review => (
  {
    round: 3,
    agent: "skeptic_agent",
    verdict,
    probability: null,
    reason: "",
    evidence: [],
    new_evidence: false,
  }
);
const hypothesis = (id: string, more: Partial<Hypothesis> = {}): Hypothesis => ({
  id,
  text: "",
  state: "active",
  proposer: "diagnostic_agent",
  round: 1,
  supporting_evidence: [],
  evidence: [],
  reviews: [],
  rejected_reason: null,
  probability: null,
  transitions: [],
  ...more,
});

Deno.test("the map has a node for the incident, each hypothesis, each cited call and each objection", () => {
  const one = hypothesis("H-1", {
    evidence: [line("grounded", "a"), line("not_in_result", "a", "b")],
    reviews: [review("accepted"), review("needs_evidence")],
  });
  const other = hypothesis("H-2", { round: 2, evidence: [line("grounded", "a")] });
  const { nodes, edges } = mapOf([one, other]);
  assert.deepEqual(nodes.map(({ key }) => key), ["topic", "h:H-1", "e:a", "e:b", "o:H-1:1", "h:H-2"]);
  assert.deepEqual(edges.map(({ from, to, kind }) => `${from} ${to} ${kind}`), [
    "topic h:H-1 active",
    "h:H-1 e:a for",
    "h:H-1 e:b void",
    "h:H-1 o:H-1:1 against",
    "topic h:H-2 active",
    "h:H-2 e:a for",
  ]);
  assert.deepEqual(nodes.find(({ key }) => key === "h:H-1")?.rounds, [1, 3]);
});

Deno.test("all marks are inside the map, and later hypotheses are further out", () => {
  const many = Array.from({ length: 60 }, (_, index) =>
    hypothesis(`H-${index}`, {
      round: index % 10,
      evidence: [line("grounded", ...Array.from({ length: 20 }, (_, call) => `${index}.${call}`))],
    }));
  const { nodes } = mapOf(many);
  for (const { x, y } of nodes) assert.ok(Math.min(x, y) > 0 && Math.max(x, y) < SIZE);
  const far = (key: string) => {
    const { x = 0, y = 0 } = nodes.find((node) => node.key === key) ?? {};
    return Math.hypot(x - SIZE / 2, y - SIZE / 2);
  };
  assert.ok(far("h:H-9") > far("h:H-0"));
  assert.equal(mapOf([]).nodes.length, 1);
});

// This module of the page runs without a browser.
/** The events have only the fields that this test needs. */
const tell = (summary: Summary, event: object) => tellEvent(summary, event as TimedEvent);

const POOL = { id: "H-1", text: "The pool leaks. More.", state: "active", probability: 0.4 };
const DISK = { id: "H-2", text: "The disk is full", state: "active", probability: 0.7 };
const CACHE = { id: "H-3", text: "The cache", state: "rejected", probability: 0.9 };

function summaryOf(...events: readonly object[]) {
  const summary = beginSummary();
  for (const event of events) tell(summary, event);
  return summary;
}

const update = (round: number, ...hypotheses: readonly object[]) => ({
  type: "hypothesis_update",
  node: "diagnostic_agent",
  round,
  hypotheses,
});
const decide = (grounding: object | undefined, leading_hypothesis = "H-1: pool") => ({
  type: "moderator_decision",
  round: 1,
  decision: { status: "final_diagnosis", confidence: 0.6, leading_hypothesis, grounding },
});

Deno.test.each([
  { name: "no events", events: [], status: "running", title: "No cause yet", tone: "open" },
  {
    name: "undecided",
    events: [decide({ outcome: null })],
    status: "running",
    title: "Undecided so far",
    tone: "open",
  },
  {
    name: "found",
    events: [decide({ outcome: "cause" })],
    status: "completed",
    title: "Cause found",
    tone: "good",
  },
  {
    name: "not sure",
    events: [decide({ outcome: "no_confident_cause" })],
    status: "completed",
    title: "No confident cause",
    tone: "warn",
  },
  {
    name: "from before the check",
    events: [decide(undefined)],
    status: "completed",
    title: "Stated by the moderator; the evidence was not checked",
    tone: "warn",
  },
  {
    name: "failed",
    events: [{ type: "error", message: "The model is gone" }],
    status: "error",
    title: "The model is gone",
    tone: "bad",
  },
  {
    name: "stopped",
    events: [decide({ outcome: null })],
    status: "cancelled",
    title: "The run was stopped",
    tone: "warn",
  },
])("the verdict of a run: $name", ({ events, status, title, tone }) => {
  assert.deepEqual(verdictOf(summaryOf(...events), status), { title, tone });
});

Deno.test("the leading hypothesis is the moderator's choice, or else the likeliest open one", () => {
  const early = summaryOf(update(1, POOL, DISK, CACHE));
  assert.equal(leadOf(early)?.id, "H-2");
  assert.equal(causeOf(early), "The disk is full");
  tell(early, decide({ hypothesis_id: "H-1", outcome: null }));
  assert.equal(causeOf(early), "The pool leaks.");
  assert.deepEqual(ranked(early).map(({ id }) => id), ["H-1", "H-2", "H-3"]);
  tell(early, decide({ hypothesis_id: null, outcome: "no_confident_cause" }, "gremlins"));
  assert.equal(leadOf(early), undefined);
  assert.equal(causeOf(early), "gremlins");
});

Deno.test("every change of the hypotheses is kept", () => {
  const { frames } = summaryOf(update(1, POOL), update(2, POOL, DISK));
  assert.deepEqual(frames.map(({ round, hypotheses }) => [round, hypotheses.length]), [[1, 1], [2, 2]]);
});

Deno.test("each change of a probability is kept once", () => {
  const again = summaryOf(update(1, POOL), update(1, POOL), update(2, { ...POOL, probability: 0.9 }));
  assert.deepEqual(again.shares.get("H-1")?.map(({ share }) => share), [0.4, 0.9]);
});

Deno.test("a pending request ends with its decision or with the run", () => {
  const waiting = summaryOf(
    { type: "tool_approval_request", call_id: "a" },
    { type: "tool_approval_request", call_id: "b" },
    { type: "tool_approval_resolved", call_id: "a" },
    { type: "awaiting_user_input", timestamp: "2026-01-02T03:04:05Z" },
  );
  assert.deepEqual([[...waiting.approvals.keys()], waiting.pausedAt], [["b"], "2026-01-02T03:04:05Z"]);
  tell(waiting, { type: "run_finished" });
  assert.deepEqual([waiting.approvals.size, waiting.pausedAt], [0, undefined]);
});

Deno.test("a title is the truncated first line; a wait without a start has no end", () => {
  assert.equal(titleOf("\n# Payments fail\nsince noon"), "Payments fail");
  assert.ok(titleOf("long word ".repeat(30)).length <= 92);
  assert.equal(timeLeft("2026-01-02T03:04:05Z", 300, Date.parse("2026-01-02T03:05:05Z")), 240_000);
  assert.equal(timeLeft(undefined, 300, 0), undefined);
});

Deno.test("the cause omits the claim if a sentence follows it", () => {
  const claim = "{component: pool; fault: resource_leak; path: a > b}";
  const cause = (text: string) => causeOf(summaryOf(update(1, { ...POOL, text })));
  assert.equal(cause(`${claim} The pool leaks. More.`), "The pool leaks.");
  assert.equal(cause(claim), claim);
});

Deno.test("an agent that waits for an approval is not shown as thinking", () => {
  const summary = summaryOf(
    { type: "agent_turn_started", agent_role: "Skeptic" },
    { type: "tool_approval_request", call_id: "c", tool_name: "http_get", args: {} },
  );
  assert.equal(summary.doing, undefined);
});

Deno.test("an approval for the whole run is known until it is revoked or the run ends", () => {
  const asked = (call_id: string) => ({ type: "tool_approval_request", call_id, tool_name: "x", args: {} });
  const answered = (call_id: string) => ({
    type: "tool_approval_resolved",
    call_id,
    approved: true,
    for_run: true,
  });
  const summary = summaryOf(asked("a"), answered("a"), asked("b"), answered("b"), answered("unknown"));
  assert.deepEqual([...summary.allowed.keys()], ["a", "b"]);
  tell(summary, { type: "tool_approval_revoked", call_id: "a" });
  assert.deepEqual([...summary.allowed.keys()], ["b"]);
  tell(summary, { type: "run_finished", status: "completed" });
  assert.equal(summary.allowed.size, 0);
});

Deno.test("an imported run is always shown as imported", () => {
  const summary = beginSummary(true);
  tell(summary, decide({ outcome: "cause" }));
  assert.match(verdictOf(summary, "completed").title, /^Imported/);
});

Deno.test("list and answer show the same tokens and costs, and mark estimates", () => {
  assert.deepEqual(
    [{ total_tokens: 47_185 }, { total_tokens: 47_185, estimated: true }, { total_tokens: 0 }, {}, undefined]
      .map(
        tokensOf,
      ),
    ["47,185 tokens", "about 47,185 tokens", "", "", ""],
  );
  assert.equal(dollarsOf(0.0034), "$0.0034");
});

Deno.test.each([
  { name: "nothing in plain text", text: "ls -l /tmp", parts: ["ls -l /tmp"] },
  { name: "text that runs backwards", text: "a\u202eb", parts: ["a", "\u202e", "b"] },
  {
    name: "two in a row, the last at the end",
    text: "\u200b\u2066",
    parts: ["", "\u200b", "", "\u2066", ""],
  },
  { name: "a tag outside of the first plane", text: "x\u{e0041}", parts: ["x", "\u{e0041}", ""] },
  { name: "an unpaired half of a character", text: "x\ud800y", parts: ["x", "\ud800", "y"] },
  { name: "a no-break space", text: "a\u00a0b", parts: ["a", "\u00a0", "b"] },
  { name: "no line ends and tabs", text: "a\r\n\tb\nc", parts: ["a\n\tb\nc"] },
  { name: "a carriage return alone", text: "a\rb", parts: ["a", "\r", "b"] },
])("splitHidden() finds $name", ({ text, parts }) => {
  assert.deepEqual(splitHidden(text), parts);
});

Deno.test("codeOf() formats a code point", () => {
  assert.deepEqual(["\r", "\u202e", "\u{e0041}", "\ud800"].map(codeOf), [
    "U+000D",
    "U+202E",
    "U+E0041",
    "U+D800",
  ]);
});

Deno.test("the page uses the server's pattern for hidden characters", async () => {
  const script = PAGE_FILES.get("/static/hidden_characters.js")?.text ?? "";
  const loaded = await import(`data:text/javascript,${encodeURIComponent(script)}`);
  assert.equal(loaded.HIDDEN, ODD);
});

const spanish: Readonly<Record<string, string>> = SPANISH;
const OWN = [...PAGE_FILES].filter(([path]) =>
  path.endsWith(".js") && !/\/(?:es|markdown-it)\.js$/.test(path)
);

/** The texts of the modules and of the HTML. */
function said(): ReadonlySet<string> {
  const modules = OWN.flatMap(([, { text }]) =>
    [...text.matchAll(/\bt\(\s*("(?:[^"\\]|\\.)*")/g)].map(([, literal]) => JSON.parse(literal ?? ""))
  );
  const html = PAGE_FILES.get("/")?.text ?? "";
  const texts = [...html.matchAll(/>([^<]+)</g), ...html.matchAll(/(?:placeholder|aria-label)="([^"]+)"/g)]
    .map(([, text]) => (text ?? "").replace(/\s+/g, " ").trim()).filter((text) => /\p{L}/u.test(text));
  return new Set([...modules, ...texts]);
}

Deno.test("every text of the page has a Spanish translation", () => {
  const all = said();
  assert.ok(all.size > 250);
  assert.deepEqual([...all].filter((text) => !Object.hasOwn(spanish, text)), []);
});

Deno.test("every translation is used", () => {
  const all = said();
  const literals = new Set(
    OWN.flatMap(([, { text }]) =>
      [...text.matchAll(/"((?:[^"\\]|\\.)*)"|\b(\w+):/g)].map(([, one, other]) => one ?? other ?? "")
    ),
  );
  // These words are stored and sent by the server.
  const stored = new Set([
    ...[
      "running",
      "completed",
      "cancelled",
      "error",
      "active",
      "confirmed",
      "accepted",
      "approved",
      "timeout",
    ],
    ...["auto", "cached", "medium", "continue", "Primary Diagnosis", "Skeptical Reviewer"],
  ]);
  const unknown = Object.keys(spanish).filter((text) =>
    !all.has(text) && !literals.has(text) && !stored.has(text)
  );
  assert.deepEqual(unknown, []);
});

Deno.test("translations have the placeholders of their texts", () => {
  const values = (text: string) => (text.match(/\{\w+\}/g) ?? []).toSorted();
  for (const [text, translation] of Object.entries(spanish)) {
    assert.deepEqual(values(translation), values(text), text);
  }
});

Deno.test("a value that looks like a placeholder is inserted unchanged", () => {
  assert.equal(fill("{a} and {b}", { a: "{b}", b: "$&" }), "{b} and $&");
  assert.equal(fill("{a}{c}", { a: undefined }), "");
});

Deno.test("the page handles every type of event", () => {
  const types = [...events.matchAll(/readonly type: "(\w+)";/g)].map(([, type]) => type);
  const shown = PAGE_FILES.get("/static/conversation.js")?.text ?? "";
  const counted = PAGE_FILES.get("/static/summary.js")?.text ?? "";
  assert.ok(types.length > 20);
  assert.deepEqual(types.filter((type) => !`${shown}${counted}`.includes(`case "${type}":`)), []);
});

Deno.test("a language is shown by its name, an unknown one by its code", () => {
  assert.deepEqual(["en", "es", "x", "pt_BR"].map(languageName), ["English", "Spanish", "x", "pt_BR"]);
});
