/**
 * Evidence that is checked: a line counts when the tool calls that it cites exist, succeeded, and hold what it quotes.
 * What agents say about tools proves nothing.
 *
 * @module
 */
import { findQuotes, holds, saysSomething, toComparable } from "./quotes.ts";
import type { CalledTool, Evidence, EvidenceStatus, Grounding, Hypothesis } from "./state.ts";

const MAX_ASKED = 20_000;

/** A call for later checks. Its result begins with a line that names the request, which is no finding. */
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

interface Citation {
  readonly tool: string;
  /** `undefined`: any call of the tool. */
  readonly number: number | undefined;
}

/** `[tool:http_get#3]`. */
const CITATION = /\[tool:\s?([\w.-]{1,64})(?:\s?[#:,\s]\s?(?:call|llamada)?\s?#?(\d{1,6}))?\s?\]/gi;

/** Whether a line cites a tool. */
export function citesTool(line: string): boolean {
  return line.search(CITATION) >= 0;
}

/** The names of the tools that a line cites. */
export function citedTools(line: string): readonly string[] {
  return citationsOf(line).map(({ tool }) => tool);
}

function citationsOf(line: string): readonly Citation[] {
  return [...line.matchAll(CITATION)].map(([, tool = "", number]) => ({
    tool,
    number: number === undefined ? undefined : Number(number),
  }));
}

/** Checks a line of evidence against the calls so far. */
export function checkEvidence(text: string, round: number, calls: readonly CalledTool[]): Evidence {
  const { status, used } = check(text, calls);
  // The same result once more, as from the cache, is not a second one.
  const first = ({ tool_name, found, call_id }: CalledTool) =>
    calls.find((call) => call.succeeded && call.tool_name === tool_name && call.found === found)?.call_id ??
      call_id;
  return { text, round, status, call_ids: [...new Set(used.map(first))] };
}

interface Checked {
  readonly status: EvidenceStatus;
  readonly used: readonly CalledTool[];
}

function check(text: string, calls: readonly CalledTool[]): Checked {
  const cited = citationsOf(text).map(({ tool, number }) =>
    calls.filter((call) => call.tool_name === tool && (number === undefined || call.number === number))
  );
  // The calls are told even where the line does not count, so that people can look.
  const used = cited.flatMap((found) => found.slice(-1));
  if (cited.length === 0) return { status: "uncited", used };
  if (cited.some((found) => found.length === 0)) return { status: "no_such_call", used };
  const good = cited.map((found) => found.filter(({ succeeded }) => succeeded));
  if (good.some((found) => found.length === 0)) return { status: "failed_call", used };
  const { parts, whole } = findQuotes(text.replace(CITATION, " "));
  if (parts.length === 0) return { status: "unquoted", used };
  const results = [parts, ...(whole === undefined ? [] : [[whole]])].map((quotes) =>
    checkQuotes(quotes.map(toComparable), good)
  );
  const best = STRENGTH.flatMap((status) => results.find((result) => result.status === status) ?? [])[0];
  return best?.status === "grounded" ? best : { status: best?.status ?? "not_in_result", used };
}

const STRENGTH = ["grounded", "too_little", "not_in_result"] as const satisfies readonly EvidenceStatus[];

/** Every quote has to be in a cited result, every citation has to hold a quote, and one of them has to say something. */
function checkQuotes(quotes: readonly string[], cited: readonly (readonly CalledTool[])[]): Checked {
  const holders = cited.map((calls) =>
    calls.findLast(({ found }) => quotes.some((each) => holds(found, each)))
  );
  const used = holders.filter((call) => call !== undefined);
  const isHeld = (quote: string) => cited.flat().some(({ found }) => holds(found, quote));
  if (used.length < cited.length || !quotes.every(isHeld)) return { status: "not_in_result", used };
  const says = quotes.some((quote) =>
    cited.flat().some(({ found, asked }) => holds(found, quote) && saysSomething(quote, asked))
  );
  return { status: says ? "grounded" : "too_little", used };
}

/** The most confidence without any evidence that counts, and with evidence that leaves something open. */
export const CAPS = { none: 0.6, partial: 0.85, full: null } as const satisfies Record<
  Grounding["level"],
  number | null
>;

/**
 * How well the evidence of a hypothesis stands. It is full when everything that the hypothesis last stated counts, from at
 * least two results: one measurement can mislead, and a line that does not hold casts doubt on the rest. Nor is it full
 * while the skeptic's last word holds a result against it that none of its lines that count cites.
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
  return {
    level,
    grounded: counting.length,
    cited: counting.length + broken.length,
    results,
    contrary,
    failed,
  };
}

/** The results of the skeptic's last word, unless it accepts; an objection in words alone holds nothing. */
function contraryResults({ reviews }: Pick<Hypothesis, "reviews">): ReadonlySet<string> {
  const last = reviews.findLast(({ agent }) => agent === "skeptic_agent");
  if (last === undefined || last.verdict === "accepted") return new Set();
  return resultsOf(last.evidence.filter(({ status }) => status === "grounded"));
}

function resultsOf(lines: readonly Evidence[]): ReadonlySet<string> {
  return new Set(lines.flatMap(({ call_ids }) => call_ids));
}
