import { visibleText } from "@gateway/shared/text";

/** The result of one step of the demo. */
export interface StepResult {
  readonly ok: boolean;
  /** Description of the result, one sentence a line. */
  readonly shows: string;
  /** Text to show unchanged, such as a certificate. */
  readonly exhibit?: string;
  readonly facts?: Readonly<Record<string, unknown>>;
}

export interface Step {
  readonly name: string;
  /** Description of the step for the reader. */
  readonly title: string;
  readonly run: () => Promise<StepResult>;
}

/** Prints the steps as text for a terminal, or as one JSON object for each step. */
export interface Reporter {
  begin(step: Step): void;
  end(step: Step, result: StepResult, elapsedMs: number): void;
  say(text: string): void;
}

/** Prints one JSON object for each step on stdout. */
export function jsonReporter(write: (text: string) => void): Reporter {
  return {
    begin() {},
    end({ name }, { ok, shows, exhibit, facts }, elapsedMs) {
      write(`${JSON.stringify({ step: name, ok, shows, exhibit, ...facts, ms: Math.round(elapsedMs) })}\n`);
    },
    say() {},
  };
}

/** Prints titles, sentences and exhibits as text; colored only on a terminal. */
export function terminalReporter(
  write: (text: string) => void,
  options: { readonly color: boolean },
): Reporter {
  const paint = (code: number, text: string) => options.color ? `\x1b[${code}m${text}\x1b[0m` : text;
  let count = 0;
  return {
    begin(step) {
      count += 1;
      write(`\n${paint(1, `${count}. ${step.title}`)}\n`);
    },
    end(_step, { ok, shows, exhibit }, elapsedMs) {
      const mark = ok ? paint(32, "ok") : paint(31, "FAILED");
      for (const line of shows.split("\n")) write(`   ${visibleText(line)}\n`);
      for (const line of exhibit?.split("\n") ?? []) write(`   ${paint(2, "│")} ${visibleText(line)}\n`);
      write(`   ${mark} ${paint(2, `${Math.round(elapsedMs)} ms`)}\n`);
    },
    say: (text) => write(`${text}\n`),
  };
}
