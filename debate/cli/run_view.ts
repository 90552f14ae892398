import type { RunEvent, ToolArgs } from "../engine/events.ts";
import { type Decision, type Hypothesis, ROLES } from "../engine/graph/state.ts";
import { count } from "../engine/graph/text.ts";
import { createPaint, exactLine, type Paint, safeLine, safeText, type Terminal, wrap } from "./terminal.ts";

const INDENT = "  ";
const MAX_CALL = 400;
const MAX_RESULT_LINES = 6;

export class RunView {
  readonly #terminal: Terminal;
  readonly #paint: Paint;
  #round = 1;
  #hasRoundTitle = false;
  #speaker = "";
  #streamed: StreamedText | undefined;

  constructor(terminal: Terminal) {
    this.#terminal = terminal;
    this.#paint = createPaint(terminal.errColor);
  }

  readonly show = (event: RunEvent): void => {
    switch (event.type) {
      case "agent_turn_started":
        this.#endStream();
        this.#title(event.agent_role);
        if (this.#terminal.isLive) this.#streamed = this.#stream();
        return;
      case "agent_delta":
        this.#streamed?.push(event.delta);
        return;
      case "agent_reasoning":
        return this.#say(event.agent_role, event.content);
      case "agent_completed":
        this.#say(event.role, event.content);
        this.#speaker = "";
        return;
      case "samples_compared":
        this.#title(ROLES.diagnostic_agent, { isWhole: true });
        return this.#line("dim", event.reason);
      case "run_warning":
        return this.note(event.message);
      case "agent_skipped":
        this.#title(event.role, { isWhole: true });
        return this.#line("dim", `skipped: ${event.rationale || "the moderator has no task for it"}`);
      case "tool_call_started":
        return this.#call(event);
      case "tool_call":
        return this.#toolResult(event);
      case "hypothesis_update":
        this.#endStream();
        return this.#table(event.hypotheses);
      case "moderator_decision":
        this.#endStream();
        this.#title(ROLES.moderator_agent, { isWhole: true });
        return this.#decision(event.decision);
      case "history_compressed":
        return this.#line("dim", "Older rounds were summarized.");
      case "model_waiting":
        return this.note(`${event.model} is rate limited, retry in ${event.seconds} s.`);
      case "reasoning_effort_ignored":
        return this.#line("dim", `${event.model} does not support a reasoning effort.`);
      default:
        return this.#endStream();
    }
  };

  /** Prints a note in the middle of the text of an agent, which then continues. */
  readonly note = (text: string): void => {
    this.#streamed?.interrupt();
    this.#paragraph(`note: ${text}`, (line) => this.#paint("yellow", line));
  };

  close(): void {
    this.#endStream();
  }

  #stream(): StreamedText {
    return new StreamedText(this.#terminal.err, { width: this.#terminal.width, indent: INDENT });
  }

  /** Prints the name of a speaker, once for consecutive texts. A whole turn is followed by a name in any case. */
  #title(role: string, { isWhole = false } = {}): void {
    if (!this.#hasRoundTitle) {
      this.#hasRoundTitle = true;
      this.#write(`\n${this.#paint("bold", `Round ${this.#round}`)}\n`);
    }
    if (this.#speaker !== role) this.#write(`\n${this.#paint("bold", role)}\n`);
    this.#speaker = isWhole ? "" : role;
  }

  /** Prints a text unless it was already streamed. */
  #say(role: string, content: string): void {
    const streamed = this.#streamed;
    this.#endStream();
    if (streamed?.isEmpty === false || content.trim() === "") return;
    this.#title(role);
    const text = this.#stream();
    text.push(content);
    text.end();
  }

