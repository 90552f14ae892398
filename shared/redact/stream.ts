// Masks secrets in text that arrives in pieces, as a command's output does: a secret is found wherever the
// pieces end. The pieces together equal the result of `createRedactor` for the whole text, with two
// exceptions that mask more:
// - a value whose quote is not closed within 16,384 characters is masked up to its closing quote
// - so is a word of that length that contains the beginning of a secret A stream returns whole lines as soon
// as no secret can have begun in them. It holds at most 16,384 characters of the rest. A rule of the operator
// that can't match a line break works on lines of up to 65,536 characters. Any other rule of the operator
// works on windows of 65,536 characters, and finds secrets of up to half of that length.
import { finish } from "../clock.ts";
import { type Place, Searched } from "./steps.ts";
import {
  compileOwnRules,
  type Findings,
  findSecrets,
  insert,
  markOf,
  maskFound,
  type OwnRule,
  type RedactConfig,
} from "./redact.ts";

/** A text that arrives in pieces. */
export interface RedactStream {
  /** Adds the next piece, and returns the text whose masking is certain. */
  push(text: string): string;
  /** Ends the text, and returns the rest. */
  end(): string;
  /** Ends a text that was truncated, and returns the rest without a possible beginning of a secret. */
  cut(): string;
}

/** Opens a stream for one text. */
export type OpenRedactStream = () => RedactStream;

/** The longest text that a stream of the built-in rules holds. */
export const MAX_HELD = 16_384;
/** The size of a window, in which a rule of the operator is applied. */
const WINDOW = 65_536;
/** The number of characters that are held at the end of a longer word. */
const WORD_TAIL = 1024;
/** The maximum number of characters before a position that a rule examines. */
const CONTEXT = 200;
/** The maximum length of a secret's end mark, if it is longer than one character. */
const REST_LENGTH = 160;

/**
 * The rules of `createRedactor`, for texts that arrive in pieces.
 *
 * @throws {AppError} `invalid_config` that names every pattern that is not RE2
 */
export function createRedactStreams(config: RedactConfig = {}): OpenRedactStream {
  const own = compileOwnRules(config);
  return () => {
    const stages = [
      ...config.disable_defaults === true ? [] : [new CatalogStream()],
      ...own.map((rule) => new OwnStream(rule)),
    ];
    const pass = (last: "end" | "cut") =>
      stages.reduce((text, stage, index) => {
        const given = stage.push(text);
        // Only the first stage holds the original text, whose last word may be incomplete.
        if (last === "cut" && index === 0) {
          const lastWord = Math.max(afterLastBlank(stage.held), stage.held.length - WORD_TAIL);
          stage.held = stage.held.slice(0, lastWord);
        }
        return given + stage[last]();
      }, "");
    return {
      push: (piece) => stages.reduce((text, stage) => stage.push(text), piece),
      end: () => pass("end"),
      cut: () => pass("cut"),
    };
  };
}

/** The built-in rules, applied to whole lines; in a line that is too long, to whole words. */
class CatalogStream {
  held = "";
  /** The end of the text that was returned before. */
  #context = "";
  /** The position in the context and the held text from which hints count. */
  #from = 0;
  /** Until this matches, new pieces cannot make any text certain. */
  #waitsFor: RegExp | undefined;
  /** Matches the end of a secret whose mark was already returned. */
  #rest: RegExp | undefined;

