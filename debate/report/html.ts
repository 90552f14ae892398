import markdownIt from "markdown-it";
import type { ReadRecord } from "../runs/record.ts";
import { renderParts } from "./report.ts";
import { textsFor } from "./texts.ts";

const PARSER = markdownIt("commonmark", { maxNesting: 100 }).enable("table").disable([
  "html_block",
  "html_inline",
  "image",
]);

export function htmlFileName(runId: string): string {
  return `diagnosis-${runId.slice(0, 8)}.html`;
}

/** A self-contained page that loads nothing. */
export function renderHtml(record: ReadRecord): string {
  const { language, noTopic } = textsFor(record.language ?? "");
  const parts = renderParts(record);
  const [heading, answer, details] = [parts.title, parts.answer, parts.details].map((part) =>
    PARSER.render(part)
  );
  return `<!doctype html>
<html lang="${language}">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="content-security-policy" content="default-src 'none'; style-src 'unsafe-inline'">
<title>${escapeHtml(record.title ?? record.topic ?? noTopic)}</title>
<style>${STYLE}</style>
</head>
<body>
<main>
${heading}<section class="answer">${answer}</section>
${details}</main>
</body>
</html>
`;
}

function escapeHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}

const STYLE =
  `:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:60rem;margin:0 auto;padding:1rem;overflow-wrap:anywhere}` +
  `h1{font-size:1.5rem}.answer>ul>li:first-child{font-weight:600}.answer>ul>li:nth-child(2){font-size:1.2rem}` +
  `.answer{border:1px solid;border-top-width:5px;border-radius:8px;padding:1rem}` +
  `h2{font-size:1.1rem}pre{white-space:pre-wrap;border:1px solid #8888;padding:.75rem}` +
  `table{border-collapse:collapse}th,td{border:1px solid #8888;padding:.25rem .75rem;text-align:left}blockquote{margin:0;padding-left:.75rem;border-left:3px solid #8888}`;
