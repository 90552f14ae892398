import assert from "node:assert/strict";
import page from "../page/index.html" with { type: "text" };
import types from "../page/types.js" with { type: "text" };
import type { Evidence, Hypothesis, Review } from "../../engine/graph/state.ts";
import { mapOf, SIZE } from "../page/map_layout.js";
import { ODD } from "@gateway/shared/text";
import { splitQuoted } from "../page/quotes.js";
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
  { name: "no line breaks and tabs", text: "a\r\n\tb\nc", parts: ["a\n\tb\nc"] },
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

/** All texts of the modules and of the HTML. */
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

Deno.test("fill() inserts a value that looks like a placeholder unchanged", () => {
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
