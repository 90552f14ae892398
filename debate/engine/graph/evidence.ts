/**
 * A line of evidence counts if the cited tool calls exist and succeeded, and if their results contain the quoted
 * words.
 */
import type { CalledTool, Evidence, EvidenceStatus, Grounding, Hypothesis } from "./state.ts";

const MAX_ASKED = 20_000;

/** Prepares a call for later checks. The first line of its result names the request, so it is not evidence. */
export function toCalledTool(
  call: Pick<CalledTool, "number" | "call_id" | "tool_name" | "succeeded">,
  args: Readonly<Record<string, unknown>>,
  result: string,
): CalledTool {
  const body = result.slice(result.indexOf("\n") + 1)
    .replace(/\[\.\.\. \d+ of \d+ characters omitted \.\.\.\]|^\(no output\)$/gm, "\n");
  const asked = toComparable(textsIn(args).join(" ").slice(0, MAX_ASKED));
  return { ...call, found: toComparable(body), asked };
}

function textsIn(value: unknown): readonly string[] {
  if (typeof value === "object" && value !== null) return Object.values(value).flatMap(textsIn);
  return value === null || value === undefined ? [] : [String(value)];
}

const CITATION = /\[tool:\s?([\w.-]{1,64})(?:\s?[#:,\s]\s?(?:call|llamada)?\s?#?(\d{1,6}))?\s?\]/gi;

export function citesTool(line: string): boolean {
  return line.search(CITATION) >= 0;
}

export function citedTools(line: string): readonly string[] {
  return citationsOf(line).map(({ tool }) => tool);
}

/** The citations of a line. A citation without a number means any call of the tool. */
function citationsOf(line: string) {
  return [...line.matchAll(CITATION)].map(([, tool = "", number]) => ({
    tool,
    number: number && Number(number),
  }));
}

export function checkEvidence(text: string, round: number, calls: readonly CalledTool[]): Evidence {
  const { status, used } = check(text, calls);
  // A repeated result, for example from the cache, is not a second result.
  const first = ({ tool_name, found, call_id }: CalledTool) =>
    calls.find((call) => call.succeeded && call.tool_name === tool_name && call.found === found)?.call_id ??
      call_id;
  return { text, round, status, call_ids: [...new Set(used.map(first))] };
}

type Checked = Pick<Evidence, "status"> & { readonly used: readonly CalledTool[] };

function check(text: string, calls: readonly CalledTool[]): Checked {
  const cited = citationsOf(text).map(({ tool, number }) =>
    calls.filter((call) => call.tool_name === tool && (number === undefined || call.number === number))
  );
  // A line that does not count keeps its calls, so that people can check them.
  const used = cited.flatMap((found) => found.slice(-1));
  if (cited.length === 0) return { status: "uncited", used };
  if (cited.some((found) => found.length === 0)) return { status: "no_such_call", used };
  const good = cited.map((found) => found.filter(({ succeeded }) => succeeded));
  if (good.some((found) => found.length === 0)) return { status: "failed_call", used };
  const readings = findQuotes(text.replace(CITATION, " "));
  if (readings.length === 0) return { status: "unquoted", used };
  const results = readings.map((quotes) => checkQuotes(quotes.map(toComparable), good));
  const best = STRENGTH.flatMap((status) => results.find((result) => result.status === status) ?? [])[0];
  return best?.status === "grounded" ? best : { status: best?.status ?? "not_in_result", used };
}

const STRENGTH = ["grounded", "too_little", "not_in_result"] as const satisfies readonly EvidenceStatus[];

/** Each quote must be in a cited result, each cited result must contain a quote, and one quote must be informative. */
function checkQuotes(quotes: readonly string[], cited: readonly (readonly CalledTool[])[]): Checked {
  const holders = cited.map((calls) =>
    calls.findLast(({ found }) => quotes.some((each) => holds(found, each)))
  );
  const used = holders.filter((call) => call !== undefined);
  const isHeld = (quote: string) => cited.flat().some(({ found }) => holds(found, quote));
  if (used.length < cited.length || !quotes.every(isHeld)) return { status: "not_in_result", used };
  const says = quotes.some((quote) =>
    cited.flat().some(({ found, asked }) => holds(found, quote) && isSubstantial(quote, asked))
  );
  return { status: says ? "grounded" : "too_little", used };
}

/** The maximum confidence by grounding level. */
export const CAPS = { none: 0.6, partial: 0.85, full: null } as const satisfies Record<
  Grounding["level"],
  number | null
>;

/**
 * How well a hypothesis is grounded. The level is `full` if all lines that were last stated count and cite at least two
 * results: one measurement can mislead, and a line that does not count casts doubt on the rest. The level is at most
 * `partial` while the skeptic's last review cites a contrary result that no counting line cites.
 */
export function groundingOf(hypothesis: Pick<Hypothesis, "evidence" | "reviews">): Grounding {
  const { evidence } = hypothesis;
  const latest = Math.max(...evidence.map(({ round }) => round));
  const counting = evidence.filter(({ status }) => status === "grounded");
  const broken = evidence.filter(({ status, round }) =>
    status !== "grounded" && (round === latest || counting.length === 0)
  );
  const used = resultsOf(counting);
  const results = used.size;
  const contrary = [...contraryResults(hypothesis)].filter((id) => !used.has(id)).length;
  const isPartial = broken.length > 0 || results < 2 || contrary > 0;
  const level = counting.length === 0 ? "none" : isPartial ? "partial" : "full";
  const failed = broken.filter(({ status }) => status === "failed_call").length;
  const cited = counting.length + broken.length;
  return { level, grounded: counting.length, cited, results, contrary, failed };
}

/** The results that the skeptic's last review cites, unless it accepts. An objection without evidence cites none. */
function contraryResults({ reviews }: Pick<Hypothesis, "reviews">): ReadonlySet<string> {
  const last = reviews.findLast(({ agent }) => agent === "skeptic_agent");
  if (last === undefined || last.verdict === "accepted") return new Set();
  return resultsOf(last.evidence.filter(({ status }) => status === "grounded"));
}

function resultsOf(lines: readonly Evidence[]): ReadonlySet<string> {
  return new Set(lines.flatMap(({ call_ids }) => call_ids));
}

const MAX_QUOTES = 8;
const MARKS: Readonly<Record<string, string>> = {
  "`": "`",
  '"': '"',
  "“": "”",
  "„": "“",
  "«": "»",
  "”": "”",
};

/**
 * The quotes of a line. If a quote contains double quotes, as in JSON, its limits are ambiguous. So a second reading
 * takes everything from the first to the last double quote.
 */
export function findQuotes(line: string): readonly (readonly string[])[] {
  const parts: string[] = [];
  for (let index = 0; index < line.length && parts.length < MAX_QUOTES; index++) {
    const end = line.indexOf(MARKS[line.charAt(index)] ?? "", index + 1);
    if (MARKS[line.charAt(index)] === undefined || end < 0) continue;
    parts.push(line.slice(index + 1, end));
    index = end;
  }
  const first = line.indexOf('"');
  const last = line.lastIndexOf('"');
  if (parts.length === 0) return [];
  return parts.length > 1 && last > first ? [parts, [line.slice(first + 1, last)]] : [parts];
}

/**
 * Normalizes a text for the comparison of quotes, because models change case, spaces, dashes, quotation marks and the
 * composition of characters when they copy. Letters that only look alike stay different.
 */
function toComparable(text: string): string {
  return text.normalize("NFKC").replace(/[\p{Cf}\ufffd"'`´‘’‚‛“”„‟«»‹›\\]/gu, "").replace(/\p{Pd}|−/gu, "-")
    .toLowerCase().replace(/\s+/g, " ").trim();
}

/** Whether a text contains a quote as whole words and numbers, so that `98 MB` is not in `1498 MB`. Both are normalized. */
function holds(text: string, quote: string): boolean {
  if (quote === "") return false;
  for (let at = text.indexOf(quote); at >= 0; at = text.indexOf(quote, at + 1)) {
    const before = text.slice(Math.max(0, at - 2), at);
    const after = text.slice(at + quote.length, at + quote.length + 2);
    if (
      !(continues(before.slice(-1), quote.charAt(0)) || /\d[.,]$/.test(before) && /^\d/.test(quote)) &&
      !(continues(quote.slice(-1), after.charAt(0)) || /^[.,]\d/.test(after) && /\d$/.test(quote))
    ) return true;
  }
  return false;
}

function continues(left: string, right: string): boolean {
  return /[\p{L}\p{N}]/u.test(left) && /[\p{L}\p{N}]/u.test(right);
}

const MIN_CHARACTERS = 8;

/**
 * Whether a quote contains information beyond the arguments of the call. Tools repeat their arguments, so these words
 * prove nothing. The other words need eight letters or digits, in two words or in one with a figure.
 *
 * @param asked the normalized arguments
 */
export function isSubstantial(quote: string, asked: string): boolean {
  const words = quote.split(/[\s|]+/).map((word) =>
    word.replace(/^[^\p{L}\p{N}]+|(?<![^\p{L}\p{N}%])[^\p{L}\p{N}%]+$/gu, "")
  )
    .filter((word) => !asked.includes(word));
  const characters = words.join("").match(/[\p{L}\p{N}]/gu)?.length ?? 0;
  if (characters < MIN_CHARACTERS) return false;
  const telling = new Set(words.filter((word) => word.length > 2 || /\d/.test(word)));
  return telling.size > 1 || words.some((word) => /\d/.test(word) && /\D/.test(word));
}
