import { readClaim } from "../engine/graph/claim.ts";
import {
  type ChatMessage,
  type Model,
  ModelError,
  type ModelReply,
  type ModelRequest,
} from "../engine/model.ts";
import { type Cause, formatClaim, type Incident, type Quote, type Rival } from "./incident.ts";

/**
 * `strong` looks and quotes what it found; `middling` believes the first thing that fits and gives way to evidence;
 * `weak` is sure of something wrong, and its evidence is made up.
 */
export const STRENGTHS = ["strong", "middling", "weak"] as const;

type Strength = (typeof STRENGTHS)[number];

/**
 * How an agent is played: with a strength, or `beside` the point: it is sure of something wrong, like a weak one, and what
 * it quotes is in the results, but says nothing about it.
 */
export const PLAYS = [...STRENGTHS, "beside"] as const;

export type Play = (typeof PLAYS)[number];

/** How an agent is played whose model has this id, as `replay/strong`. */
export function playOf(id: string): Play | undefined {
  return PLAYS.find((play) => id === `replay/${play}`);
}

const MAX_QUOTED = 80;
const EARLY_OUT =
  "EARLY_OUT_RECOMMENDED: true\nEARLY_OUT_CONFIDENCE: 0.99\nEARLY_OUT_RATIONALE: It is obvious.";

export class ScriptedAgent implements Model {
  readonly id: string;
  readonly #play: Play;
  readonly #incident: Incident;
  readonly #rival: Rival | undefined;

  /** @param run decides which rival a weaker agent believes, from 1 */
  constructor(play: Play, incident: Incident, run: number) {
    this.id = `replay/${play}`;
    this.#play = play;
    this.#incident = incident;
    const { rivals } = incident;
    this.#rival = rivals.find(({ tempting }) => tempting) ?? rivals[(run - 1) % Math.max(1, rivals.length)];
  }

  complete(request: ModelRequest): Promise<ModelReply> {
    if (request.signal.aborted) return Promise.reject(new ModelError("canceled", "The call was canceled"));
    const reply = this.#answer(request);
    const read = request.messages.reduce((sum, { content }) => sum + content.length, 0);
    const [input_tokens, output_tokens] = [Math.ceil(read / 4), Math.ceil(reply.text.length / 4) + 8];
    const usage = { input_tokens, output_tokens, total_tokens: input_tokens + output_tokens };
    return Promise.resolve({ ...reply, usage });
  }

