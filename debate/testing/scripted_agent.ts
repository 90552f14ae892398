import { readClaim } from "../engine/graph/claim.ts";
import {
  type ChatMessage,
  type Model,
  ModelError,
  type ModelReply,
  type ModelRequest,
} from "../engine/ports.ts";
import type { Cause, Incident } from "../lab/incidents.ts";

export type Quote = Incident["proof"][number];

/**
 * Roles of a scripted agent. `strong` runs the tools and quotes their results. `middling` accepts the first cause
 * that fits and drops it when it sees evidence against it. `weak` insists on a wrong cause with made-up evidence.
 * `beside` insists on a wrong cause with real quotes that are irrelevant. `deny` is `weak`, but rejects every hypothesis
 * in words or with made-up evidence.
 */
export const STRENGTHS = ["strong", "middling", "weak"] as const;
export type AgentKind = (typeof STRENGTHS)[number] | "beside" | "deny";

const MAX_QUOTED = 80;
const EARLY_OUT =
  "EARLY_OUT_RECOMMENDED: true\nEARLY_OUT_CONFIDENCE: 0.99\nEARLY_OUT_RATIONALE: It is obvious.";
const MADE_UP = '- [tool:http_get#99] "everything points at this component": obvious';

/** @param run number from 1; selects the wrong cause of a weaker agent */
export function scriptedAgent(play: AgentKind, incident: Incident, run: number): Model {
  const { truth, proof, rivals, tools } = incident;
  const rival = rivals.find(({ tempting }) => tempting) ?? rivals[(run - 1) % Math.max(1, rivals.length)];
  const isCareless = ["weak", "beside", "deny"].includes(play);

  /** The first lines of two results that are irrelevant for the accepted cause. */
  function irrelevant(): readonly Quote[] {
    const telling = [rival?.for, rival?.against, ...proof].map((each) => each?.result);
    return tools.map(({ result }, index) => ({ result: index + 1, quote: firstWords(result) }))
      .toSorted((a, b) => Number(telling.includes(a.result)) - Number(telling.includes(b.result)))
      .filter(({ result }) => result !== rival?.against.result).slice(0, 2);
  }

  function wantedBy(isSkeptic: boolean): readonly (Quote | undefined)[] {
    switch (play) {
      case "strong":
        return isSkeptic ? [...rivals.map((each) => each.against), ...proof] : proof;
      case "middling":
        return [rival?.for, isSkeptic ? rival?.against : proof[0]];
      case "weak":
      case "deny":
        return isSkeptic ? [] : [rival?.for];
      case "beside":
        return irrelevant();
    }
  }

  /** Evidence lines with quotes from the results of this turn. */
  function cite(messages: readonly ChatMessage[], quotes: readonly (Quote | undefined)[]): readonly string[] {
    return quotes.flatMap((quote) => {
      const answer = quote && tools[quote.result - 1];
      if (answer === undefined) return [];
      const seen = messages.find(({ role, content }) =>
        role === "tool" && content.includes(answer.result.slice(0, 60))
      );
      const number = /#(\d+)/.exec(seen?.content ?? "")?.[1];
      return number === undefined
        ? []
        : [`- [tool:${answer.tool}#${number}] \`${quote?.quote}\`: as recorded`];
    });
  }

  function diagnose(messages: readonly ChatMessage[]): string {
    const known = hypothesesIn(messages);
    let last = known.length;
    const block = (cause: Cause | undefined, share: number, lines: readonly string[]) => {
      if (cause === undefined) return "";
      const id = known.find(({ text }) => isSame(cause, text))?.id ?? `H-${++last}`;
      const text = `Text: ${formatClaim(cause)} As the evidence shows.`;
      return [`### HYPOTHESIS-${id} [P=${share}]`, text, ...lines].join("\n");
    };
    const madeUp = () => [block(rival ?? truth, 0.97, [MADE_UP]), EARLY_OUT];
    const blocks = {
      strong: () => [block(truth, 0.9, cite(messages, proof)), block(rival, 0.1, [])],
      middling: () => [
        block(rival, 0.6, cite(messages, [rival?.for])),
        block(truth, 0.3, cite(messages, [proof[0]])),
      ],
      weak: madeUp,
      deny: madeUp,
      beside: () => [block(rival ?? truth, 0.97, cite(messages, irrelevant())), EARLY_OUT],
    };
    return blocks[play]().filter((each) => each !== "").join("\n\n");
  }

  function review(messages: readonly ChatMessage[]): string {
    return hypothesesIn(messages).map(({ id, text }, index) => {
      const say = (verdict: string, share: number, reason: string, lines: readonly string[] = []) =>
        [`[hypothesis:${id}] ${verdict} [P=${share}]`, `Reason: ${reason}`, ...lines].join("\n");
      if (play === "weak") return say("accepted", 0.95, "it sounds right");
      if (play === "deny") {
        return say("rejected", 0.02, "it is wrong", (index + run) % 2 === 0 ? [MADE_UP] : []);
      }
      if (play === "beside") {
        return `${say("accepted", 0.95, "it was measured")}\n${cite(messages, irrelevant()).join("\n")}`;
      }
      const refutes = cite(messages, [rivals.find((each) => isSame(each, text))?.against]);
      if (refutes.length > 0) return say("rejected", 0.03, "the measurements contradict it", refutes);
      if (play !== "strong" || !isSame(truth, text)) {
        return say("needs_evidence", 0.4, "more has to be measured");
      }
      return `${say("accepted", 0.92, "nothing else explains it")}\n${cite(messages, proof).join("\n")}`;
    }).join("\n\n") || "There is nothing to review.";
  }

  function rebut(messages: readonly ChatMessage[]): string {
    const prompt = messages.at(-1)?.content ?? "";
    const lost = hypothesesIn(messages).filter(({ id, text }) => {
      const against = rivals.find((each) => isSame(each, text))?.against.quote;
      return !isCareless && prompt.includes(`[hypothesis:${id}] rejected`) &&
        against !== undefined && prompt.includes(against);
    });
    return lost.map(({ id }) => `[hypothesis:${id}] rejected\nReason: the critique is right`).join("\n\n") ||
      "The diagnosis stands.";
  }

  function decide(messages: readonly ChatMessage[]): string {
    const listed = hypothesesIn(messages).map(({ id }) => `${id}: it is wrong`);
    const rejected_hypotheses = play === "deny" ? listed : [];
    const say = (status: string, id: string, confidence: number) =>
      JSON.stringify({
        status,
        confidence,
        leading_hypothesis: id,
        next_step: "look again",
        rejected_hypotheses,
      });
    const open = hypothesesIn(messages).filter(({ state }) => state !== "rejected");
    const likeliest = open.toSorted((a, b) => b.share - a.share)[0];
    if (isCareless) return say("final_diagnosis", likeliest?.id ?? "", 0.99);
    if (play === "strong") {
      const known = open.find(({ text }) => isSame(truth, text));
      return known === undefined ? say("continue", "", 0.2) : say("final_diagnosis", known.id, 0.93);
    }
    if (likeliest === undefined) return say("structured_uncertainty", "", 0.1);
    return say(likeliest.share >= 0.8 ? "final_diagnosis" : "continue", likeliest.id, likeliest.share);
  }

  function answer(
    { purpose, messages, tools: offered = [], toolChoice }: ModelRequest,
  ): Omit<ModelReply, "usage"> {
    const say = (text: string) => ({ text, toolCalls: [] });
    if (purpose === "moderator_agent") return say(decide(messages));
    if (purpose === "summarize_history") return say("Nothing to add.");
    if (purpose === "diagnostic_rebuttal_agent") return say(rebut(messages));
    const hasLooked = messages.some(({ role }) => role === "tool");
    const wanted = new Set(wantedBy(purpose === "skeptic_agent").flatMap((each) => each?.result ?? []));
    if (!hasLooked && offered.length > 0 && toolChoice !== "none" && wanted.size > 0) {
      const toolCalls = [...wanted].map((number) => {
        const { tool: name, args } = tools[number - 1] ?? { tool: "none", args: {} };
        return { id: `call_${number}`, name, arguments: JSON.stringify(args) };
      });
      return { text: "", toolCalls };
    }
    return say(purpose === "skeptic_agent" ? review(messages) : diagnose(messages));
  }

  return {
    id: `replay/${play}`,
    complete(request) {
      if (request.signal.aborted) return Promise.reject(new ModelError("canceled", "The call was canceled"));
      const reply = answer(request);
      const read = request.messages.reduce((sum, { content }) => sum + content.length, 0);
      const [input_tokens, output_tokens] = [Math.ceil(read / 4), Math.ceil(reply.text.length / 4) + 8];
      const usage = { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens };
      return Promise.resolve({ ...reply, usage });
    },
  };
}

const LISTED = /^- (\S+) \[(active|rejected|confirmed)\](?: \[P=([\d.]+)\])?: (.*)$/gm;

function hypothesesIn(messages: readonly ChatMessage[]) {
  const prompt = messages.find(({ role }) => role === "user")?.content ?? "";
  return [...prompt.matchAll(LISTED)].map(([, id = "", state = "", share = "0", text = ""]) => (
    { id, state, share: Number(share), text }
  ));
}

function isSame(cause: Cause, text: string): boolean {
  const reading = readClaim(text);
  return reading.kind === "claim" && reading.claim.component === cause.component &&
    reading.claim.fault === cause.fault;
}

function firstWords(text: string): string {
  const [line = ""] = text.trim().split("\n");
  return line.length <= MAX_QUOTED ? line : line.slice(0, line.lastIndexOf(" ", MAX_QUOTED));
}

export function formatClaim({ component, fault, path }: Cause): string {
  const steps = path.length === 0 ? "" : `; path: ${path.join(" > ")}`;
  return `{component: ${component}; fault: ${fault}${steps}}`;
}
