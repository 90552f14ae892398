/** Commands that differ in a few places from real commands. */
import type { Dice } from "./dice.ts";

const LONGEST = 240;

// Tokens with a meaning for a shell. Each is as likely as a whole run of letters.
const TOKENS = [
  ..."'\"\\$`;|&<>(){}[]*?~#!=-+%^:,./@ \t012é漢",
  "''",
  '""',
  "' '",
  '" "',
  "'\"'",
  '"\'"',
  "'\\''",
  '"\\""',
  '"\\\\"',
  '"\\$"',
  '"$"',
  '"\\a"',
  "&&",
  "||",
  ";;",
  "|&",
  " ; ",
  " | ",
  " # ",
  "2>&1",
  " 2>&1",
  " >&2 ",
  ">&-",
  "<&0",
  ">& 2",
  "$(",
  "$((",
  "${x}",
  "$x",
  "$'",
  '$"',
  "<<",
  " ! ",
  " if ",
  "A=1 ",
  "=~",
  ":~",
  "pa ",
  ";pb ",
  "|pc ",
  "&&'pa'",
  "\u00a0",
  "\u200b",
  "\u0301",
  "😀",
];

// More results than this would displace the seeds.
const KEPT = 2000;

/** A source of mutations that keeps interesting texts and mutates them again. */
export interface Mutator {
  mutate(): string;
  keep(text: string): void;
}

/** Mutates the seeds and the kept texts. */
export function createMutator({ below, pick }: Dice, seeds: readonly string[]): Mutator {
  const kept: string[] = [];
  const source = (): string => kept.length > 0 && below(3) === 0 ? pick(kept) : pick(seeds);
  const cut = (text: string): readonly [string, string, string] => {
    const start = below(text.length + 1);
    const end = Math.min(text.length, start + below(4) + (below(6) === 0 ? below(12) : 0));
    return [text.slice(0, start), text.slice(start, end), text.slice(end)];
  };
  const steps: readonly ((text: string) => string)[] = [
    (text) => cut(text).with(1, pick(TOKENS)).join(""),
    (text) => {
      const [before, at, behind] = cut(text);
      return before + pick(TOKENS) + at + behind;
    },
    (text) => cut(text).with(1, "").join(""),
    (text) => {
      const [before, at, behind] = cut(text);
      return before + at + at + behind;
    },
    (text) => {
      const [before, at, behind] = cut(text);
      const quote = pick(["'", '"']);
      return before + quote + at + quote + behind;
    },
    (text) => {
      const [head] = cut(text);
      const [, middle, tail] = cut(source());
      return head + middle + tail;
    },
    (text) => text + pick([";", " ; ", "&&", " && ", "||", " || ", "|", " | ", " "]) + source(),
    (text) => text.split(/( +)/).map((part) => part.startsWith(" ") && below(3) === 0 ? "\t" : part).join(""),
  ];
  return {
    mutate() {
      let text = source();
      for (let left = 1 + below(3); left > 0; left -= 1) text = pick(steps)(text);
      return text.slice(0, LONGEST);
    },
    keep(text) {
      if (kept.length < KEPT) kept.push(text);
      else kept[below(KEPT)] = text;
    },
  };
}
