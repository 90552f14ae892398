import { cut, linesOf, oneLine } from "./text.ts";
import type { Verdict } from "./state.ts";
import { hypothesisKey, ID, MARKER_LINK, MARKER_WORD } from "./hypothesis_id.ts";
import { findEvidence } from "./extract_hypotheses.ts";
import { findProbability, withoutProbability } from "./probability.ts";

/** A review of one hypothesis. */
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
/** Half a verdict is none: the hypothesis is open. */
const PARTIAL = String
  .raw`(?:partial(?:ly)?|partly|tentative(?:ly)?|provisional(?:ly)?|conditional(?:ly)?|parcial(?:mente)?|provisionalmente|en parte)`;
const PARTLY = String
  .raw`${PARTIAL}[ _-](?:${REJECTED}|${ACCEPTED})|(?:${REJECTED}|${ACCEPTED})[ \t*_\x60,(]{1,6}(?:${PARTIAL}|in part|with reservations|con reservas)`;
const VERDICT = String
  .raw`(?:(?<partly>${PARTLY})|(?<rejected>${REJECTED})|(?<accepted>${ACCEPTED})|(?<needs>${NEEDS}))(?![\p{L}\p{N}_])`;
const DENIED = String
  .raw`(?:(?:is|was|can|est[aá]|puede)[ \t]{1,3})?(?:(?:not|no longer|never|cannot|\p{L}{2,6}n['’]t|ya no|no)[ _-](?:(?:yet|longer|fully|be|es|est[aá]|queda|puede ser|ser)[ _-]){0,2})(?:${ACCEPTED})(?![\p{L}\p{N}_])`;
/** In running text `invalid` usually refers to certificates and input, and a Spanish plural to connections. */
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
/** A further id of a list: `HYPOTHESIS-1, 2 and 3: rejected`. */
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

function adjacent(said: string): RegExp {
  return new RegExp(
    String
      .raw`^${FILLER}{0,12}(?:\[\s?P[^\]\n]{1,24}\]${FILLER}{0,12})?(?:(?:is|was|are|were|all|both|es|est[aá]n?|quedan?|son|todas|ambas|state|status|estado|verdict|veredicto)${FILLER}{1,6}){0,2}\[?${said}`,
    "iu",
  );
}

/** What a line states: behind a label, or as its only word. */
function field(said: string): RegExp {
  return new RegExp(
    String
      .raw`(?:^|\n)[ \t>*_|-]{0,8}(?:(?:state|status|estado|verdict|veredicto|assessment|evaluation|evaluaci[oó]n)[ \t*_\x60]{0,4}[:=]|(?=[\p{L}_*\x60]{1,24}[ \t.*_\x60]{0,4}(?:\n|$)))[ \t*_\x60\[]{0,6}${said}`,
    "iu",
  );
}

/** The marks of a review, in its order; the same hypothesis may occur several times. */
export function parseReview(text: string): readonly ReviewMark[] {
  const entries = findEntries(text);
  return entries.flatMap(({ keys, end }, index) => {
    const limit = Math.min(entries[index + 1]?.start ?? text.length, end + MAX_SEGMENT);
    const said = readSegment(untilHeading(text.slice(end, limit)));
    return keys.map((key) => ({ key, ...said }));
  });
}

interface Entry {
  readonly keys: readonly string[];
  readonly start: number;
  readonly end: number;
}

/** Markers that open a review: at the start of a line, or right before a verdict or probability. Others are mentions. */
function findEntries(text: string): readonly Entry[] {
  const entries: Entry[] = [];
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

/** The further ids of a list, if what is said after it is said of all of them. */
function readList(
  text: string,
  start: number,
): { readonly ids: readonly string[]; readonly end: number } | undefined {
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

function readSegment(segment: string): Omit<ReviewMark, "key"> {
  return { ...readVerdict(segment), evidence: findEvidence(linesOf(segment)) };
}

function readVerdict(segment: string): Omit<ReviewMark, "key" | "evidence"> {
  const stated = ADJACENT.exec(segment.slice(0, 160)) ?? FIELD.exec(segment);
  if (stated !== null) {
    const rest = segment.slice(stated.index + stated[0].length);
    const probability = findProbability(segment) ?? findProbability(rest);
    return { verdict: verdictOf(stated.groups), probability, reason: findReason(segment, rest) };
  }
  const prose = readProse(segment.slice(0, MAX_PROSE)) ?? readDenial(segment);
  return {
    verdict: prose?.verdict,
    probability: findProbability(segment),
    reason: findReason(segment, prose?.rest ?? ""),
  };
}

function verdictOf(groups: Readonly<Record<string, string>> | undefined): Verdict {
  if (groups?.["rejected"] !== undefined) return "rejected";
  return groups?.["accepted"] === undefined ? "needs_evidence" : "accepted";
}

/** The verdict in running text; `undefined` if there are two different ones. */
function readProse(text: string): { readonly verdict: Verdict; readonly rest: string } | undefined {
  let found: { readonly verdict: Verdict; readonly rest: string } | undefined;
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

function readDenial(segment: string): { readonly verdict: Verdict; readonly rest: string } | undefined {
  const denied = DENIED_ADJACENT.exec(segment.slice(0, 160)) ?? DENIED_FIELD.exec(segment);
  return denied === null
    ? undefined
    : { verdict: "needs_evidence", rest: segment.slice(denied.index + denied[0].length) };
}

function findReason(segment: string, rest: string): string {
  const label = REASON.exec(segment);
  if (label !== null) {
    const text = segment.slice(label.index + label[0].length);
    const end = text.search(/\n[ \t]*\n|\n[^\n]{0,12}\[tool:/i);
    return cleanReason(end < 0 ? text : text.slice(0, end));
  }
  // Behind the verdict, or else on the next line.
  const [first = "", second = ""] = linesOf(rest.slice(0, 4 * MAX_REASON));
  return cleanReason(first) || (/^\s{0,3}[\p{L}\p{N}]/u.test(second) ? cleanReason(second) : "");
}

function cleanReason(text: string): string {
  const reason = withoutProbability(text.slice(0, 4 * MAX_REASON));
  return cut(oneLine(reason.replace(/^[\s\]*_:|,.;–—=>)-]{1,20}/, "")), MAX_REASON);
}
