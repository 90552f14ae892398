import { AppError } from "@gateway/shared/errors";
import { HintedError } from "./output.ts";

/** Advice on one kind of error. */
export interface Advice {
  readonly when: (error: AppError) => boolean;
  readonly hint: string;
}

/**
 * Runs an action, whose error says what to do about it.
 *
 * @throws {HintedError} for an error that the advice is about; any other as it comes
 */
export async function withHint<T>({ when, hint }: Advice, action: () => Promise<T>): Promise<T> {
  try {
    return await action();
  } catch (error) {
    if (error instanceof AppError && when(error)) throw new HintedError(error, hint);
    throw error;
  }
}

const ADVICE: Advice = {
  when: ({ cause }) => cause instanceof Deno.errors.NotFound,
  hint: "--config names the file; broker-ctl init makes one",
};

/** Loads a config; where there is no such file the error says which option names it. */
export function hintMissingConfig<T>(load: () => Promise<T>): Promise<T> {
  return withHint(ADVICE, load);
}