  push(text: string): string {
    this.held += text;
    if (text === "" || this.#isIdle(text)) return "";
    let given = "";
    let isForced = false;
    while (this.#passSecret()) {
      const lines = this.held.lastIndexOf("\n") + 1;
      let [end, seen] = [lines, lines];
      if (this.held.length - lines > MAX_HELD) {
        seen = end = Math.max(lines, afterLastBlank(this.held));
        if (end === 0) [end, seen] = [this.held.length - WORD_TAIL, this.held.length];
      }
      given += this.#give(seen, end, isForced);
      if (this.#rest === undefined && (isForced || this.held.length <= MAX_HELD)) break;
      isForced = this.#rest === undefined;
    }
    return given;
  }

  end(): string {
    if (!this.#passSecret()) return "";
    const text = this.#context + this.held;
    const { found } = finish(findSecrets(new Searched(text), "commands", this.#from));
    return this.#advance(found, this.held.length);
  }

  cut(): string {
    return this.#passSecret() ? this.#give(this.held.length, this.held.length, true) : "";
  }

  #isIdle(text: string): boolean {
    if (this.#rest !== undefined || this.held.length > MAX_HELD) return false;
    return !text.includes("\n") || (this.#waitsFor !== undefined && text.search(this.#waitsFor) < 0);
  }

  /**
   * Drops the rest of a secret whose mark was already returned. Returns `false` if its end has not arrived.
   */
  #passSecret(): boolean {
    if (this.#rest === undefined) return true;
    this.#rest.lastIndex = 0;
    const found = this.#rest.exec(this.held);
    if (found === null) {
      this.held = this.held.slice(-REST_LENGTH);
      return false;
    }
    const end = found.index + found[0].length;
    if (this.#from === this.#context.length) this.#setContext(this.held.slice(0, end));
    this.held = this.held.slice(end);
    this.#rest = undefined;
    return true;
  }

  /**
   * Searches the first `seen` characters, and returns those up to `end` that are certain.
   *
   * @param isForced whether nothing before `end` may be held: a secret that has begun is masked without its end
   */
  #give(seen: number, end: number, isForced: boolean): string {
    this.#waitsFor = undefined;
    const offset = this.#context.length;
    const text = this.#context + this.held.slice(0, seen);
    const { found, open } = finish(
      findSecrets(new Searched(text, false), "commands", this.#from, offset + end),
    );
    const begun = isForced
      ? open.find(({ secret = Infinity }) => secret < offset + end)
      : open[0]?.isCertain === true
      ? open[0]
      : undefined;
    if (begun?.secret !== undefined) {
      insert(found, { ...begun, start: begun.secret, end: offset + end });
      const kept = this.held.slice(Math.max(0, begun.secret + 1 - offset, end - REST_LENGTH));
      const given = this.#advance(found, end, { start: open[0]?.hint ?? 0, end: begun.hint });
      this.#rest = begun.rest;
      this.held = kept;
      return given;
    }
    if (isForced) {
      const given = wholeEnd(found, offset + end);
      return this.#advance(found, given - offset, { start: open[0]?.hint ?? given, end: given });
    }
    this.#waitsFor = open[0]?.rest;
    return this.#advance(found, wholeEnd(found, open[0]?.hint ?? offset + end) - offset);
  }

  /**
   * Returns the masked beginning of the held text.
   *
   * @param lead a form of a secret that has begun there, and is remembered
   */
  #advance(found: Findings["found"], end: number, lead: Place = { start: 0, end: 0 }): string {
    if (end <= 0) return "";
    const offset = this.#context.length;
    const text = this.#context + this.held.slice(0, end);
    const places = found.filter((place) => place.start < text.length && place.end > offset)
      .map((place) => ({ ...place, start: Math.max(place.start, offset) }));
    const given = finish(maskFound(text, places, markOf)).slice(offset);
    this.held = this.held.slice(end);
    if (lead.start >= lead.end) {
      this.#setContext(text);
    } else {
      const begun = text.slice(Math.max(0, lead.start - CONTEXT), lead.end).replace(/\s+/g, " ");
      this.#context = begun.length <= 3 * CONTEXT
        ? begun
        : `${begun.slice(0, 2 * CONTEXT)} ${begun.slice(-CONTEXT)}`;
      this.#from = 0;
    }
    return given;
  }

  #setContext(before: string): void {
    this.#context = before.slice(-CONTEXT);
    this.#from = this.#context.length;
  }
}

/** A rule of the operator, applied to whole lines or, if the rule may match a line break, to windows. */
class OwnStream {
  readonly #rule: OwnRule;
  held = "";

  constructor(rule: OwnRule) {
    this.#rule = rule;
  }

  push(text: string): string {
    this.held += text;
    let end = this.#rule.staysInLine ? this.held.lastIndexOf("\n") + 1 : 0;
    if (end === 0) {
      if (this.held.length <= WINDOW) return "";
      const middle = this.held.length - WINDOW / 2;
      end = this.held.lastIndexOf("\n", middle) + 1 || middle;
      for (const match of this.#rule.matches(this.held)) {
        if (match.start < end) end = Math.max(end, match.end);
      }
    }
    const given = this.#rule.apply(this.held.slice(0, end));
    this.held = this.held.slice(end);
    return given;
  }

  end(): string {
    const given = this.#rule.apply(this.held);
    this.held = "";
    return given;
  }

  cut(): string {
    return this.end();
  }
}

/** The last position up to `end` that no secret contains together with its hint. */
function wholeEnd(found: Findings["found"], end: number): number {
  let whole = end;
  for (const place of found.toSorted((a, b) => b.hint - a.hint)) {
    if (place.hint < whole && place.end > whole) whole = place.hint;
  }
  return whole;
}

/** Index where the last word of a text starts. The word may be empty. */
function afterLastBlank(text: string): number {
  return text.search(/\s\S*$/) + 1;
}
