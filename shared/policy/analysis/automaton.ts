// What several RE2 patterns match together, decided for all texts at once. The automaton runs the programs that the
// engine compiled, so that its answers hold for the engine by construction.
import { RE2JS } from "re2js";

/** Operations of the engine's programs. */
const [ALT, ALT_MATCH, CAPTURE, EMPTY_WIDTH, FAIL, MATCH, NOP, RUNE, RUNE1, ANY, ANY_NOT_NEWLINE] = [
  ...[1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11],
] as const;
/** Flags of assertions. */
const [BEGIN_LINE, END_LINE, BEGIN_TEXT, END_TEXT, BOUNDARY, NO_BOUNDARY] = [1, 2, 4, 8, 16, 32] as const;
const FOLD_CASE = 1;
const LAST = 0x10ffff;
const NEWLINE = 10;

interface Instruction {
  readonly op: number;
  readonly out: number;
  readonly arg: number;
  readonly runes: ArrayLike<number>;
  readonly matchRune: (character: number) => boolean;
}

/** The neighbour of a position: the edge of the text, or a kind of character. */
const KINDS = ["edge", "newline", "word", "other"] as const;
type Kind = (typeof KINDS)[number];

/** Characters that no instruction distinguishes. */
interface Symbol {
  readonly example: string;
  readonly character: number;
  readonly kind: Kind;
}

interface Node {
  readonly before: Kind;
  /** Groups that have matched; a match anywhere in the text stays a match. */
  readonly matched: Groups;
  /** Instructions that read a character, assert or match, sorted. */
  readonly pcs: readonly number[];
  readonly text: string;
}

type Groups = ReadonlySet<number>;

/** What a search looks for. */
export interface Goal {
  /** A group without which no text is of interest; the search of a pattern with ^ is faster with it. */
  readonly needs?: number;
  /** Whether longer texts are of interest: `matched` groups have matched, `alive` ones can still match. */
  readonly hope: (matched: Groups, alive: Groups) => boolean;
  /** Gets the groups that match the text. The search is over when it returns true. */
  readonly visit: (text: string, matched: Groups) => boolean;
}

/** A pattern, and the group that matches if any of its patterns matches. */
export interface GroupedPattern {
  readonly source: string;
  readonly group: number;
}

/** Patterns that are searched in one text together. */
export class Automaton {
  readonly #instructions: Instruction[];
  readonly #groups: number[];
  readonly #starts: (readonly number[])[];
  /** Instructions from which a match can begin after the first character. */
  readonly #restarts: number[] = [];
  readonly #symbols: readonly Symbol[];
  readonly #needsKind: boolean;

