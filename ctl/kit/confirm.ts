import { visibleText } from "@gateway/shared/text";
import type { Environment } from "./output.ts";

/** Asks a question on the terminal. Only the key `y` confirms. */
export async function confirm(
  { terminal, keys }: Pick<Environment, "terminal"> & { readonly keys: NonNullable<Environment["keys"]> },
  question: string,
): Promise<boolean> {
  terminal.err(`${visibleText(question)} [y/N] `);
  const ended = new AbortController();
  let isConfirmed = false;
  for await (const key of keys(ended.signal)) {
    isConfirmed = /^y$/i.test(key);
    ended.abort();
    break;
  }
  terminal.err(isConfirmed ? "yes\n" : "no\n");
  return isConfirmed;
}
