import { type Advice, withHint } from "./with_hint.ts";

const ADVICE: Advice = {
  when: ({ cause }) => cause instanceof Deno.errors.NotFound,
  hint: "--config names the file; broker-ctl init makes one",
};

/** Loads a config; where there is no such file the error says which option names it. */
export function hintMissingConfig<T>(load: () => Promise<T>): Promise<T> {
  return withHint(ADVICE, load);
}