  /**
   * @param base an automaton whose patterns are searched, too
   * @throws {Error} if the engine rejects a pattern
   */
  constructor(patterns: readonly GroupedPattern[], base?: Automaton) {
    this.#instructions = base === undefined ? [] : [...base.#instructions];
    this.#groups = base === undefined ? [] : [...base.#groups];
    this.#starts = base === undefined ? [] : [...base.#starts];
    for (const { source, group } of patterns) {
      const { inst, start } = RE2JS.compile(source, 0).re2Input.prog;
      const offset = this.#instructions.length;
      for (const each of inst as Instruction[]) {
        const { op, out, arg, runes } = each;
        const isJump = op === ALT || op === ALT_MATCH;
        this.#instructions.push({
          ...{ op, runes, out: out + offset, arg: isJump ? arg + offset : arg },
          matchRune: (character) => each.matchRune(character),
        });
        this.#groups.push(group);
      }
      this.#starts.push(this.#expand([start + offset]));
    }
    const asserts = this.#instructions.filter(({ op }) => op === EMPTY_WIDTH);
    this.#needsKind = asserts.some(({ arg }) => (arg & ~(BEGIN_TEXT | END_TEXT)) !== 0);
    this.#symbols = symbolsOf(this.#instructions);
    this.#restarts = this.#starts.flat().filter((pc) => {
      const { op, arg } = this.#at(pc);
      return op !== EMPTY_WIDTH || (arg & BEGIN_TEXT) === 0;
    });
  }

  /** Whether a group matches only from the start of a text. */
  isAnchored(group: number): boolean {
    return !this.#restarts.some((pc) => this.#groups[pc] === group);
  }

  /**
   * Visits texts in order of length, one for each state of the automaton, until the goal ends the search. A state
   * distinguishes the texts that longer patterns and assertions distinguish, so no combination of groups is missed.
   *
   * @returns false if the search was given up after `limit` states
   */
  search(goal: Goal, limit: number): boolean {
    const seen = new Set<string>();
    const start: Node = { before: "edge", matched: new Set(), pcs: this.#starts.flat(), text: "" };
    let level = [start];
    while (level.length > 0) {
      const next: Node[] = [];
      for (const node of level) {
        const atEnd = this.#close(node, "edge");
        if (goal.visit(node.text, atEnd.matched)) return true;
        const closed = new Map<Kind, Closed>();
        for (const symbol of this.#symbols) {
          const here = closed.get(symbol.kind) ?? this.#close(node, symbol.kind);
          closed.set(symbol.kind, here);
          if (goal.needs !== undefined && this.#cannotMatch(goal.needs, here, symbol)) continue;
          const following = this.#step(here, symbol, node.text);
          const key = `${following.before}|${[...following.matched].join()}|${following.pcs.join()}`;
          if (seen.has(key)) continue;
          seen.add(key);
          const alive = new Set(following.pcs.map((pc) => this.#groups[pc] ?? 0));
          if (!goal.hope(following.matched, alive)) continue;
          if (seen.size > limit) return false;
          next.push(following);
        }
      }
      level = next;
    }
    return true;
  }

  #cannotMatch(group: number, { matched, pcs }: Closed, { character }: Symbol): boolean {
    return !matched.has(group) && this.isAnchored(group) &&
      !pcs.some((pc) => this.#groups[pc] === group && reads(this.#at(pc), character));
  }

  #at(pc: number): Instruction {
    const instruction = this.#instructions[pc];
    if (instruction === undefined) throw new RangeError(`no instruction ${pc}`);
    return instruction;
  }

  /** Follows jumps. */
  #expand(from: readonly number[]): readonly number[] {
    const found = new Set<number>();
    const seen = new Set<number>();
    const open = [...from];
    for (let pc = open.pop(); pc !== undefined; pc = open.pop()) {
      if (seen.has(pc)) continue;
      seen.add(pc);
      const { op, out, arg } = this.#at(pc);
      if (op === ALT || op === ALT_MATCH) open.push(out, arg);
      else if (op === NOP || op === CAPTURE) open.push(out);
      else if (op !== FAIL) found.add(pc);
    }
    return [...found];
  }

  /** Follows the assertions that hold between two neighbours, and collects the groups that match here. */
  #close({ before, matched, pcs }: Node, after: Kind): Closed {
    const holds = assertionsBetween(before, after);
    const found = new Set(matched);
    const seen = new Set<number>();
    const open = [...pcs];
    for (let pc = open.pop(); pc !== undefined; pc = open.pop()) {
      if (seen.has(pc)) continue;
      seen.add(pc);
      const { op, out, arg } = this.#at(pc);
      if (op === MATCH) found.add(this.#groups[pc] ?? 0);
      if (op === EMPTY_WIDTH && (arg & ~holds) === 0) open.push(...this.#expand([out]));
    }
    return { matched: found, pcs: [...seen] };
  }

  #step({ matched, pcs }: Closed, symbol: Symbol, text: string): Node {
    const read = pcs.filter((pc) => reads(this.#at(pc), symbol.character));
    const next = this.#expand(read.map((pc) => this.#at(pc).out));
    const following = [...new Set([...next, ...this.#restarts])]
      .filter((pc) => !matched.has(this.#groups[pc] ?? 0))
      .sort((left, right) => left - right);
    return {
      before: this.#needsKind ? symbol.kind : "other",
      matched: new Set([...matched].sort((left, right) => left - right)),
      pcs: following,
      text: text + symbol.example,
    };
  }
}

type Closed = Pick<Node, "matched" | "pcs">;

function reads({ op, matchRune }: Instruction, character: number): boolean {
  if (op === ANY) return true;
  if (op === ANY_NOT_NEWLINE) return character !== NEWLINE;
  return (op === RUNE || op === RUNE1) && matchRune(character);
}

/** The flags of the assertions that hold between two neighbours. */
function assertionsBetween(before: Kind, after: Kind): number {
  const isBoundary = (before === "word") !== (after === "word");
  return (before === "edge" ? BEGIN_TEXT | BEGIN_LINE : 0) | (before === "newline" ? BEGIN_LINE : 0) |
    (after === "edge" ? END_TEXT | END_LINE : 0) | (after === "newline" ? END_LINE : 0) |
    (isBoundary ? BOUNDARY : NO_BOUNDARY);
}

const WORD = /\w/;

function kindOf(character: number): Kind {
  if (character === NEWLINE) return "newline";
  return WORD.test(String.fromCodePoint(character)) ? "word" : "other";
}

/** One example of each class of characters that the instructions distinguish. Surrogates and NUL are no text. */
function symbolsOf(instructions: readonly Instruction[]): readonly Symbol[] {
  const distinct = new Map<string, Instruction>();
  for (const each of instructions) {
    if (each.op === RUNE || each.op === RUNE1) {
      distinct.set(`${each.arg & FOLD_CASE} ${[...Array.from(each.runes)]}`, each);
    }
  }
  const edges = new Set([1, NEWLINE, NEWLINE + 1, 48, 58, 65, 91, 95, 96, 97, 123, 0xd800, 0xe000]);
  for (const { runes, arg } of distinct.values()) {
    const isFolded = runes.length === 1 && (arg & FOLD_CASE) !== 0;
    const ends = isFolded ? foldings(runes[0] ?? 0).flatMap((each) => [each, each]) : Array.from(runes);
    if (ends.length === 1) ends.push(ends[0] ?? 0);
    ends.forEach((end, index) => edges.add(index % 2 === 0 ? end : end + 1));
  }
  const examples = new Map<string, Symbol>();
  const tests = [...distinct.values()];
  for (const character of [...READABLE, ...edges]) {
    if (character === 0 || character > LAST || (character >= 0xd800 && character < 0xe000)) continue;
    const kind = kindOf(character);
    const key = kind + tests.map((each) => each.matchRune(character) ? "1" : "0").join("");
    if (examples.has(key)) continue;
    examples.set(key, { example: String.fromCodePoint(character), character, kind });
  }
  return [...examples.values()];
}

/** Characters for examples, the best first. */
const READABLE = Array.from(
  "xabcdefghijklmnopqrstuvwyz/ -.=1023456789_:,@ABCDEFGHIJKLMNOPQRSTUVWXYZ+%~",
  (each) => each.codePointAt(0) ?? 0,
);

const foldingsOf = new Map<number, readonly number[]>();

/** The characters that equal one another without regard to case. */
function foldings(character: number): readonly number[] {
  const known = foldingsOf.get(character);
  if (known !== undefined) return known;
  const { inst } = RE2JS.compile(`(?i)\\x{${character.toString(16)}}`, 0).re2Input.prog;
  const folded = (inst as Instruction[]).find(({ op }) => op === RUNE || op === RUNE1);
  const found = Array.from({ length: 0x1e944 }, (_, each) => each).filter((each) =>
    folded?.matchRune(each) === true
  );
  foldingsOf.set(character, found);
  return found;
}
