import { type Environment, invalid } from "./output.ts";

/**
 * Asks a yes-or-no question on the terminal.
 *
 * @param why the reason and the fix for a run without a terminal
 * @throws {AppError} `invalid_request` without a terminal
 */
export async function confirm(
  { terminal, keys }: Pick<Environment, "terminal" | "keys">,
  question: string,
  why: { readonly problem: string; readonly fix: string },
): Promise<boolean> {
  if (keys === undefined) throw invalid(why.problem, undefined, why.fix);
  terminal.err(`${question} [y/N] `);
  const ended = new AbortController();
  let isYes = false;
  for await (const key of keys(ended.signal)) {
    isYes = /^y$/i.test(key);
    ended.abort();
    break;
  }
  terminal.err(`${isYes ? "yes" : "no"}\n`);
  return isYes;
}
