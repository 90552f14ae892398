import assert from "node:assert/strict";
import { readRecord } from "../runs/record.ts";
import { formatDuration } from "../engine/graph/text.ts";
import { renderReport } from "./report.ts";
import { htmlFileName, renderHtml } from "./html.ts";
import fc from "fast-check";
import markdownIt from "markdown-it";
import { assertLinearWork } from "@gateway/shared/testing";
import { embedded, fenced, inline } from "./markdown_text.ts";

const DECISION = {
  status: "propose_fix",
  confidence: 0.875,
  risk_level: "low",
  leading_hypothesis: "the pool",
  next_step: "measure",
  recommended_fix: "enlarge it",
  evidence: ["[tool:http_get] 500"],
  validation: ["load test"],
};

const RECORD = {
  topic: "it hangs",
  timestamp: "2026-01-02T03:04:05.000Z",
  finished_at: "2026-01-02T03:06:10.000Z",
  duration_seconds: 125,
  status: "completed",
  models: { diagnostic: "hub/a", skeptic: "hub/b", moderator: "hub/c" },
  reasoning_effort: { diagnostic: "high", skeptic: "none", moderator: "none" },
  template: "default",
  language: "en",
  parent_run_id: null,
  token_totals: {
    by_node: { skeptic_agent: { input_tokens: 10, output_tokens: 2, total_tokens: 12 } },
    total: { input_tokens: 10, output_tokens: 2, total_tokens: 12 },
  },
  cost_estimate: { by_node: { skeptic_agent: { estimated_usd: 0.25 } }, total_usd: 0.25, has_prices: true },
  hypotheses: [{
    id: "1",
    text: "the pool",
    state: "confirmed",
    probability: 0.9,
    rejected_reason: null,
    supporting_evidence: ["seen"],
    transitions: [
      { round: 1, from: null, to: "active", agent: "diagnostic_agent", note: "" },
      { round: 2, from: "active", to: "confirmed", agent: "skeptic_agent", note: "measured" },
    ],
  }],
  events: [
    { type: "run_started", round: 1, max_rounds: 4, confidence_threshold: 0.8 },
    {
      type: "tool_approval_resolved",
      call_id: "c",
      resolution: "approved",
      timestamp: "2026-01-02T03:05:00.000Z",
    },
    {
      type: "tool_call",
      call_id: "c",
      agent_role: "Primary Diagnosis",
      tool_name: "run_kubectl",
      args: { args: ["get"] },
      result: "a ``` b",
      error: false,
      approval: "approved",
      duration_ms: 12,
    },
    { type: "agent_completed", role: "Primary Diagnosis", content: "# Top\n```\nopen" },
    { type: "moderator_decision", decision: { ...DECISION, status: "continue" }, round: 2 },
    { type: "user_comment", content: "look again", round: 2 },
    { type: "agent_skipped", role: "Skeptical Reviewer", rationale: "agreed" },
    { type: "moderator_decision", decision: DECISION, round: 2 },
  ],
};

function report(fields: Readonly<Record<string, unknown>> = {}): string {
  const record = readRecord("1".repeat(32), { ...RECORD, ...fields });
  assert.ok(record !== undefined);
  return renderReport(record);
}

