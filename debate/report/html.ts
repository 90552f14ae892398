import markdownIt from "markdown-it";
import { lastDecision, type ReadRecord } from "../runs/record.ts";
import { confidencePartsOf, type Facts, outcomeOf, renderReport } from "./report.ts";
import { fieldsOf, textOf } from "../engine/graph/text.ts";
import { explainEvidence } from "../engine/graph/decision.ts";
import { type Texts, textsFor } from "./texts.ts";

const PARSER = markdownIt("commonmark", { maxNesting: 100 }).enable("table").disable([
  "html_block",
  "html_inline",
  "image",
]);

export function htmlFileName(runId: string): string {
  return `diagnosis-${runId.slice(0, 8)}.html`;
}

export function renderHtml(record: ReadRecord): string {
  const texts = textsFor(record.language ?? "");
  const title = record.title ?? record.topic ?? texts.noTopic;
  // The answer follows the title, which is the first line of every report.
  const report = PARSER.render(renderReport(record))
    .replace("</h1>", (end) => `${end}\n${renderAnswer(record, texts)}`);
  return htmlPage({ language: texts.language, title, style: STYLE }, `<main>\n${report}</main>\n`);
}

/** A self-contained HTML page that loads nothing. */
export function htmlPage(
  { language, title, style }: Readonly<Record<"language" | "title" | "style", string>>,
  body: string,
): string {
  return `<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escapeHtml(title)}</title>
<style>${style}</style>
</head>
<body>
${body}</body>
</html>
`;
}

function renderAnswer(record: ReadRecord, texts: Texts): string {
  const decision = fieldsOf(lastDecision(record.events));
  const grounding = fieldsOf(decision.grounding);
  const lead = record.hypotheses.find(({ id }) => id === grounding.hypothesis_id);
  const facts: Facts = [
    [texts.outcome, outcomeOf(decision, texts) || texts.unknown],
    [texts.leading, lead === undefined ? textOf(decision.leading_hypothesis) : `${lead.id}: ${lead.text}`],
    [texts.confidence, confidencePartsOf(decision, texts).filter((each) => each !== "").join(" – ")],
    [texts.risk, textOf(decision.risk_level)],
    [texts.nextStep, textOf(decision.next_step)],
    [texts.fix, textOf(decision.recommended_fix)],
  ];
  const evidence = (lead?.evidence ?? []).map(({ text, status }) =>
    `<li>${escapeHtml(text)} <i>(${escapeHtml(explainEvidence(status, texts.language))})</i></li>`
  );
  const rows = facts.filter(([, value]) => value !== "").map(([name, value]) =>
    `<dt>${escapeHtml(name)}</dt><dd>${escapeHtml(value)}</dd>`
  );
  const list = evidence.length === 0
    ? ""
    : `<h2>${escapeHtml(texts.evidence)}</h2><ul>${evidence.join("")}</ul>`;
  const imported = record.imported ? `<p><b>${escapeHtml(texts.imported)}</b></p>` : "";
  return `<section class="answer">${imported}<dl>${rows.join("")}</dl>${list}</section>`;
}

export function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

const STYLE =
  `:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}` +
  `h1{font-size:1.5rem}.answer dd:first-of-type{font-weight:600}.answer dd:nth-of-type(2){font-size:1.2rem}@media(max-width:40rem){dl{display:block!important}}` +
  `.answer{border:1px solid;border-top-width:5px;border-radius:8px;padding:1rem}dl{display:grid;grid-template-columns:max-content 1fr;gap:.25rem 1rem;margin:0}` +
  `dt{font-weight:600}dd{margin:0}h2{font-size:1.1rem}pre{white-space:pre-wrap;border:1px solid #8888;padding:.75rem}` +
  `table{border-collapse:collapse}th,td{border:1px solid #8888;padding:.25rem .75rem;text-align:left}blockquote{margin:0;padding-left:.75rem;border-left:3px solid #8888}`;
