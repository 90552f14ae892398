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

const COLUMNS = 100;

/** Prints titles, sentences and exhibits as text; colored only on a terminal. Writes `$DEMO` for the directory. */
export function terminalReporter(
  write: (text: string) => void,
  { color, dir }: { readonly color: boolean; readonly dir: string },
): Reporter {
  const paint = (code: number, text: string) => color ? `\x1b[${code}m${text}\x1b[0m` : text;
  const short = (text: string) => text.replaceAll(dir, "$DEMO");
  let count = 0;
  return {
    begin({ title }) {
      if (count === 0) write(`${paint(2, `$DEMO is ${dir}`)}\n`);
      count += 1;
      const [first = "", ...more] = wrap(`${count}. ${short(title)}`, COLUMNS - 3);
      write(`\n${[first, ...more.map((line) => ` ${line}`)].map((line) => paint(1, line)).join("\n")}\n`);
    },
    end(_step, { ok, shows, exhibit }, elapsedMs) {
      const mark = ok ? paint(32, "ok") : paint(31, "FAILED");
      const lines = short(shows).split("\n").flatMap((line) => wrap(visibleText(line), COLUMNS - 5));
      for (const line of lines) write(`   ${line}\n`);
      const exhibited = exhibit?.split("\n").flatMap((line) => wrap(visibleText(line), COLUMNS - 5)) ?? [];
      for (const line of exhibited) write(`   ${paint(2, "│")} ${line}\n`);
      write(`   ${mark} ${paint(2, `${Math.round(elapsedMs)} ms`)}\n`);
    },
    say: (text) => write(`${text}\n`),
  };
}

/** Breaks a line at spaces. Lines after the first are indented by two columns. */
function wrap(line: string, columns: number): string[] {
  const end = line.length <= columns ? -1 : line.lastIndexOf(" ", columns);
  return end <= 2 ? [line] : [line.slice(0, end), ...wrap(`  ${line.slice(end + 1)}`, columns)];
}