Deno.test("renderReport() returns its sections in order", () => {
  const text = report();
  const headings = [...text.matchAll(/^#{1,4} .*$/gm)].map(([line]) => line);
  assert.deepEqual(headings, [
    "# Diagnosis report: it hangs",
    "## Executive summary",
    "## Run",
    "## Round 1",
    "#### Tool: run\\_kubectl (Primary Diagnosis, approved, 12 ms)",
    "### Primary Diagnosis",
    "### Moderator decision",
    "## Round 2",
    "### Operator",
    "### Moderator decision",
    "## Hypothesis timeline",
    "### H-1: confirmed, probability 90%",
    "## Token consumption",
  ]);
  assert.match(text, /\*\*Duration:\*\* 2m 5s/);
  assert.match(text, /\*\*Reasoning effort:\*\* diagnostic high/);
  assert.match(text, /Operator: approved at 2026-01-02T03:05:00.000Z/);
  assert.match(text, /````\na ``` b\n````/);
  assert.match(text, /Round 2, skeptic\\_agent: active → confirmed \(measured\)/);
  assert.match(text, /- \*\*Confidence:\*\* 88%/);
  assert.match(text, /\| \*\*Total\*\* \| 10 \| 2 \| 12 \| \$0\.2500 \|/);
  assert.match(text, /\*Skeptical Reviewer was skipped: agreed\.\*/);
});

Deno.test("renderReport() accepts a record with a malformed value in every field", () => {
  for (
    const events of [undefined, 7, [null, 1, { type: 1 }, { type: "tool_call" }, {
      type: "moderator_decision",
    }]]
  ) {
    assert.match(
      report({ events, hypotheses: { a: 1 }, models: 3, token_totals: [], status: "lost" }),
      /^# /,
    );
  }
});

Deno.test("formatDuration() uses at most two units", () => {
  assert.deepEqual([45, 125, 3780].map(formatDuration), ["45s", "2m 5s", "1h 3m"]);
});

Deno.test("renderReport() shows the confidence limit, the counting evidence and agreement without new evidence", () => {
  const line = '[tool:run_kubectl#1] "a b c"';
  const evidence = [{ text: line, round: 1, status: "not_in_result", call_ids: ["c"] }];
  const review = {
    round: 1,
    agent: "skeptic_agent",
    verdict: "accepted",
    probability: 0.9,
    reason: "it fits",
    evidence: [],
    new_evidence: false,
  };
  const opinion = { ...review, verdict: "rejected" };
  const withdrawal = { ...opinion, agent: "diagnostic_rebuttal_agent" };
  const grounding = {
    hypothesis_id: "1",
    level: "none",
    stated_confidence: 0.93,
    cap: 0.6,
    reason: "1 cites no tool result",
    outcome: "no_confident_cause",
  };
  const text = report({
    hypotheses: [{
      ...RECORD.hypotheses[0],
      supporting_evidence: [line],
      evidence,
      reviews: [review, opinion, withdrawal],
    }],
    events: [{ type: "moderator_decision", decision: { ...DECISION, confidence: 0.6, grounding }, round: 1 }],
  });
  assert.match(text, /\*\*Outcome:\*\* no confident cause/);
  assert.match(text, /\*\*Confidence:\*\* 60% \(93% stated by the moderator; 1 cites no tool result\)/);
  assert.match(text, /- Evidence: .*\(does not count: the cited result does not contain the quote\)/);
  assert.match(
    text,
    /- Review, round 1, skeptic\\_agent: accepted, agreement without new evidence \(it fits\)/,
  );
  assert.match(text, /skeptic\\_agent: rejected, an opinion without a quoted result \(it fits\)/);
  assert.match(text, /rebuttal\\_agent: rejected, withdrawn by the agent that proposed it \(it fits\)/);
  // The answer: cause, confidence and why, next steps; everything else follows.
  const places = ["Outcome:", "Leading hypothesis:", "Confidence:", "Evidence:", "Next step:", "## Round"];
  assert.deepEqual(
    places.map((each) => text.indexOf(each)).toSorted((a, b) => a - b),
    places.map((each) => text.indexOf(each)),
  );
});

Deno.test("renderReport() shows the arguments that the agent requested before those of the operator", () => {
  const [, , called] = RECORD.events;
  const text = report({ events: [{ ...called, proposed_args: { args: ["delete"] } }] });
  assert.match(
    text,
    /\*Requested by the agent:\*[^*]*"delete"[^*]*\*Changed by the operator to:\*[^*]*"get"/,
  );
  assert.doesNotMatch(report(), /Requested by/);
});

Deno.test("renderReport() returns text in the language of the run", () => {
  const events = [...RECORD.events, { type: "agent_completed", role: "constructor", content: "a" }];
  const text = report({ language: "es-MX", events });
  assert.match(text, /### constructor\n/);
  assert.match(text, /Operador: aprobada a las/);
  for (
    const heading of ["# Informe de diagnóstico: it hangs", "## Ronda 1", "### Decisión del moderador"]
  ) assert.ok(text.includes(`${heading}\n`), heading);
  assert.match(text, /\*\*Estado:\*\* Completada/);
  assert.doesNotMatch(
    text,
    /Round|Confidence|Primary Diagnosis|approved|confirmed|Started|Evidence|Next step|timeline|summary|consumption|Operator\b/,
  );
});

const HOSTILE =
  `<img src=x onerror=alert(1)> </style><script>alert(2)</script> ![p](http://a.example/p.png) "'&`;

function html(language = "en"): string {
  const evidence = [{ text: HOSTILE, round: 1, status: "grounded", call_ids: ["c"] }];
  const record = readRecord("1".repeat(32), {
    topic: HOSTILE,
    title: HOSTILE,
    language,
    status: "completed",
    hypotheses: [{ id: "H-1", text: HOSTILE, state: "active", supporting_evidence: [HOSTILE], evidence }],
    events: [
      { type: "run_started", round: 1, max_rounds: 1, confidence_threshold: 0.8 },
      { type: "agent_completed", role: HOSTILE, content: HOSTILE },
      { type: "tool_call", tool_name: HOSTILE, args: { a: HOSTILE }, result: HOSTILE },
      {
        type: "moderator_decision",
        round: 1,
        decision: {
          status: "final_diagnosis",
          confidence: 0.6,
          risk_level: HOSTILE,
          next_step: HOSTILE,
          grounding: {
            hypothesis_id: "H-1",
            level: "none",
            stated_confidence: 0.93,
            cap: 0.6,
            reason: HOSTILE,
            outcome: "no_confident_cause",
          },
        },
      },
    ],
  });
  assert.ok(record !== undefined);
  return renderHtml(record);
}

Deno.test("renderHtml() loads no resources and executes no foreign content", () => {
  const text = html();
  const tags = new Set([...text.matchAll(/<([a-z][a-z0-9]*)/gi)].map(([, tag]) => tag));
  for (const tag of ["script", "img", "iframe", "link", "object", "svg"]) assert.ok(!tags.has(tag), tag);
  assert.equal(text.match(/<style>/g)?.length, 1);
  assert.equal(text.match(/<\/style>/g)?.length, 1);
  assert.doesNotMatch(text, /<[^>]*\son\w+=/);
  assert.doesNotMatch(text, /src="|url\(/);
  assert.match(text, /content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'"/);
});

Deno.test("renderHtml() starts with the answer, in the language of the run", () => {
  const text = html();
  assert.match(
    text,
    /<\/h1>\n<section class="answer"><h2>Executive summary<\/h2>\n<ul>\n<li><strong>Outcome:<\/strong> no confident cause<\/li>\n<li><strong>Leading hypothesis:<\/strong> H-1: /,
  );
  assert.match(text, /<li><strong>Confidence:<\/strong> 60% \(93% stated by the moderator; /);
  assert.match(html("es"), /<html lang="es">[^]*<strong>Resultado:<\/strong> causa no confirmada<\/li>/);
  assert.equal(htmlFileName("0123456789abcdef"), "diagnosis-01234567.html");
});

Deno.test.each([
  { name: "lowers headings", given: "# a\n## b", expected: "##### a\n\n###### b" },
  { name: "closes an open fence", given: "```js\nx", expected: "```js\nx\n```" },
  { name: "keeps code blocks unchanged", given: "```\n# a\n<b>\n```", expected: "```\n# a\n<b>\n```" },
  { name: "keeps inline code unchanged", given: "`<b>` <b>", expected: "`<b>` &lt;b&gt;" },
  { name: "removes pictures", given: "![x](http://a)", expected: "\\!\\[x\\](http\\://a)" },
  { name: "lowers an underlined heading", given: "a\n---", expected: "###### a" },
  {
    name: "keeps links to the web",
    given: "[a](http://b/ 'c') <http://d>",
    expected: "[a](<http://b/>) [http\\://d](<http://d>)",
  },
  {
    name: "drops all other links",
    given: "[a](javascript:b) [c](file:///d) [e](f)",
    expected: "\\[a\\](javascript:b) \\[c\\](file\\:///d) e",
  },
  {
    name: "keeps tables",
    given: "|a|b|\n|:-|-:|\n|`x\\|y`|*z*|",
    expected: "| a | b |\n| :--- | ---: |\n| `x\\|y` | *z* |",
  },
  {
    name: "keeps nested lists",
    given: "1. a\n   - b\n\n     c\n2. d",
    expected: "1. a\n   - b\n\n     c\n2. d",
  },
  { name: "keeps quotes", given: "> a\n> - b", expected: "> a\n>\n> - b" },
  {
    name: "escapes tags after a bare address",
    given: "http://a<b> www.a`<b>`",
    expected: "http\\://a&lt;b&gt; www\\.a`<b>`",
  },
  { name: "keeps rules", given: "a\n\n---\n\nb", expected: "a\n\n***\n\nb" },
  { name: "keeps code with backticks in it", given: "``a`b`` `` ` ``", expected: "``a`b`` `` ` ``" },
  { name: "does not read a character reference as a line end", given: "a&#10;# b", expected: "a \\# b" },
  {
    name: "shows too deeply nested text as a code block",
    given: `${">".repeat(200)}a`,
    expected: `\`\`\`\n${">".repeat(200)}a\n\`\`\``,
  },
  { name: "keeps lists", given: "- a\n- b", expected: "- a\n- b" },
  { name: "drops control characters", given: "a\u001b[31mb\u0000", expected: "a\\[31mb" },
])("embedded() $name", ({ given, expected }) => {
  assert.equal(embedded(given), expected);
});

Deno.test("inline() returns one line without Markdown syntax", () => {
  assert.equal(inline("a\n# <b>*c*|[d](e)`"), "a \\# &lt;b&gt;\\*c\\*\\|\\[d\\](e)\\`");
});

Deno.test("fenced() cannot be closed by its content", () => {
  assert.equal(fenced("````\nx\n"), "`````\n````\nx\n`````");
});

/** The elements that an HTML parser finds in a report around a text. */
function readReport(text: string) {
  const report = `### Someone\n\n${embedded(text)}\n\n## After\n`;
  const tokens = markdownIt("commonmark", { html: true, maxNesting: 1000 }).enable("table").parse(report, {});
  const all = tokens.flatMap((token) => [token, ...token.children ?? []]);
  const live = all.filter(({ type }) => /^html_|^image$/.test(type)).map(({ content }) => content);
  const headings = tokens.flatMap((token, index) =>
    token.type === "heading_open" ? [`${token.level} ${token.tag} ${tokens[index + 1]?.content}`] : []
  );
  return { report, live, headings };
}

const IMG = "<img src=http://evil.test/x>";

Deno.test.each([
  { name: "a code span that opens after an escaped backtick", given: `\\\` ${IMG} \`` },
  { name: "a code span with fewer backticks on its other side", given: `\`a\`\` ${IMG} \`\`b` },
  { name: "a code span over two lines", given: `\`a\n\` ${IMG} \`b\`` },
  { name: "a fence in a list, which ends with its item", given: `- a\n  \`\`\`\n  b\n\n${IMG}` },
  { name: "a fence after a list's bullet", given: `- \`\`\`\n  b\n\n${IMG}\n\n\`\`\`` },
  { name: "a fence in a quote", given: `> \`\`\`\n\n${IMG}` },
  { name: "a fence that a tab indents", given: `1. a\n\n\t\`\`\`\n\tb\n\n${IMG}` },
  { name: "a tilde fence with trailing backticks", given: `~~~ \`\n${IMG}\n~~~\n${IMG}` },
  { name: "an HTML comment", given: `<!-- a\n\n${IMG}` },
  { name: "an HTML block", given: `<details><summary>a\n\n${IMG}` },
  { name: "a processing instruction", given: "<?a\n\nb" },
  { name: "a picture by reference", given: "![a][b]\n\n[b]: http://evil.test/x" },
  { name: "a picture in a table", given: "|a|\n|-|\n|![b](http://evil.test/x)|" },
  { name: "a picture in a link", given: "[![a](http://evil.test/x)](http://b)" },
])("embedded() contains the effects of $name", ({ given }) => {
  const { live, headings, report } = readReport(given);
  assert.deepEqual(live, [], report);
  assert.deepEqual([headings[0], headings.at(-1)], ["0 h3 Someone", "0 h2 After"], report);
});

Deno.test("embedded() contains the effects of any mixture of marks", () => {
  const piece = fc.constantFrom(
    ..."`,``,```,~~~,\n,\n\n,\t, ,    ,- ,1. ,> ,# ,---,===,*,**,_,|,|-|-|,[,](,),!,<,>,\\,&#10;,&lt;,&#96;,<b>,<!--,-->,a,b c,http://x,:,[a]: http://y,{,}"
      .split(","),
    IMG,
  );
  fc.assert(
    fc.property(fc.array(piece, { maxLength: 40 }), (pieces) => {
      const { live, headings, report } = readReport(pieces.join(""));
      assert.deepEqual(live, [], report);
      assert.deepEqual([headings[0], headings.at(-1)], ["0 h3 Someone", "0 h2 After"], report);
      for (const heading of headings.slice(1, -1)) assert.match(heading, /^\d+ h[56] /, report);
    }),
    { numRuns: 5000 },
  );
});

Deno.test.each(
  ["_a", "**a", "[](", "> - ", "1. ", "`", "<a ", "|a", "*a_ ", "[a]: <b>\n"].map((unit) => ({ unit })),
)(
  "embedded() takes linear time for endless $unit",
  ({ unit }) => assertLinearWork((size) => embedded(unit.repeat(size)), 2_000),
);
