import assert from "node:assert/strict";
import { createElement } from "preact";
import { render } from "preact-render-to-string";
import type { Evidence, Hypothesis, Review } from "../../engine/graph/state.ts";
import { readAgentText } from "../page/agent_text.ts";
import { callLine } from "../page/call_line.ts";
import { fill, languageName, t } from "../page/language.ts";
import { mapOf, WIDTH } from "../page/map_layout.ts";
import { Markdown } from "../page/markdown.tsx";
import { splitQuoted } from "../page/quotes.ts";

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

Deno.test("the map has a mark for the incident, each hypothesis, each cited call and each objection", () => {
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
});

Deno.test("marks of the map do not overlap, and edges lead from one column to the next", () => {
  const many = Array.from({ length: 60 }, (_, index) =>
    hypothesis(`H-${index}`, {
      evidence: [
        line("grounded", ...Array.from({ length: index % 20 }, (_, call) => `${index % 7}.${call}`)),
      ],
      reviews: Array.from({ length: index % 4 }, () => review("rejected")),
    }));
  const { nodes, edges, height } = mapOf(many);
  for (const [index, { x, y, width, height: own }] of nodes.entries()) {
    assert.ok(x >= 0 && y >= 0 && x + width <= WIDTH && y + own <= height);
    const hit = nodes.slice(index + 1).find((other) =>
      other.x < x + width && x < other.x + other.width && other.y < y + own && y < other.y + other.height
    );
    assert.equal(hit, undefined);
  }
  const ends = new Map(nodes.map((each) => [each.key, each]));
  const columns = [...new Set(nodes.map(({ x }) => x))].toSorted((a, b) => a - b);
  for (const { from, to } of edges) {
    const [left, right] = [ends.get(from), ends.get(to)];
    assert.ok(left !== undefined && right !== undefined);
    assert.equal(columns.indexOf(right.x), columns.indexOf(left.x) + 1);
    assert.ok(left.x + left.width < right.x);
  }
  assert.equal(mapOf([]).nodes.length, 1);
});

Deno.test("fill() inserts a value that looks like a placeholder unchanged", () => {
  assert.equal(fill("{a} and {b}", { a: "{b}", b: "$&" }), "{b} and $&");
  assert.equal(fill("{a}{c}", { a: undefined }), "");
});

Deno.test("t() shows a word that is no text of the page unchanged", () => {
  assert.equal(t("constructor"), "constructor");
});

Deno.test("a language is shown by its name, an unknown one by its code", () => {
  assert.deepEqual(["en", "es", "x", "pt_BR"].map(languageName), ["English", "Spanish", "x", "pt_BR"]);
});

const RESULT = 'GET http://pool/98: 200 OK\n1498 MB of 98  MB, {"entries": 15212,\n "mb": 1498}';

Deno.test.each([
  { name: "a quote", line: '[tool:http_get#1] "98 mb": x', marked: ["98  MB"] },
  { name: "two quotes in order", line: '`"mb": 1498` and "1498 MB"', marked: ["1498 MB", 'mb": 1498'] },
  {
    name: "JSON in double quotes",
    line: '- ""entries": 15212, "mb": 1498": x',
    marked: ['entries": 15212,\n "mb": 1498'],
  },
  {
    name: "JSON in backticks",
    line: '- `"entries": 15212, "mb": 1498`: x',
    marked: ['entries": 15212,\n "mb": 1498'],
  },
  { name: "a part of a number", line: '"498 MB"', marked: [] },
  { name: "the request", line: '"200 OK"', marked: [] },
  { name: "no quote", line: "MB", marked: [] },
])("splitQuoted() marks $name", ({ line, marked }) => {
  const parts = splitQuoted(RESULT, line);
  assert.equal(parts.join(""), RESULT);
  assert.deepEqual(parts.filter((_, index) => index % 2 === 1), marked);
});

Deno.test("splitQuoted() searches long results for long quotes without delay", () => {
  const quotes = Array.from({ length: 8 }, () => `"${"a ".repeat(199)}b"`).join(" ");
  const begun = performance.now();
  assert.equal(splitQuoted(`\n${"a ".repeat(50_000)}`, quotes).length, 1);
  assert.equal(splitQuoted(`\n${"x"}`, `"${"a ".repeat(50_000)}"`).length, 1);
  assert.ok(performance.now() - begun < 5000);
});