  #endStream(): void {
    this.#streamed?.end();
    this.#streamed = undefined;
  }

  #toolResult(event: Extract<RunEvent, { type: "tool_call" }>): void {
    // A call that never started has not been printed yet.
    if (event.duration_ms === null || event.cached) this.#call(event);
    const time = event.cached ? "cached" : event.duration_ms === null ? "not run" : `${event.duration_ms} ms`;
    this.#line(event.error ? "red" : "green", `< ${event.error ? "failed" : "ok"}, ${time}`);
    const lines = event.result.split("\n").filter((line) => line.trim() !== "");
    for (const line of lines.slice(0, MAX_RESULT_LINES)) this.#line("dim", `| ${line}`);
    const more = lines.length - MAX_RESULT_LINES;
    if (more > 0) this.#line("dim", `| (${count(more, "more line")})`);
  }

  #call(event: Extract<RunEvent, { type: "tool_call" | "tool_call_started" }>): void {
    this.#endStream();
    this.#title(event.agent_role);
    const text = exactLine(`${event.tool_name} ${showArgs(event.args)}`, MAX_CALL);
    const [first = "", ...rest] = wrap(text, this.#terminal.width - 2 * INDENT.length);
    this.#write(`${INDENT}${this.#paint("cyan", `> ${first}`)}\n`);
    for (const line of rest) this.#write(`${INDENT}${INDENT}${this.#paint("cyan", line)}\n`);
  }

  #table(hypotheses: readonly Hypothesis[]): void {
    this.#write(`\n${this.#paint("dim", `${INDENT}Hypotheses`)}\n`);
    for (const hypothesis of hypotheses) {
      const { id, state, probability, text, evidence } = hypothesis;
      const share = probability === null ? "" : ` P=${probability.toFixed(2)}`;
      const counting = evidence.filter(({ status }) => status === "grounded").length;
      const shown = evidence.length === 0
        ? ""
        : ` (${counting} of ${evidence.length} lines of evidence count)`;
      this.#line(STATE_STYLE[state], `${id} [${state}]${share}${shown} ${text}`);
    }
  }

  #decision(decision: Decision): void {
    const { status, confidence, risk_level, leading_hypothesis, next_step, grounding } = decision;
    const isOpen = status === "continue" || grounding?.outcome === "no_confident_cause";
    this.#line(
      isOpen ? "yellow" : "green",
      `${status}, confidence ${confidence.toFixed(2)}, risk ${risk_level}`,
    );
    if (grounding !== undefined) {
      const { outcome, stated_confidence: stated, reason } = grounding;
      if (outcome === "no_confident_cause") this.#line("yellow", "No confident cause");
      const limit = stated > confidence ? `the moderator stated ${stated.toFixed(2)}: ` : "";
      this.#paragraph(`Evidence: ${limit}${reason}`);
    }
    if (leading_hypothesis !== "") this.#paragraph(`Leading: ${leading_hypothesis}`);
    if (next_step !== "") this.#paragraph(`Next: ${next_step}`);
    if (status !== "continue") return;
    this.#round += 1;
    this.#hasRoundTitle = false;
  }

  #paragraph(text: string, paint = (line: string) => line): void {
    const lines = wrap(safeText(text).replace(/\s+/g, " "), this.#terminal.width - INDENT.length);
    this.#write(lines.map((line) => `${INDENT}${paint(line)}\n`).join(""));
  }

  #line(style: Parameters<Paint>[0], text: string): void {
    this.#write(`${INDENT}${this.#paint(style, safeLine(text, this.#terminal.width - INDENT.length))}\n`);
  }

  #write(text: string): void {
    this.#terminal.err(text);
  }
}

const STATE_STYLE = { active: "yellow", rejected: "dim", confirmed: "green" } as const;

function showArgs(args: ToolArgs): string {
  return Object.entries(args).map(([name, value]) =>
    `${name}=${typeof value === "string" ? value : JSON.stringify(value)}`
  ).join(" ");
}

export class StreamedText {
  readonly #write: (text: string) => void;
  readonly #width: number;
  readonly #indent: string;
  #column = 0;
  #word = "";
  #blank = "";
  #isEmpty = true;

  constructor(write: (text: string) => void, options: { readonly width: number; readonly indent: string }) {
    this.#write = write;
    this.#width = Math.max(20, options.width - options.indent.length);
    this.#indent = options.indent;
  }

  get isEmpty(): boolean {
    return this.#isEmpty;
  }

  push(piece: string): void {
    for (const [part] of piece.matchAll(/\n|[^\S\n]+|\S+/g)) {
      if (part === "\n") this.#breakLine();
      else if (part.trim() === "") {
        this.#flushWord();
        this.#blank += part.replace(/\t/g, "  ");
      } else this.#word += part;
    }
  }

  end(): void {
    this.#flushWord();
    this.interrupt();
  }

  /** Ends the line before other output. The text, with its incomplete word, continues below. */
  interrupt(): void {
    if (this.#column > 0) this.#write("\n");
    this.#column = 0;
    this.#blank = "";
  }

  #breakLine(): void {
    this.#flushWord();
    this.#blank = "";
    // Models often begin with empty lines.
    if (this.#isEmpty) return;
    this.#write("\n");
    this.#column = 0;
  }

  #flushWord(): void {
    if (this.#word === "") return;
    // A whole word never ends in the middle of a character.
    const word = safeText(this.#word);
    this.#word = "";
    if (this.#column > 0 && this.#column + this.#blank.length + word.length > this.#width) {
      this.#write("\n");
      this.#column = 0;
      this.#blank = "";
    }
    const text = `${this.#blank}${word}`;
    this.#write(this.#column === 0 ? `${this.#indent}${text}` : text);
    this.#column += text.length;
    this.#blank = "";
    this.#isEmpty = false;
  }
}
