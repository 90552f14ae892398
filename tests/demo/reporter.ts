import { visibleText } from "@gateway/shared/text";

/** What one step of the demo showed. */
export interface StepResult {
  readonly ok: boolean;
  /** One sentence a line, what happened. */
  readonly shows: string;
  /** Text to show as it is, such as a certificate. */
  readonly exhibit?: string;
  readonly facts?: Readonly<Record<string, unknown>>;
}

export interface Step {
  readonly name: string;
  /** What a spectator is about to see. */
  readonly title: string;
  readonly run: () => Promise<StepResult>;
}

/** Tells the demo's steps to a terminal, or one JSON object for each step to a program. */
export interface Reporter {
  begin(step: Step): void;
  end(step: Step, result: StepResult, elapsedMs: number): void;
  say(text: string): void;
}

/** One JSON object for each step on stdout. */
export function jsonReporter(write: (text: string) => void): Reporter {
  return {
    begin() {},
    end({ name }, { ok, shows, exhibit, facts }, elapsedMs) {
      write(`${JSON.stringify({ step: name, ok, shows, exhibit, ...facts, ms: Math.round(elapsedMs) })}\n`);
    },
    say() {},
  };
}

/** Titles, sentences and exhibits for a person; colour only on a terminal. */
export function terminalReporter(
  write: (text: string) => void,
  options: { readonly colour: boolean },
): Reporter {
  const paint = (code: number, text: string) => options.colour ? `\x1b[${code}m${text}\x1b[0m` : text;
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
