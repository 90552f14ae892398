import assert from "node:assert/strict";
import { readRecord } from "../runs/record.ts";
import { htmlFileName, renderHtml } from "./html.ts";

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

Deno.test("renderHtml() is one file that loads nothing and in which nothing foreign is live", () => {
  const text = html();
  const tags = new Set([...text.matchAll(/<([a-z][a-z0-9]*)/gi)].map(([, tag]) => tag));
  for (const tag of ["script", "img", "iframe", "link", "object", "svg"]) assert.ok(!tags.has(tag), tag);
  assert.equal(text.match(/<style>/g)?.length, 1);
  assert.equal(text.match(/<\/style>/g)?.length, 1);
  assert.doesNotMatch(text, /<[^>]*\son\w+=/);
  assert.doesNotMatch(text, /src="|url\(/);
  assert.match(text, /content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'"/);
});

Deno.test("renderHtml() says the answer first, in the language of the run", () => {
  const text = html();
  assert.match(
    text,
    /<h1>[^\n]*<\/h1>\n<section class="answer"><dl><dt>Outcome<\/dt><dd>no confident cause<\/dd><dt>Leading hypothesis<\/dt><dd>H-1: /,
  );
  assert.match(text, /<dt>Confidence<\/dt><dd>60% – 93% was stated; /);
  assert.equal(text.indexOf("</h1>"), text.indexOf('\n<section class="answer">') - "</h1>".length);
  assert.match(html("es"), /<html lang="es">[^]*<dt>Resultado<\/dt><dd>sin causa segura<\/dd>/);
  assert.equal(htmlFileName("0123456789abcdef"), "diagnosis-01234567.html");
});
