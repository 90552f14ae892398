/**
 * Builtins that run for real. Other tests replace them by stubs. Here, every builtin that the firewall accepts must be
 * harmless: it runs no command, and the command after it runs as if it were alone.
 */
import { type Accepted, believe } from "./belief.ts";
import type { Mismatch } from "./comparison.ts";
import type { Dice } from "./dice.ts";
import { runTexts } from "./shell_runner.ts";
import { BUILTINS, type Shell } from "./shells.ts";

// Builtins for which the firewall accepts only some arguments.
const READ_CLOSELY = "printf test [ exit return ulimit wait".split(" ");

const ARGUMENTS = [
  ..."abcdefghijklmnopqrstuvwxyzACFLMNRSTVX".split("").flatMap((letter) => [`-${letter}`, `+${letter}`]),
  ..."PATH _fw_number PATH=1 _fw_number=1 PATH++ pwn 0 1 2 -1 - -- = != -eq -lt -ne -nt -ot -ef".split(" "),
  ..."x[$(pwn)] x[$(pwn)]=1 x[`pwn`] PATH[$(pwn)] $(pwn) `pwn` PATH[1] %n %d %s %b %c %q %x %f %g %*d %.*s %1$d %5n"
    .split(" ").map((word) => `'${word}'`),
  ..."%(PATH)n %(x)d %% \\u0025n \\U00000025d \\045n \\45d \\x25d \\x125d \\445n %\\nd ] ! ( ) unlimited"
    .split(" ")
    .map((word) => `'${word}'`),
];

/** Texts of two commands that the firewall accepts: a builtin, and `pa`. */
export function* createBuiltinCalls({ below, pick }: Dice): Generator<Accepted> {
  while (true) {
    const name = pick(below(2) === 0 ? READ_CLOSELY : BUILTINS);
    const args = Array.from({ length: below(5) }, () => pick(ARGUMENTS));
    const text = [name === "[" ? "'['" : name, ...args, ...(name === "[" ? ["']'"] : [])].join(" ");
    const belief = believe(`${text};pa`);
    if (belief.kind === "accepted") yield belief.accepted;
  }
}

// Builtins that end the shell or change the state that the next command needs.
const ENDING: ReadonlySet<string> = new Set("break bye continue exit logout return times ulimit".split(" "));

/** The texts whose builtin had a side effect: another command than `pa` ran, or `pa` did not run. */
export async function findMeddling(shell: Shell, texts: readonly Accepted[]): Promise<readonly Mismatch[]> {
  const runs = await runTexts(shell, {
    texts: texts.map(({ text }) => text),
    stubs: new Set(["pa", "pwn"]),
    apart: new Set(texts.keys()),
    asExecutables: true,
  });
  if (runs === undefined) {
    const [only] = texts;
    if (only !== undefined && texts.length === 1) {
      return [{ accepted: only, executed: [["(did not come to its end, or wrote a file)"]] }];
    }
    const middle = Math.ceil(texts.length / 2);
    return [
      ...await findMeddling(shell, texts.slice(0, middle)),
      ...await findMeddling(shell, texts.slice(middle)),
    ];
  }
  return texts.flatMap((accepted, index) => {
    const executed = runs[index]!;
    const isRight = executed.length === 0
      ? ENDING.has(accepted.commands[0]?.[0] ?? "")
      : executed.length === 1 && executed[0]?.join(" ") === "pa";
    return isRight ? [] : [{ accepted, executed }];
  });
}
