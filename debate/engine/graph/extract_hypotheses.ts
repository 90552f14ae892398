import { cut, linesOf, oneLine } from "./text.ts";
import { citesTool } from "./evidence.ts";
import { ID, MARKER_LINK, MARKER_WORD } from "./hypothesis_id.ts";
import { findProbability, findProbabilityLine, withoutProbability } from "./probability.ts";

/** A hypothesis as a diagnosis words it. */
export interface FoundHypothesis {
  readonly id: string;
  /** On one line; empty when the block only lists the id. */
  readonly text: string;
  readonly probability: number | null;
  readonly evidence: readonly string[];
}

const MAX_FOUND = 20;
const MAX_TEXT = 1000;
const MAX_EVIDENCE = 5;
const MAX_EVIDENCE_TEXT = 400;

/** How much of a line is read: patterns see a bounded text, so that nobody can make them slow. */
const LINE_HEAD = 400;

const HEADING = new RegExp(
  String
    .raw`^[\s>*\-\d.)]{0,12}(?:#{2,6}[\s*_]{0,6}|[*_]{2}\s{0,3})(?:\d{1,2}[.):]\s{0,3}[*_]{0,2})?${MARKER_WORD}${MARKER_LINK}(${ID})(.*)$`,
  "iu",
);
const SECTION = /^\s{0,3}##/;
const EARLY_OUT = /^[\s>*_`-]{0,8}EARLY_OUT_/i;
const TEXT_LABEL = /^[\s>*_-]{0,12}(?:Text|Texto)[\s*_]{0,4}:[\s*_]{0,4}(.*)$/i;
const OTHER_LABEL =
  /^[\s>*_-]{0,12}(?:(?:supporting )?evidence|evidencias?|state|estado|probability|probabilidad|inferences?|inferencias?|experiments?|experimentos?)[\s*_]{0,4}:/i;
const BULLET = /^\s{0,12}(?:[-*•+]|\d{1,3}[.)])\s/;

/** The hypotheses of a text, in its order; the same id may occur twice. */
export function extractHypotheses(text: string): readonly FoundHypothesis[] {
  const found: FoundHypothesis[] = [];
  const lines = linesOf(text);
  for (let index = 0; index < lines.length && found.length < MAX_FOUND; index++) {
    const heading = HEADING.exec((lines[index] ?? "").slice(0, LINE_HEAD));
    if (heading === null) continue;
    const end = findEnd(lines, index + 1);
    const id = (heading[1] ?? "").replace(/(?<![-_])[-_]+$/, "");
    if (id !== "") found.push(readBlock(id, heading[2] ?? "", lines.slice(index + 1, end)));
    index = end - 1;
  }
  return found;
}

/**
 * The first paragraph as a hypothesis, for a first diagnosis that follows no form; `undefined` when it is
 * blank.
 */
export function fallbackHypothesis(text: string, round: number): FoundHypothesis | undefined {
  const lines = linesOf(text).filter((line) => !SECTION.test(line));
  const paragraph = cut(readParagraph(lines, 0), MAX_TEXT);
  if (paragraph === "") return undefined;
  return { id: `R${round}-F1`, text: paragraph, probability: null, evidence: [] };
}

function findEnd(lines: readonly string[], start: number): number {
  for (let index = start; index < lines.length; index++) {
    const line = (lines[index] ?? "").slice(0, LINE_HEAD);
    if (SECTION.test(line) || EARLY_OUT.test(line) || HEADING.test(line)) return index;
  }
  return lines.length;
}

function readBlock(id: string, tail: string, body: readonly string[]): FoundHypothesis {
  const label = body.findIndex((line) => TEXT_LABEL.test(line.slice(0, LINE_HEAD)));
  const title = withoutProbability(tail).replace(
    /^[\s:*_–—-]{1,12}|[\s*_]{1,12}$/g,
    "",
  );
  let text: string;
  if (label >= 0) text = readParagraph(body, label);
  else text = title === "" ? readParagraph(body, 0) : title;
  return {
    id,
    text: cut(oneLine(text), MAX_TEXT),
    probability: findProbability(tail) ?? findProbabilityLine(body) ?? null,
    evidence: findEvidence(body.filter((_, index) => index !== label)),
  };
}

export function findEvidence(lines: readonly string[]): readonly string[] {
  const evidence = lines.filter(citesTool).map((line) =>
    cut(line.slice(0, 4 * MAX_EVIDENCE_TEXT).replace(/^[\s>*•+-]{1,12}/, "").trim(), MAX_EVIDENCE_TEXT)
  );
  return [...new Set(evidence)].slice(0, MAX_EVIDENCE);
}

/** From the first line with text up to the next line that is blank or has another meaning, joined to one line. */
function readParagraph(lines: readonly string[], start: number): string {
  const paragraph: string[] = [];
  let length = 0;
  for (let index = start; index < lines.length && length < MAX_TEXT; index++) {
    const whole = lines[index] ?? "";
    const label = TEXT_LABEL.exec(whole.slice(0, LINE_HEAD));
    const isFirst = paragraph.length === 0;
    const line = (isFirst && label !== null ? whole.slice(whole.indexOf(":") + 1) : whole).trim();
    if (line === "" || citesTool(line) || isOtherThanText(line)) {
      if (!isFirst) break;
      if (line === "") continue;
      if (label === null) break;
    }
    paragraph.push(line.slice(0, 2 * MAX_TEXT).replace(/^[*_]{1,3}\s?|\s?[*_]{1,3}$/g, ""));
    length += line.length;
  }
  return cut(oneLine(paragraph.join(" ")), MAX_TEXT);
}

function isOtherThanText(line: string): boolean {
  return BULLET.test(line.slice(0, LINE_HEAD)) || OTHER_LABEL.test(line.slice(0, LINE_HEAD)) ||
    EARLY_OUT.test(line.slice(0, LINE_HEAD));
}
