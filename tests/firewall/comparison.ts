/** Compares accepted texts with their execution in a shell. */
import {
  type Accepted,
  believe,
  COMMON,
  findDue,
  findStubNames,
  isAsBelieved,
  runsForReal,
} from "./belief.ts";
import { minimise } from "./minimise.ts";
import { type Batch, type Executed, runProcesses, runTexts } from "./shell_runner.ts";
import { BUILTINS, type Shell } from "./shells.ts";

/** How texts are run; see `shell_runner.ts`. */
export type Manner = "eval" | "-c";

/** A text that a shell and the firewall interpret differently. */
export interface Mismatch {
  readonly accepted: Accepted;
  readonly executed: Executed;
}

// In a separate process, these run for real, and a stub does not see them.
const INVISIBLE: ReadonlySet<string> = new Set([
  ...BUILTINS,
  ..."[[ cat kill mknod realpath rename".split(" "),
]);

/** Whether everything that a text runs can be observed in a separate process. */
export function isObservableAlone({ commands }: Accepted): boolean {
  return !commands.some((words) => words.some((word) => INVISIBLE.has(word)));
}

/** The texts that the shell and the firewall interpret differently. */
export async function compare(
  shell: Shell,
  { texts, manner }: { readonly texts: readonly Accepted[]; readonly manner: Manner },
): Promise<readonly Mismatch[]> {
  const batch: Batch = {
    texts: texts.map(({ text }) => text),
    stubs: new Set([...COMMON, ...texts.flatMap(findStubNames)]),
    apart: new Set(texts.keys().filter((index) => runsForReal(texts[index]!))),
  };
  const runs = await (manner === "-c" ? runProcesses : runTexts)(shell, batch);
  if (runs === undefined) return await findStray(shell, { texts, manner });
  return texts.flatMap((accepted, index) => {
    const executed = runs[index]!;
    return isAsBelieved(accepted, executed) ? [] : [{ accepted, executed }];
  });
}

/** One of these texts ended or stopped the shell, or wrote a file. Bisects until it is found. */
async function findStray(
  shell: Shell,
  { texts, manner }: { readonly texts: readonly Accepted[]; readonly manner: Manner },
): Promise<readonly Mismatch[]> {
  const [only] = texts;
  if (only !== undefined && texts.length === 1) {
    return [{ accepted: only, executed: [["(did not come to its end, or wrote a file)"]] }];
  }
  const middle = Math.ceil(texts.length / 2);
  return [
    ...await compare(shell, { texts: texts.slice(0, middle), manner }),
    ...await compare(shell, { texts: texts.slice(middle), manner }),
  ];
}

/** Describes a mismatch for a person: shrinks the text and shows every text in visible quotes. */
export async function describeMismatch(
  shell: Shell,
  { mismatch: { accepted, executed }, manner }: { readonly mismatch: Mismatch; readonly manner: Manner },
): Promise<string> {
  const smallest = await minimise(accepted.text, async (texts) => {
    const believed = texts.map((text) => believe(text));
    const known = believed.flatMap((belief) => belief.kind === "accepted" ? [belief.accepted] : []);
    const failing = new Set((await compare(shell, { texts: known, manner })).map((each) => each.accepted));
    return [...believed.entries()]
      .filter(([, belief]) => belief.kind === "accepted" && failing.has(belief.accepted))
      .map(([index]) => index);
  });
  const again = believe(smallest);
  const shown = again.kind === "accepted"
    ? (await compare(shell, { texts: [again.accepted], manner }))[0]
    : undefined;
  return [
    `${shell.name} (${manner}) took a command otherwise than the firewall`,
    `  text:      ${quote(accepted.text)}`,
    `  believed:  ${quote(findDue(accepted))}`,
    `  executed:  ${quote(executed)}`,
    ...(shown === undefined ? ["  alone it is taken as believed: a text before it left something behind"] : [
      `  minimised: ${quote(shown.accepted.text)}`,
      `  believed:  ${quote(findDue(shown.accepted))}`,
      `  executed:  ${quote(shown.executed)}`,
    ]),
  ].join("\n");
}

/** JSON in ASCII, with escapes for invisible and confusable characters. */
function quote(value: unknown): string {
  return JSON.stringify(value).replace(
    /[^ -~]/g,
    (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