Deno.test("readAgentText() turns the markers of the protocol into blocks and keeps the text around them", () => {
  const text = [
    "It began with 4.12.0.\r",
    "",
    "### HYPOTHESIS-H-1 [P=0.60]",
    "Text: The cache grows.",
    "",
    '- [tool:http_get#2] "1498 MB": of 1712',
    "",
    "**HIPÓTESIS-H-2** [P=25%]",
    "Text: The pool leaks.",
    "```",
    "",
    "[hypothesis:H-9] accepted",
    "```",
    "",
    "Cheapest experiment: read the code.",
    "- [hypothesis:H-3] Rejected [P: 0,03] flat traffic",
    "Reason: it stayed flat.",
    "EARLY_OUT_RECOMMENDED: true",
    "EARLY_OUT_CONFIDENCE: 0.94",
    "EARLY_OUT_RATIONALE: All agrees.",
    "Done.",
  ].join("\n");
  assert.deepEqual(readAgentText(text), [
    { kind: "text", text: "It began with 4.12.0." },
    {
      kind: "hypothesis",
      id: "H-1",
      share: .6,
      text: 'The cache grows.\n\n- [tool:http_get#2] "1498 MB": of 1712',
    },
    {
      kind: "hypothesis",
      id: "H-2",
      share: .25,
      text: "The pool leaks.\n```\n\n[hypothesis:H-9] accepted\n```",
    },
    { kind: "text", text: "Cheapest experiment: read the code." },
    { kind: "rejected", id: "H-3", share: .03, text: "flat traffic\nit stayed flat." },
    { kind: "end", share: .94, text: "All agrees." },
    { kind: "text", text: "Done." },
  ]);
});

Deno.test.each([
  { name: "a mention in a sentence", text: "I think HYPOTHESIS-H-1 [P=0.6] holds." },
  { name: "a review without a verdict", text: "[hypothesis:H-1] maybe" },
  { name: "a longer word", text: "[hypothesis:H-1] accepted_by_all" },
  { name: "a long ID", text: `### HYPOTHESIS-${"x".repeat(60)} [P=0.6]` },
  { name: "a marker in a code block", text: "```\n### HYPOTHESIS-H-1 [P=0.6]\n```" },
  { name: "no recommendation", text: "EARLY_OUT_RECOMMENDED: false\nEARLY_OUT_CONFIDENCE: 0.9" },
  { name: "an unknown marker", text: "### VERDICT-H-1 [P=0.6]" },
])("readAgentText() keeps $name as text", ({ text }) => {
  assert.deepEqual(readAgentText(text), [{ kind: "text", text }]);
});

Deno.test("readAgentText() reads a probability that is none, and hostile repetition in linear time", () => {
  assert.deepEqual(readAgentText("### HYPOTHESIS-H-1 [P=sure]"), [
    { kind: "hypothesis", id: "H-1", share: undefined, text: "" },
  ]);
  const begun = performance.now();
  for (const piece of ["### HYPOTHESIS-H-1 [P=0.6]\n", "[hypothesis:", "\n\n- ", "*# ", "```\n"]) {
    readAgentText(piece.repeat(20_000));
  }
  assert.ok(performance.now() - begun < 5000);
});

Deno.test.each([
  { name: "HTML as text", text: "<img src=x onerror=alert(1)>", shows: /&lt;img src=x/ },
  {
    name: "links as text",
    text: "[a](javascript:alert(1)) ![b](http://c) <http://d>",
    shows: /\[a\]\(javascript/,
  },
  { name: "hidden characters by name", text: "a\u202eb", shows: /RIGHT-TO-LEFT OVERRIDE/ },
  {
    name: "a call that does not exist without a link",
    text: "[tool:x#1]",
    shows: /<span class="mark-link">/,
  },
  {
    name: "a hypothesis by its ID",
    text: "see [hipótesis:H-1]",
    shows: /see <b class="hypothesis-id">.*H-1/,
  },
  {
    name: "other brackets as text",
    text: "[tool:http_get] [tool:a b#1] [x]",
    shows: /\[tool:http_get\] \[tool:a b#1\] \[x\]/,
  },
  { name: "a mark in code as code", text: "`[tool:x#1]`", shows: /<code>.*\[tool:x#1\]/ },
  { name: "too deep nesting as code", text: ">".repeat(300), shows: /<pre.*>>>/ },
  { name: "a heading as bold text", text: "# A", shows: /<p><b>A<\/b><\/p>/ },
  { name: "the start of a list", text: "3. a", shows: /<ol start="3"><li>a/ },
])("Markdown shows $name", ({ text, shows }) => {
  const html = render(createElement(Markdown, { text }));
  assert.match(html, shows);
  assert.doesNotMatch(html, /<(?:a|img|script|h\d|iframe)\b| style=/);
});

Deno.test.each([
  { tool: "run_local_command", args: { command: "ls -l" }, line: "$ ls -l" },
  { tool: "run_ssh_command", args: { host: "web1", command: "uptime" }, line: "$ ssh web1 uptime" },
  { tool: "query_prometheus", args: { query: "sum(\n  up\n)" }, line: "PromQL: sum( up )" },
  { tool: "http_get", args: { url: { a: 1 } }, line: 'GET {"a":1}' },
  { tool: "other", args: { a: 1, b: [2], c: "x", d: 4 }, line: "other a=1 b=[2] c=x" },
  { tool: "run_local_command", args: { argv: ["ls"] }, line: 'run_local_command argv=["ls"]' },
  { tool: "http_get", args: null, line: "http_get" },
  { tool: "other", args: { "": "GET http://a" }, line: "other =GET http://a" },
])("callLine() describes $tool", ({ tool, args, line }) => {
  assert.equal(callLine(tool, args), line);
});