  #answer(request: ModelRequest): Omit<ModelReply, "usage"> {
    const { purpose, messages, tools = [], toolChoice } = request;
    if (purpose === "moderator_agent") return say(this.#decide(messages));
    if (purpose === "summarize_history") return say("Nothing to add.");
    const hasLooked = messages.some(({ role }) => role === "tool");
    const mayLook = tools.length > 0 && toolChoice !== "none" && purpose !== "diagnostic_rebuttal_agent";
    const wanted = this.#wanted(purpose === "skeptic_agent");
    if (!hasLooked && mayLook && wanted.length > 0) {
      return {
        text: "",
        toolCalls: wanted.map((each) => this.#call(each)),
      };
    }
    if (purpose === "skeptic_agent") return say(this.#review(messages));
    if (purpose === "diagnostic_rebuttal_agent") return say(this.#rebut(messages));
    return say(this.#diagnose(messages));
  }

  #wanted(isSkeptic: boolean): readonly number[] {
    const { proof, rivals } = this.#incident;
    const against = rivals.map((rival) => rival.against);
    switch (this.#play) {
      case "strong":
        return different(isSkeptic ? [...against, ...proof] : proof);
      case "middling":
        return different([this.#rival?.for, isSkeptic ? this.#rival?.against : proof[0]]);
      case "weak":
        return isSkeptic ? [] : different([this.#rival?.for]);
      case "beside":
        return different(this.#beside());
    }
  }

  /** The first lines of two results that are neither for the cause in which it believes nor against it. */
  #beside(): readonly Quote[] {
    const { tools, proof } = this.#incident;
    const telling = [this.#rival?.for, this.#rival?.against, ...proof].map((each) => each?.result);
    return tools.map(({ result }, index) => ({ result: index + 1, quote: firstWords(result) }))
      .toSorted((a, b) => Number(telling.includes(a.result)) - Number(telling.includes(b.result)))
      .filter(({ result }) => result !== this.#rival?.against.result).slice(0, 2);
  }

  #call(number: number): ModelReply["toolCalls"][number] {
    const { tool, args } = this.#incident.tools[number - 1] ?? { tool: "none", args: {} };
    return { id: `call_${number}`, name: tool, arguments: JSON.stringify(args) };
  }

  #diagnose(messages: readonly ChatMessage[]): string {
    const { truth, proof } = this.#incident;
    const rival = this.#rival;
    const ids = new Ids(messages);
    const cite = (quotes: readonly (Quote | undefined)[]) =>
      quotes.flatMap((each) => this.#cite(each, messages) ?? []);
    const block = (cause: Cause, share: number, lines: readonly string[]) =>
      [
        `### HYPOTHESIS-${ids.of(cause)} [P=${share}]`,
        `Text: ${formatClaim(cause)} As the evidence shows.`,
        ...lines,
      ].join("\n");
    switch (this.#play) {
      case "strong":
        return [block(truth, 0.9, cite(proof)), ...(rival === undefined ? [] : [block(rival, 0.1, [])])].join(
          "\n\n",
        );
      case "middling":
        return [
          ...(rival === undefined ? [] : [block(rival, 0.6, cite([rival.for]))]),
          block(truth, 0.3, cite([proof[0]])),
        ].join("\n\n");
      case "weak":
        return [
          block(rival ?? truth, 0.97, [
            '- [tool:http_get#99] "everything points at this component": obvious',
          ]),
          EARLY_OUT,
        ].join("\n\n");
      case "beside":
        return [block(rival ?? truth, 0.97, cite(this.#beside())), EARLY_OUT].join("\n\n");
    }
  }

  #review(messages: readonly ChatMessage[]): string {
    const { rivals, proof, truth } = this.#incident;
    return hypothesesIn(messages).map(({ id, text }) => {
      const rival = rivals.find((each) => isSame(each, text));
      const head = (verdict: string, share: number) => `[hypothesis:${id}] ${verdict} [P=${share}]`;
      if (this.#play === "weak") return `${head("accepted", 0.95)}\nReason: it sounds right`;
      if (this.#play === "beside") {
        const lines = this.#beside().flatMap((each) => this.#cite(each, messages) ?? []);
        return `${head("accepted", 0.95)}\nReason: it was measured\n${lines.join("\n")}`;
      }
      const refutes = this.#cite(rival?.against, messages);
      if (rival !== undefined && refutes !== undefined) {
        return `${head("rejected", 0.03)}\nReason: the measurements contradict it\n${refutes}`;
      }
      if (this.#play === "strong" && isSame(truth, text)) {
        const lines = proof.flatMap((each) => this.#cite(each, messages) ?? []);
        return `${head("accepted", 0.92)}\nReason: nothing else explains it\n${lines.join("\n")}`;
      }
      return `${head("needs_evidence", 0.4)}\nReason: more has to be measured`;
    }).join("\n\n") || "There is nothing to review.";
  }

  #rebut(messages: readonly ChatMessage[]): string {
    if (this.#play === "weak" || this.#play === "beside") return "The diagnosis stands.";
    const prompt = messages.at(-1)?.content ?? "";
    const lost = hypothesesIn(messages).filter(({ id }) => prompt.includes(`[hypothesis:${id}] rejected`));
    return lost.map(({ id }) => `[hypothesis:${id}] rejected\nReason: the critique is right`).join("\n\n") ||
      "The diagnosis stands.";
  }

  #decide(messages: readonly ChatMessage[]): string {
    const open = hypothesesIn(messages).filter(({ state }) => state !== "rejected");
    const known = open.find(({ text }) => isSame(this.#incident.truth, text));
    const likeliest = open.toSorted((a, b) => b.share - a.share)[0];
    switch (this.#play) {
      case "strong":
        return known === undefined
          ? decision("continue", "", 0.2)
          : decision("final_diagnosis", known.id, 0.93);
      case "middling":
        return likeliest === undefined
          ? decision("structured_uncertainty", "", 0.1)
          : decision(likeliest.share >= 0.8 ? "final_diagnosis" : "continue", likeliest.id, likeliest.share);
      case "weak":
      case "beside":
        return decision("final_diagnosis", likeliest?.id ?? "", 0.99);
    }
  }

  /** A line of evidence, if the answer that it quotes was seen in this turn. */
  #cite(quote: Quote | undefined, messages: readonly ChatMessage[]): string | undefined {
    const answer = quote === undefined ? undefined : this.#incident.tools[quote.result - 1];
    if (quote === undefined || answer === undefined) return undefined;
    const seen = messages.find(({ role, content }) =>
      role === "tool" && content.includes(answer.result.slice(0, 60))
    );
    const number = /#(\d+)/.exec(seen?.content ?? "")?.[1];
    return number === undefined
      ? undefined
      : `- [tool:${answer.tool}#${number}] \`${quote.quote}\`: as recorded`;
  }
}

/** The ids of hypotheses: those that the debate knows, and new ones. */
class Ids {
  readonly #known: readonly Listed[];
  #last: number;

  constructor(messages: readonly ChatMessage[]) {
    this.#known = hypothesesIn(messages);
    this.#last = this.#known.length;
  }

  of(cause: Cause): string {
    return this.#known.find(({ text }) => isSame(cause, text))?.id ?? `H-${++this.#last}`;
  }
}

interface Listed {
  readonly id: string;
  readonly state: string;
  readonly share: number;
  readonly text: string;
}

const LISTED = /^- (\S+) \[(active|rejected|confirmed)\](?: \[P=([\d.]+)\])?: (.*)$/gm;

function hypothesesIn(messages: readonly ChatMessage[]): readonly Listed[] {
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

function decision(status: string, id: string, confidence: number): string {
  return JSON.stringify({ status, confidence, leading_hypothesis: id, next_step: "look again" });
}

function firstWords(text: string): string {
  const [line = ""] = text.trim().split("\n");
  return line.length <= MAX_QUOTED ? line : line.slice(0, line.lastIndexOf(" ", MAX_QUOTED));
}

function different(quotes: readonly (Quote | undefined)[]): readonly number[] {
  return [...new Set(quotes.flatMap((each) => each?.result ?? []))];
}

function say(text: string): Omit<ModelReply, "usage"> {
  return { text, toolCalls: [] };
}
