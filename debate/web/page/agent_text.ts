import { findProbability } from "../../engine/graph/probability.ts";
import type { Verdict } from "../../engine/graph/state.ts";

/** A part of an agent's text. The texts are Markdown. */
export type AgentPart =
  | { readonly kind: "text"; readonly text: string }
  | {
    readonly kind: "hypothesis";
    readonly id: string;
    readonly share: number | undefined;
    readonly text: string;
  }
  | {
    readonly kind: "review";
    readonly id: string;
    readonly verdict: Verdict;
    readonly share: number | undefined;
    readonly text: string;
  }
  /** The agent recommends to end the debate. */
  | { readonly kind: "end"; readonly share: number | undefined; readonly text: string };

const ID = String.raw`([\p{L}\p{N}_-]{1,40})`;
const SHARE = String.raw`(\[P ?[=:][^\]]{1,24}\])?`;
const HYPOTHESIS = new RegExp(
  String.raw`^[#*\s]{0,8}(?:HYPOTHESIS|HIP[OÓ]TESIS)-${ID}[*\s]{0,4}${SHARE}[:*\s]{0,4}$`,
  "iu",
);
const REVIEW = new RegExp(
  String
    .raw`^[#*>\s-]{0,8}\[(?:hypothesis|hip[oó]tesis): ?${ID}\][:*\s]{0,4}(accepted|rejected|needs_evidence)(?![\p{L}\p{N}_])[*\s]{0,4}${SHARE}[:.*\s]{0,4}`,
  "iu",
);
const END = /^EARLY_OUT_(RECOMMENDED|CONFIDENCE|RATIONALE): ?/;
const LABEL = /^[*\s]{0,4}(?:text|texto|reason|raz[oó]n|motivo)[*\s]{0,4}:[*\s]{0,4}/i;
/** A line that continues a block after an empty line. */
const CONTINUES = /^(?:[-*+] |[*\s]{0,4}(?:text|texto|reason|raz[oó]n|motivo)[*\s]{0,4}:)/i;
const FENCE = /^\s{0,3}(?:```|~~~)/;
/** Longer lines contain no marker. */
const MAX_MARKER = 200;

/**
 * Splits an agent's text at the markers of hypotheses, reviews and the end of the debate. All other text is unchanged,
 * also a marker in another form or in a code block.
 */
export function readAgentText(text: string): readonly AgentPart[] {
  const parts: AgentPart[] = [];
  const lines = text.replaceAll("\r\n", "\n").split("\n");
  let plain: string[] = [];
  const flush = () => {
    const said = plain.join("\n").replace(/^\n+/, "").trimEnd();
    if (said !== "") parts.push({ kind: "text", text: said });
    plain = [];
  };
  let isCode = false;
  for (let at = 0; at < lines.length; at++) {
    const line = lines[at] ?? "";
    if (FENCE.test(line)) isCode = !isCode;
    const begun = isCode ? undefined : begin(line);
    if (begun === undefined) {
      plain.push(line);
      continue;
    }
    flush();
    const end = begun.kind === "end" ? endOfLines(lines, at) : endOfBlock(lines, at + 1);
    parts.push(
      begun.kind === "end"
        ? readEnd(lines.slice(at, end))
        : { ...begun, text: bodyOf([begun.text, ...lines.slice(at + 1, end)]) },
    );
    at = end - 1;
  }
  flush();
  return parts;
}

function begin(line: string): AgentPart | undefined {
  const head = line.slice(0, MAX_MARKER);
  const [found, id, share] = line.length > MAX_MARKER ? [] : HYPOTHESIS.exec(line) ?? [];
  if (found !== undefined && id !== undefined) {
    return { kind: "hypothesis", id, share: shareOf(share), text: "" };
  }
  const [whole, reviewed, verdict, own] = REVIEW.exec(head) ?? [];
  if (whole !== undefined && reviewed !== undefined) {
    const text = line.slice(whole.length);
    return { kind: "review", id: reviewed, verdict: verdictOf(verdict), share: shareOf(own), text };
  }
  return /^EARLY_OUT_RECOMMENDED: ?true\s*$/i.test(head)
    ? { kind: "end", share: undefined, text: "" }
    : undefined;
}

function shareOf(mark: string | undefined): number | undefined {
  return mark === undefined ? undefined : findProbability(mark);
}

function verdictOf(word = ""): Verdict {
  const lower = word.toLowerCase();
  return lower === "accepted" || lower === "rejected" ? lower : "needs_evidence";
}

/** A block ends at the next marker, and at an empty line that no evidence follows. */
function endOfBlock(lines: readonly string[], from: number): number {
  let isCode = false;
  for (let at = from; at < lines.length; at++) {
    const line = lines[at] ?? "";
    if (FENCE.test(line)) isCode = !isCode;
    if (isCode) continue;
    if (begin(line) !== undefined || END.test(line)) return at;
    if (line.trim() !== "") continue;
    const next = lines.slice(at, at + 4).find((each) => each.trim() !== "") ?? "";
    if (!CONTINUES.test(next)) return at;
  }
  return lines.length;
}

function endOfLines(lines: readonly string[], from: number): number {
  const length = lines.slice(from).findIndex((line) => !END.test(line));
  return length < 0 ? lines.length : from + length;
}

function bodyOf(lines: readonly string[]): string {
  return lines.map((line) => line.replace(LABEL, "")).join("\n").trim();
}

function readEnd(lines: readonly string[]): AgentPart {
  const valueOf = (name: string) =>
    lines.map((line) => END.exec(line)?.[1] === name ? line.slice(line.indexOf(":") + 1).trim() : "")
      .find((value) => value !== "") ?? "";
  return { kind: "end", share: findProbability(`[P=${valueOf("CONFIDENCE")}]`), text: valueOf("RATIONALE") };
}

/** A mark inside a text: the number of a tool call, or a hypothesis. */
export type Mark =
  | { readonly kind: "call"; readonly tool: string; readonly number: number }
  | { readonly kind: "hypothesis"; readonly id: string };

/** The maximum length of a mark without its brackets. */
export const MAX_MARK = 90;

/** Reads the text between two brackets, such as `tool:http_get#2`; `undefined` for other text. */
export function readMark(text: string): Mark | undefined {
  const [, tool, number] = /^tool: ?([\w.-]{1,64}) ?# ?(\d{1,6})$/i.exec(text) ?? [];
  if (tool !== undefined) return { kind: "call", tool, number: Number(number) };
  const [, id] = MENTION.exec(text) ?? [];
  return id === undefined ? undefined : { kind: "hypothesis", id };
}

const MENTION = new RegExp(`^(?:hypothesis|hip[oó]tesis): ?${ID}$`, "iu");
