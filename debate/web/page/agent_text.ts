import { findProbability } from "../../engine/graph/probability.ts";
import type { Verdict } from "../../engine/graph/state.ts";
import { linesOf } from "../../engine/graph/text.ts";

/** A part of an agent's text: Markdown, a hypothesis, a review, or a recommendation to end the debate. */
export interface AgentPart {
  readonly kind: "text" | "hypothesis" | "end" | Verdict;
  /** The ID of the hypothesis. */
  readonly id?: string;
  readonly share?: number | undefined;
  /** Markdown. */
  readonly text: string;
}

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
const BULLET = /^[-*+] /;
const FENCE = /^\s{0,3}(?:```|~~~)/;

interface Open {
  readonly part: Omit<AgentPart, "text">;
  readonly lines: string[];
}

/**
 * Splits an agent's text at the markers of hypotheses, reviews and the end of the debate. A block ends at an empty line
 * that no evidence follows. All other text is unchanged, also a marker in another form or in a code block.
 */
export function readAgentText(text: string): readonly AgentPart[] {
  let last: Open = { part: { kind: "text" }, lines: [] };
  const parts = [last];
  let isCode = false;
  for (const line of linesOf(text)) {
    if (FENCE.test(line)) isCode = !isCode;
    const { kind } = last.part;
    const isEnd = END.test(line);
    const isAfterGap = last.lines.at(-1)?.trim() === "" && line.trim() !== "";
    const endsBlock = isEnd || (isAfterGap && !BULLET.test(line) && !LABEL.test(line));
    const continues = kind === "end" ? isEnd : kind === "text" || isCode || FENCE.test(line) || !endsBlock;
    const begun = isCode ? undefined : begin(line);
    if (begun === undefined && continues) last.lines.push(line);
    else parts.push(last = begun ?? { part: { kind: "text" }, lines: [line] });
  }
  return parts.map(finish).filter(({ kind, text }) => kind !== "text" || text !== "");
}

/** A marker is at the start of its line. */
function begin(line: string): Open | undefined {
  const head = line.slice(0, 200);
  const [, id, share] = HYPOTHESIS.exec(head) ?? [];
  if (id !== undefined) return { part: { kind: "hypothesis", id, share: shareOf(share) }, lines: [] };
  const [marker = "", reviewed, verdict, own] = REVIEW.exec(head) ?? [];
  if (reviewed !== undefined) {
    const lower = verdict?.toLowerCase();
    const kind = lower === "accepted" || lower === "rejected" ? lower : "needs_evidence";
    const rest = line.slice(marker.length);
    return { part: { kind, id: reviewed, share: shareOf(own) }, lines: rest === "" ? [] : [rest] };
  }
  const isEnd = /^EARLY_OUT_RECOMMENDED: ?true\s*$/i.test(head);
  return isEnd ? { part: { kind: "end" }, lines: [] } : undefined;
}

function shareOf(mark: string | undefined): number | undefined {
  return mark === undefined ? undefined : findProbability(mark);
}

function finish({ part, lines }: Open): AgentPart {
  if (part.kind === "text") return { ...part, text: lines.join("\n").replace(/^\n+/, "").trimEnd() };
  if (part.kind !== "end") {
    return { ...part, text: lines.map((line) => line.replace(LABEL, "")).join("\n").trim() };
  }
  const valueOf = (name: string) =>
    lines.find((line) => END.exec(line)?.[1] === name)?.replace(END, "").trim() ?? "";
  return { ...part, share: shareOf(`[P=${valueOf("CONFIDENCE")}]`), text: valueOf("RATIONALE") };
}
