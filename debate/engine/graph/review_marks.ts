import { cutText } from "@gateway/shared/text";
import { linesOf, oneLine } from "./text.ts";
import type { Verdict } from "./state.ts";
import { hypothesisKey, ID, MARKER_LINK, MARKER_WORD } from "./hypothesis_id.ts";
import { findProbability, findProbabilityLine, withoutProbability } from "./probability.ts";
import { citesTool } from "./evidence.ts";

export interface ReviewMark {
  readonly key: string;
  readonly verdict: Verdict | undefined;
  readonly probability: number | undefined;
  readonly reason: string;
  readonly evidence: readonly string[];
}

const MAX_MARKS = 300;
const MAX_LISTED = 20;
const MAX_SEGMENT = 3000;
const MAX_PROSE = 500;
const MAX_REASON = 500;

const REJECTED = String
  .raw`rejected|refuted|falsified|disprove[dn]|discarded|invalid(?:ated)?|(?:rechazad|descartad|refutad|inv[aá]lid|invalidad)[oa]s?`;
const ACCEPTED = String.raw`accepted|confirmed|(?:aceptad|confirmad)[oa]s?`;
const NEEDS = String
  .raw`(?:needs|requires)[_ -](?:more[_ -])?evidence|(?:necesita|requiere)[_ -](?:m[aá]s[_ -])?evidencias?|inconclusive|no[_ -]concluyente`;
/** A partial verdict leaves the hypothesis open. */
const PARTIAL = String
  .raw`(?:partial(?:ly)?|partly|tentative(?:ly)?|provisional(?:ly)?|conditional(?:ly)?|parcial(?:mente)?|provisionalmente|en parte)`;
const PARTLY = String
  .raw`${PARTIAL}[ _-](?:${REJECTED}|${ACCEPTED})|(?:${REJECTED}|${ACCEPTED})[ \t*_\x60,(]{1,6}(?:${PARTIAL}|in part|with reservations|con reservas)`;
const VERDICT = String
  .raw`(?:(?<partly>${PARTLY})|(?<rejected>${REJECTED})|(?<accepted>${ACCEPTED})|(?<needs>${NEEDS}))(?![\p{L}\p{N}_])`;
const DENIED = String
  .raw`(?:(?:is|was|can|est[aá]|puede)[ \t]{1,3})?(?:(?:not|no longer|never|cannot|\p{L}{2,6}n['’]t|ya no|no)[ _-](?:(?:yet|longer|fully|be|es|est[aá]|queda|puede ser|ser)[ _-]){0,2})(?:${ACCEPTED})(?![\p{L}\p{N}_])`;
/** Verdicts in running text. `invalid` there usually refers to certificates or input, and a Spanish plural to connections. */
const PROSE_VERDICT = new RegExp(String.raw`(?<![\p{L}\p{N}_])${VERDICT}`, "giu");

const MARK = new RegExp(
  [
    String
      .raw`\[[ \t]?${MARKER_WORD}[ \t]?[:=][ \t]?(?<bracketed>${ID}(?:[ \t]?[,;/&][ \t]?(?:H-?)?\d{1,6}){0,20})[ \t]?\]`,
    String.raw`(?<![\p{L}\p{N}_])${MARKER_WORD}${MARKER_LINK}(?<plain>${ID})`,
    String.raw`(?<=(?:^|\n)[ \t>*#_|.)\-]{0,12})(?<bare>H-?\d{1,6})(?![\p{L}\p{N}_-])`,
  ].join("|"),
  "giu",
);
/** The next ID of a list, such as `HYPOTHESIS-1, 2 and 3: rejected`. */
const ANOTHER = new RegExp(
  String
    .raw`(?:[ \t*_]{0,6}[,;/&+][ \t]{0,3}(?:(?:and|y|e)[ \t])?|[ \t*_]{1,6}(?:and|y|e)[ \t])[ \t*_]{0,4}(?:\[[ \t]?${MARKER_WORD}[ \t]?[:=][ \t]?(?<bracketed>${ID})[ \t]?\]|${MARKER_WORD}${MARKER_LINK}(?<plain>${ID})|(?<bare>(?:H-?)?\d{1,6})(?![\p{L}\p{N}_%-]|[.,]\d))`,
  "iuy",
);
const LINE_START = /(?:^|\n)[ \t>*#_|`.)\d(-]{0,16}$/;
const FILLER = String.raw`[ \t\]*_\x60:|,–—=>(-]`;
const ADJACENT = adjacent(VERDICT);
const FIELD = field(VERDICT);
const DENIED_ADJACENT = adjacent(DENIED);
const DENIED_FIELD = field(DENIED);
const REASON =
  /(?<![\p{L}\p{N}_])(?:reason|raz[oó]n|motivo|justification|justificaci[oó]n)[ \t*_]{0,4}:[ \t*_]{0,4}/iu;
const DOUBT =
  /(?:^|[^\p{L}])(?:not|\p{L}{2,6}n['’]t|cannot|never|no|nor|neither|without|hardly|nunca|ni|sin|tampoco|jam[aá]s|if|unless|until|would|could|might|may|should|si|podr[ií]an?|deber[ií]an?|hasta)(?![\p{L}])/iu;

function adjacent(pattern: string): RegExp {
  return new RegExp(
    String
      .raw`^${FILLER}{0,12}(?:\[\s?P[^\]\n]{1,24}\]${FILLER}{0,12})?(?:(?:is|was|are|were|all|both|es|est[aá]n?|quedan?|son|todas|ambas|state|status|estado|verdict|veredicto)${FILLER}{1,6}){0,2}\[?${pattern}`,
    "iu",
  );
}

/** Matches a word that follows a label, or that is alone on its line. */
function field(pattern: string): RegExp {
  return new RegExp(
    String
      .raw`(?:^|\n)[ \t>*_|-]{0,8}(?:(?:state|status|estado|verdict|veredicto|assessment|evaluation|evaluaci[oó]n)[ \t*_\x60]{0,4}[:=]|(?=[\p{L}_*\x60]{1,24}[ \t.*_\x60]{0,4}(?:\n|$)))[ \t*_\x60\[]{0,6}${pattern}`,
    "iu",
  );
}

/** The marks of a review in order. A hypothesis may occur several times. */
export function parseReview(text: string): readonly ReviewMark[] {
  const entries = findEntries(text);
  return entries.flatMap(({ keys, end }, index) => {
    const limit = Math.min(entries[index + 1]?.start ?? text.length, end + MAX_SEGMENT);
    const mark = readSegment(untilHeading(text.slice(end, limit)));
    return keys.map((key) => ({ key, ...mark }));
  });
}

/** Markers at the start of a line, or right before a verdict or probability, open a review. Other markers are mentions. */
function findEntries(text: string) {
  const entries: { readonly keys: readonly string[]; readonly start: number; readonly end: number }[] = [];
  for (const match of text.matchAll(MARK)) {
    if (entries.length >= MAX_MARKS) break;
    if (match.index < (entries.at(-1)?.end ?? 0)) continue;
    const end = match.index + match[0].length;
    const isAtStart = match.index === 0 ||
      LINE_START.test(text.slice(Math.max(0, match.index - 20), match.index));
    const list = isAtStart ? readList(text, end) : undefined;
    const opens = isAtStart || ADJACENT.test(text.slice(end, end + 120)) ||
      /^[ \t*_:]{0,6}\[\s?P\s?[=:]/i.test(text.slice(end, end + 16));
    const keys = [...idsOf(match).split(/[,;/&]/), ...list?.ids ?? []].map((id) => hypothesisKey(id.trim()));
    if (opens) entries.push({ keys, start: match.index, end: list?.end ?? end });
  }
  return entries;
}

/** The other IDs of a list, if the text after the list refers to all of them. */
function readList(text: string, start: number) {
  const ids: string[] = [];
  let end = start;
  while (ids.length < MAX_LISTED) {
    ANOTHER.lastIndex = end;
    const match = ANOTHER.exec(text);
    if (match === null) break;
    ids.push(idsOf(match));
    end += match[0].length;
  }
  const after = text.slice(end, end + 120);
  const isOfAll = /^[ \t*_\x60]{0,6}(?:[:|=—–]|->)/.test(after) || ADJACENT.test(after);
  return ids.length > 0 && isOfAll ? { ids, end } : undefined;
}

function idsOf({ groups }: RegExpExecArray): string {
  const { bracketed, plain, bare } = groups ?? {};
  return bracketed ?? plain ?? bare ?? "";
}

function untilHeading(segment: string): string {
  const heading = segment.search(/\n[ \t]{0,3}#{1,6}[ \t]/);
  return heading < 0 ? segment : segment.slice(0, heading);
}

interface FoundVerdict {
  readonly verdict: Verdict;
  /** The text after the verdict. */
  readonly rest: string;
}

function readSegment(segment: string): Omit<ReviewMark, "key"> {
  const stated = findVerdict(segment, ADJACENT, FIELD);
  const found = stated ?? readProse(segment.slice(0, MAX_PROSE)) ??
    findVerdict(segment, DENIED_ADJACENT, DENIED_FIELD);
  return {
    verdict: found?.verdict,
    probability: findProbability(segment) ?? findProbability(stated?.rest ?? ""),
    reason: findReason(segment, found?.rest ?? ""),
    evidence: findEvidence(linesOf(segment)),
  };
}

function findVerdict(segment: string, adjacent: RegExp, field: RegExp): FoundVerdict | undefined {
  const match = adjacent.exec(segment.slice(0, 160)) ?? field.exec(segment);
  return match === null
    ? undefined
    : { verdict: verdictOf(match.groups), rest: segment.slice(match.index + match[0].length) };
}

function verdictOf(groups: Readonly<Record<string, string>> | undefined): Verdict {
  if (groups?.["rejected"] !== undefined) return "rejected";
  return groups?.["accepted"] === undefined ? "needs_evidence" : "accepted";
}

/** The verdict in running text; `undefined` if the text contains different verdicts. */
function readProse(text: string): FoundVerdict | undefined {
  let found: FoundVerdict | undefined;
  for (const match of text.matchAll(PROSE_VERDICT)) {
    const before = text.slice(Math.max(0, match.index - 80), match.index);
    const clause = before.slice(Math.max(...[..."\n.,;:!?()—"].map((end) => before.lastIndexOf(end))) + 1);
    if (DOUBT.test(clause) || /^inv[aá]lid[oa]?$|[oa]s$/i.test(match[0])) continue;
    const verdict = verdictOf(match.groups);
    if (found !== undefined && found.verdict !== verdict) return undefined;
    found ??= { verdict, rest: text.slice(match.index + match[0].length) };
  }
  return found;
}

function findReason(segment: string, rest: string): string {
  const label = REASON.exec(segment);
  if (label !== null) {
    const text = segment.slice(label.index + label[0].length);
    const end = text.search(/\n[ \t]*\n|\n[^\n]{0,12}\[tool:/i);
    return cleanReason(end < 0 ? text : text.slice(0, end));
  }
  // The reason follows the verdict, on the same line or on the next.
  const [first = "", second = ""] = linesOf(rest.slice(0, 4 * MAX_REASON));
  return cleanReason(first) || (/^\s{0,3}[\p{L}\p{N}]/u.test(second) ? cleanReason(second) : "");
}

function cleanReason(text: string): string {
  const reason = withoutProbability(text.slice(0, 4 * MAX_REASON));
  return cutText(oneLine(reason.replace(/^[\s\]*_:|,.;–—=>)-]{1,20}/, "")), MAX_REASON);
}

export interface FoundHypothesis {
  readonly id: string;
  /** The text on one line; empty if the block only lists the ID or repeats the form. */
  readonly text: string;
  readonly probability: number | null;
  readonly evidence: readonly string[];
}

const MAX_FOUND = 20;
const MAX_TEXT = 1000;
const MAX_EVIDENCE = 5;
const MAX_EVIDENCE_TEXT = 400;

/** The part of a line that patterns see. The bound keeps hostile texts from making them slow. */
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

/** The text of a hypothesis in the form of the prompts. */
export const TEXT_FORM = {
  en: "one paragraph: the cause, and how it leads to the symptoms",
  es: "un párrafo: la causa y cómo produce los síntomas",
};

/** Weak models repeat the form instead of filling it in. */
function isForm(text: string): boolean {
  return /^<[^<>]*>$/.test(text) || Object.values(TEXT_FORM).some((form) => text.includes(form));
}

/** The hypotheses of a text in order. An ID may occur twice. */
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

/** Takes the first paragraph as the hypothesis of a first diagnosis that ignores the format; empty for an empty text. */
export function fallbackHypotheses(text: string, round: number): readonly FoundHypothesis[] {
  const lines = linesOf(text).filter((line) => !SECTION.test(line));
  const paragraph = cutText(readParagraph(lines, 0), MAX_TEXT);
  return paragraph === "" || isForm(paragraph)
    ? []
    : [{ id: `R${round}-F1`, text: paragraph, probability: null, evidence: [] }];
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
  const title = withoutProbability(tail).replace(/^[\s:*_–—-]{1,12}|[\s*_]{1,12}$/g, "");
  const text = oneLine(label < 0 && title !== "" ? title : readParagraph(body, Math.max(label, 0)));
  return {
    id,
    text: isForm(text) ? "" : cutText(text, MAX_TEXT),
    probability: findProbability(tail) ?? findProbabilityLine(body) ?? null,
    evidence: findEvidence(body.filter((_, index) => index !== label)),
  };
}

function findEvidence(lines: readonly string[]): readonly string[] {
  const evidence = lines.filter(citesTool).map((line) =>
    cutText(line.slice(0, 4 * MAX_EVIDENCE_TEXT).replace(/^[\s>*•+-]{1,12}/, "").trim(), MAX_EVIDENCE_TEXT)
  );
  return [...new Set(evidence)].slice(0, MAX_EVIDENCE);
}

/** Joins the lines of the first paragraph. An empty line, or a line with another meaning, ends it. */
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
  return cutText(oneLine(paragraph.join(" ")), MAX_TEXT);
}

function isOtherThanText(line: string): boolean {
  return [BULLET, OTHER_LABEL, EARLY_OUT].some((form) => form.test(line.slice(0, LINE_HEAD)));
}
